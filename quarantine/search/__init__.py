"""shardward.quarantine.search"""

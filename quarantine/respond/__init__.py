"""shardward.quarantine.respond"""

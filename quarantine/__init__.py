"""shardward.quarantine"""

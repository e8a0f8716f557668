"""shardward.quarantine.diagnose"""

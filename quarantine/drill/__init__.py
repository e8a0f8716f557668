"""shardward.quarantine.drill"""

"""shardward.loader"""

"""shardward.cli"""

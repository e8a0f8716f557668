"""shardward.loader.sources"""

"""shardward.quarantine.ledger"""

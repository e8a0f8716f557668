"""The quarantine service: ledger, diagnosis, search, response and the drill."""

"""The journal and the ledger against their bars; one JSON object for each result."""

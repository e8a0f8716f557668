"""The loader against its limits and its peers: the same documents, one run, one JSON per result."""

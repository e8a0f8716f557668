"""Finding bad documents: features, detectors, near-duplicate signatures and corpus-wide search."""

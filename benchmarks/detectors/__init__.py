"""How well and how fast the detectors and the search do."""

"""Drills over several seeds, salted and clean."""

"""The drill: a full incident on real text, played through public interfaces alone."""

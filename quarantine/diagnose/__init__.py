"""The signals: what happened to a run, since when, do others agree, and what may have caused it."""

"""The acts: decisions and revisions, incidents, rewind and resume, the report, the rebuild.

Import from the modules; a trainer that asks for its orders (`respond.resume`) loads neither
DuckDB nor the report.
"""

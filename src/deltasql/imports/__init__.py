"""Imports: a log becomes versions in SQL, validated against the log, and may be cut over.

Maintenance and the API may import it; it does not know the mirror. Start with `job`, which runs
one import: `plan` decides what to read, `engines` read it by `read`, `load` writes it to SQL and
`validate` compares.
"""

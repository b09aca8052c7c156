"""A table at one version, read from SQL: definition, files, checkpoints' source, commits.

All packages above the metastore may import it. Start with `snapshot`.
"""

"""The SQL book: the source of truth for tables, commits and files. Never touches a store."""

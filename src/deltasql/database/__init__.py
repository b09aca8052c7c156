"""One module per database: how it connects, locks, binds and reports errors."""

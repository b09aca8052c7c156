"""Is the log equal to SQL? One comparison for checkpoints, `mirror verify` and the import."""

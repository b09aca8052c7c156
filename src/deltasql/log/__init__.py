"""One table's `_delta_log` on a store: protocol + storage. Never touches SQL."""

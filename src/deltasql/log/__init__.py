"""A `_delta_log` on a store: its commits, checkpoints and owner marker, read and written.

It knows no SQL; the metastore and all above may import it. Start with `commits`.
"""

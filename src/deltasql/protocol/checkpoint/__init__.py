"""The columns of checkpoints: what we write and what we understand of others'.

The log, the mirror and imports use it. Start with `layout`.
"""

"""Bytes at a location: local files, memory and cloud stores behind one port.

All above may import it; it imports settings and errors. Start with `port`, then `resolve`,
which opens the store of a location.
"""

"""Schemas of Delta tables: types, what columns mean, and their form in Arrow.

Every package may import it. Start with `types`.
"""

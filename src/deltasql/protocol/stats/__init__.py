"""Statistics of data files: parsed with tolerance, and built for new files.

Every package may import it. Start with `parse`.
"""

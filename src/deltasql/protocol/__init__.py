"""What Delta's protocol says, as pure functions and frozen values; no I/O and no clock.

Every package may import it; it imports nothing of ours but errors and clockless helpers. Start
with `actions`, then `codec` for their bytes and `conflicts` for concurrent commits.
"""

"""catalog → log: every commit reaches `_delta_log`, in order, exactly as it is stored."""

"""Hooks for crash points: do something in the middle of something else."""


def once(point, do):
    """Return a hook that does something at the first passage of a point."""
    passed = []

    def hook(name):
        if name == point and not passed:
            passed.append(name)
            do()

    hook.passed = passed
    return hook

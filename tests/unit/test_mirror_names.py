"""The names under which the mirror's documentation speaks of its classes."""

import pytest

from deltasql import mirror


def test_the_mirror_exports_the_classes_of_its_documentation():
    names = {name: getattr(mirror, name).__name__ for name in mirror.__all__}
    assert names == {name: name for name in names}
    assert {"MirrorEngine", "MirrorReconciler", "MirrorStatusTracker", "CheckpointWriter"} <= {
        *names
    }


def test_the_mirror_has_no_other_names():
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        getattr(mirror, "Nothing")  # noqa: B009 (a name that is not there)

"""What a commit does to rows, told by its files."""

from builders import a_remove, an_add
from deltasql.protocol.actions import Cdc, CommitInfo, DeletionVector
from deltasql.protocol.changes import ChangedFile, followed


def a_vector(text, **changes) -> DeletionVector:
    values = {"storage_type": "i", "size_in_bytes": 40, "cardinality": 1}
    return DeletionVector(path_or_inline_dv=text, **{**values, **changes})


def changed(*actions):
    found = followed(7, 1, "c", [CommitInfo(), *actions]).changed()
    return [(one.path, one.change, one.deletion_vector, one.among) for one in found]


def test_files_that_change_no_row_are_left_out():
    kept = an_add("kept", data_change=False)
    commit = followed(7, 1, "c", [kept, a_remove(kept, data_change=False)])
    assert commit.files == ()
    assert commit.changed() == commit.appended() == []


def test_added_rows_are_inserted_and_removed_ones_deleted():
    vector = a_vector("v")
    assert changed(a_remove(an_add("old"), deletion_vector=vector), an_add("new")) == [
        ("old", "delete", vector, None),
        ("new", "insert", None, None),
    ]


def test_files_of_changes_tell_everything():
    cdc = Cdc(path="_change_data/c", partition_values={"day": "a"}, size=5, data_change=False)
    commit = followed(7, 1, "c", [an_add("new"), a_remove(an_add("old")), cdc])
    assert commit.changed() == [ChangedFile("_change_data/c", 5, {"day": "a"})]
    assert commit.inseparable() == [5]


def test_two_vectors_of_a_file_are_their_difference():
    old, new = a_vector("old"), a_vector("new")
    file = an_add("f")
    deleted = changed(an_add("f", deletion_vector=new), a_remove(file))
    assert deleted == [("f", "delete", None, new)]
    restored = changed(file, a_remove(file, deletion_vector=old))
    assert restored == [("f", "insert", None, old)]
    both = changed(an_add("f", deletion_vector=new), a_remove(file, deletion_vector=old))
    assert both == [("f", "delete", old, new), ("f", "insert", new, old)]
    same = changed(an_add("f", deletion_vector=old), a_remove(file, deletion_vector=old))
    assert same == []


def test_vectors_belong_together_and_plain_files_do_not():
    file = an_add("f", size=3)
    plain = followed(7, 1, "c", [file, a_remove(an_add("g"))])
    assert plain.inseparable() is None
    removed = a_remove(file, deletion_vector=a_vector("old"), size=None)
    assert followed(7, 1, "c", [file, removed]).inseparable() == [3, 0]


def test_a_file_that_goes_and_comes_back_without_vectors():
    file = an_add("f")
    assert changed(file, a_remove(file)) == [
        ("f", "insert", None, None),
        ("f", "delete", None, None),
    ]

"""Pure: which ids the rows of new files get."""

import json

import pytest

from builders import an_add
from deltasql.errors import InvalidCommitError, UnsupportedFeatureError
from deltasql.protocol.actions import Add, DeletionVector, DomainMetadata, Txn
from deltasql.protocol.row_tracking import DOMAIN, read_mark, refuse_moved_rows, with_row_ids

TRACKED = {"delta.enableRowTracking": "true"}


def mark_of(actions) -> int | None:
    found = [a for a in actions if isinstance(a, DomainMetadata) and a.domain == DOMAIN]
    assert len(found) <= 1
    return json.loads(found[0].configuration)["rowIdHighWaterMark"] if found else None


def domain(mark: int) -> DomainMetadata:
    text = json.dumps({"rowIdHighWaterMark": mark})
    return DomainMetadata(configuration=text, domain=DOMAIN, removed=False)


def numbers(actions) -> list[tuple[int, int]]:
    adds = [a for a in actions if isinstance(a, Add)]
    return [(add.base_row_id, add.default_row_commit_version) for add in adds]


def test_files_get_ids_one_after_the_other():
    txn = Txn(app_id="a", version=1)
    files = [an_add("a", low=0, high=9), an_add("b", low=0, high=4)]
    done = with_row_ids([files[0], txn, files[1]], 7, -1)
    assert numbers(done) == [(0, 7), (10, 7)]
    assert mark_of(done) == 14
    assert txn in done
    again = with_row_ids([an_add("c", low=0, high=0)], 8, 14)
    assert (numbers(again), mark_of(again)) == ([(15, 8)], 15)


def test_files_that_come_back_keep_their_ids():
    back = an_add("a", low=0, high=9, base_row_id=3, default_row_commit_version=2)
    done = with_row_ids([back], 9, 20)
    assert (numbers(done), mark_of(done)) == ([(3, 2)], None)
    both = with_row_ids([back, an_add("b", low=0, high=1)], 9, 20)
    assert (numbers(both), mark_of(both)) == ([(3, 2), (21, 9)], 22)


def test_the_mark_never_falls():
    given = an_add("a", low=0, high=9, base_row_id=30, default_row_commit_version=9)
    assert mark_of(with_row_ids([given], 9, 20)) == 39
    assert mark_of(with_row_ids([given, domain(39)], 9, 20)) == 39
    with pytest.raises(InvalidCommitError, match="up to 20"):
        with_row_ids([given, domain(19)], 9, 20)


def test_a_file_that_does_not_count_its_rows_is_refused():
    with pytest.raises(InvalidCommitError, match="how many rows"):
        with_row_ids([an_add("a", stats=None)], 1, -1)


@pytest.mark.parametrize("text", ["", "{}", '{"rowIdHighWaterMark": "x"}', "[1]"])
def test_a_mark_that_cannot_be_read(text):
    with pytest.raises(InvalidCommitError, match=DOMAIN):
        read_mark(text)


def test_rows_that_move_must_bring_their_ids():
    moved = an_add("a", data_change=False)
    vector = DeletionVector(storage_type="i", path_or_inline_dv="x", size_in_bytes=1, cardinality=1)
    for add in (moved, an_add("a", deletion_vector=vector)):
        with pytest.raises(UnsupportedFeatureError, match="a would give old rows new ids"):
            refuse_moved_rows([add], TRACKED)
        refuse_moved_rows([add], {})
    refuse_moved_rows([an_add("a"), an_add("b", data_change=False, base_row_id=1)], TRACKED)

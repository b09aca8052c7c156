"""The marker beside the log: one owner, found again, never overwritten."""

import msgspec
import pytest

from deltasql.errors import OwnershipError, StorageUnavailableError
from deltasql.log.owner_marker import OWNER_KEY, Owner, check_owner, claim, encode_owner, read_owner
from deltasql.protocol.log_names import LogFile
from deltasql.storage.memory import MemoryStore

OURS = Owner("catalog-1", 1, "table-1")


@pytest.fixture
def store():
    return MemoryStore("memory://t")


def test_a_log_without_marker_has_no_owner(store):
    assert read_owner(store) is None
    assert check_owner(store, OURS) is False


def test_a_claim_is_found_again_and_may_be_repeated(store):
    claim(store, OURS)
    claim(store, OURS)
    assert read_owner(store) == OURS
    assert check_owner(store, OURS) is True


@pytest.mark.req("R87")
@pytest.mark.parametrize(
    "other",
    [
        Owner("catalog-2", 1, "table-1"),
        Owner("catalog-1", 2, "table-1"),
        Owner("catalog-1", 1, "table-2"),
    ],
)
def test_another_catalog_epoch_or_table_is_refused_and_changes_nothing(store, other):
    claim(store, OURS)
    before = store.get(OWNER_KEY)
    for act in (claim, check_owner):
        with pytest.raises(OwnershipError, match="belongs to catalog catalog-1, table table-1"):
            act(store, other)
    assert store.get(OWNER_KEY) == before


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b'{"catalogId":1}', b"\xff", b"[" * 10_000, b'{"epoch":1}']
)
def test_a_damaged_marker_stops_everyone_and_blames_nobody(store, text):
    store.put(OWNER_KEY, text)
    for act in (
        lambda: read_owner(store),
        lambda: claim(store, OURS),
        lambda: check_owner(store, OURS),
    ):
        with pytest.raises(StorageUnavailableError, match=r"damaged|Only the first"):
            act()
    assert store.get(OWNER_KEY) == text


def test_the_marker_is_one_line_of_json_that_readers_ignore():
    text = encode_owner(OURS)
    assert text == b'{"catalogId":"catalog-1","epoch":1,"tableId":"table-1"}\n'
    assert msgspec.json.decode(text, type=Owner) == OURS
    assert LogFile.parse(OWNER_KEY.removeprefix("_delta_log/")) is None

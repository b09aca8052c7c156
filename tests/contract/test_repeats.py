"""Writes sent twice: by a token, or by the number that an application gives them."""

import threading

import pytest

from builders import an_add, ids, rows
from deltasql.errors import BadArgumentError

pytestmark = pytest.mark.req("R9")

NUMBERED = {
    "append": lambda table, txn: table.append(rows(txn[1]), txn=txn),
    "overwrite": lambda table, txn: table.overwrite(rows(txn[1]), txn=txn),
    "commit": lambda table, txn: table.commit([an_add(f"f{txn[1]}")], txn=txn),
    "delete": lambda table, txn: table.delete("day = 'a'", txn=txn),
}


@pytest.mark.parametrize("write", list(NUMBERED))
def test_a_repeated_batch_returns_the_version_that_holds_it(table, write):
    first = NUMBERED[write](table, ("job", 1))
    second = NUMBERED[write](table, ("job", 5))
    table.append(rows(9, day="b"))
    assert [NUMBERED[write](table, ("job", number)) for number in (1, 5, 3)] == [
        first,
        second,
        second,
    ]
    assert table.version == 3


@pytest.mark.parametrize("write", ["append", "commit"])
def test_a_batch_sent_by_many_threads_is_one_commit(table, write):
    start, versions, errors = threading.Barrier(4), [], []

    def send():
        start.wait()
        try:
            versions.append(NUMBERED[write](table, ("job", 1)))
        except Exception as error:  # noqa: BLE001 (told by the assertion)
            errors.append(error)

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (errors, versions) == ([], [1, 1, 1, 1])


OPTIONS = [
    {"commit_id": ""},
    {"commit_id": 7},
    {"commit_id": "a\x00"},
    {"expected_version": True},
    {"expected_version": "1"},
    {"txn": ("job",)},
    {"txn": ("", 1)},
    {"txn": ("job", "1")},
    {"txn": "jo"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_an_option_that_is_no_token_or_version_is_refused(catalog, table, options):
    (name,) = options
    with pytest.raises(BadArgumentError, match=name):
        table.append(rows(1), **options)
    with pytest.raises(BadArgumentError, match=name):
        table.commit([an_add("f")], **options)
    if name != "expected_version":
        with pytest.raises(BadArgumentError, match=name):
            catalog.transaction(**options)
    assert (table.version, ids(table)) == (0, [])

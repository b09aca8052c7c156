"""Random logs and random cuts: an import is what it is with a window and a segment per version."""

import json
import os
import random

import pytest

import deltasql
from import_logs import add, cut_by, do_import, metadata, remove, write_commit
from import_rows import book_rows

pytestmark = pytest.mark.req("R60", "R63")
SEEDS = int(os.environ.get("DELTASQL_FUZZ_SEEDS", "6"))
FEATURES = {
    "protocol": {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["deletionVectors", "domainMetadata"],
    }
}
SCHEMAS = [
    (("id", "long"), ("p", "string")),
    (("id", "string"), ("p", "string")),
    (("x", "long"), ("p", "string")),
]
ABSOLUTE = ("/x/{}", "file:/x/{}", "file:///x/{}")


def vector(number):
    body = {"storageType": "u", "pathOrInlineDv": f"{number:020d}", "offset": 1}
    return {"deletionVector": body | {"sizeInBytes": 1, "cardinality": 1}}


def file_actions(chance, version, *, is_doubled):
    """Actions on few files, so that they meet: with vectors, and with three spellings of a path."""
    seen = set()
    for _ in range(chance.randrange(5)):
        number, dv = chance.randrange(4), chance.choice([None, None, 0, 1])
        is_absolute = chance.random() < 0.3
        if (number, is_absolute, dv) in seen and not is_doubled:
            continue
        seen.add((number, is_absolute, dv))
        path = chance.choice(ABSOLUTE).format(number) if is_absolute else f"f{number}"
        more = {} if dv is None else vector(dv)
        if chance.random() < 0.55:
            low, part = chance.randrange(9), chance.choice("abc")
            yield add(path, version, low=low, part=part, **more)
        else:
            yield remove(path, version, **more)


def a_log(root, chance, *, is_doubled):
    for version in range(16):
        actions = [FEATURES, metadata()] if version == 0 else []
        actions += file_actions(chance, version, is_doubled=is_doubled)
        if chance.random() < 0.2:
            actions.append({"txn": {"appId": f"a{chance.randrange(2)}", "version": version}})
        if chance.random() < 0.2:
            body = {"domain": f"d{chance.randrange(2)}", "configuration": str(version)}
            actions.append({"domainMetadata": body | {"removed": chance.random() < 0.4}})
        if version and chance.random() < 0.25:
            actions.append(metadata(chance.choice(SCHEMAS)))
        chance.shuffle(actions)
        token = f"t{version if chance.random() < 0.8 else 0}"
        seconds = 1_700_000_000 + version + chance.randrange(-2, 2)
        write_commit(root, version, actions, seconds=seconds, txnId=token)
    return root


def without_late(rows):
    """Without index rows of files that came when their column had ended: nobody asks for them."""
    for kind in ("dl_stats_num", "dl_stats_text"):
        found = [(json.loads(text), text) for text in rows[kind]]
        rows[kind] = [
            text
            for row, text in found
            if row["c_until_version"] is None
            or int(row["f_added_version"]) < int(row["c_until_version"])
        ]
    return rows


@pytest.mark.parametrize("seed", range(SEEDS))
def test_any_cut_gives_the_same_rows(catalog_uri, second_uri, tmp_path, monkeypatch, seed):
    chance = random.Random(seed)
    is_doubled = seed % 3 == 0
    root = a_log(tmp_path / "t", chance, is_doubled=is_doubled)
    split = chance.choice([None, 5, 9])

    def rows(uri, sizes):
        options = {"lenient": is_doubled}
        with deltasql.connect(uri) as catalog:
            if split is not None:
                cut_by(monkeypatch, sizes)
                do_import(catalog, root, up_to_version=split, **options)
                options["resume"] = True
            cut_by(monkeypatch, sizes[::-1])
            done = do_import(catalog, root, **options)
            assert done.validation.is_equal, (seed, list(done.validation.lines()))
            return without_late(book_rows(catalog, done.row.table_id))

    expected = rows(second_uri, [1] * 30)
    found = rows(catalog_uri, [chance.randint(1, 6) for _ in range(30)])
    assert {name for name in found if found[name] != expected[name]} == set(), seed

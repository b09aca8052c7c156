"""Every legacy protocol with every metadata that uses a feature, as other writers leave them."""

from collections.abc import Iterator

import pyarrow as pa

from foreign_tables import ForeignTable, a_field

LISTS = {
    (1, 7): (None, ["appendOnly", "invariants"]),
    (2, 7): (None, ["appendOnly", "columnMapping", "invariants"]),
    (3, 7): (["timestampNtz"], ["appendOnly", "invariants", "timestampNtz"]),
}
PAIRS = [(r, w) for r in (1, 2) for w in range(1, 8)] + [(3, 7)]
ROWS = pa.table({"id": [1, 2], "p": ["a", "b"]})
_INVARIANT = '{"expression":{"expression":"id > 0"}}'
_IDENTITY = {
    "delta__identity__start": 1,
    "delta__identity__step": 1,
    "delta__identity__allowExplicitInsert": True,
}
METADATA = {
    "plain": {},
    "append only": {"configuration": {"delta.appendOnly": "true"}},
    "change feed": {"configuration": {"delta.enableChangeDataFeed": "true"}},
    "check": {"configuration": {"delta.constraints.low": "id > 0"}},
    "generated": {
        "fields": (a_field("id"), a_field("p", "string", delta__generationExpression="'a'"))
    },
    "identity": {"fields": (a_field("id", **_IDENTITY), a_field("p", "string"))},
    "invariant": {"fields": (a_field("id", delta__invariants=_INVARIANT), a_field("p", "string"))},
    "not null": {"fields": (a_field("id", nullable=False), a_field("p", "string"))},
}
# Mapped columns are for protocols that know them; their files are under the physical names.
MAPPED = {
    "configuration": {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"},
    "fields": tuple(
        a_field(
            name,
            kind,
            delta__columnMapping__id=number,
            delta__columnMapping__physicalName=f"col-{name}",
        )
        for number, (name, kind) in enumerate((("id", "long"), ("p", "string")), start=1)
    ),
}


def legacy_table(pair: tuple[int, int], metadata: dict) -> ForeignTable:
    """Return a table of that protocol and metadata."""
    readers, writers = LISTS.get(pair, (None, None))
    return ForeignTable(versions=pair, reader_features=readers, writer_features=writers, **metadata)


def legacy_tables(pair: tuple[int, int]) -> Iterator[tuple[str, ForeignTable, pa.Table]]:
    """Yield every metadata under a protocol, with the rows of its one file."""
    for name, metadata in METADATA.items():
        yield name, legacy_table(pair, metadata), ROWS
    if pair in {(2, 5), (2, 6), (2, 7)}:
        yield "mapped", legacy_table(pair, MAPPED), ROWS.rename_columns(["col-id", "col-p"])

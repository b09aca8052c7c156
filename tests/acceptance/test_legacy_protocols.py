"""Cut-over and detach of legacy tables: who could read or write them before can do so after."""

import pyarrow as pa
import pytest

import deltasql
from deltasql.errors import UnsupportedFeatureError
from deltasql.protocol.features import check_new_protocol, listed_features
from deltasql.protocol.properties import missing_features
from foreign_tables import ForeignTable, put_commit
from legacy_protocols import MAPPED, METADATA, PAIRS, ROWS, legacy_table, legacy_tables
from readers import READERS, read_deltasql

# The writer version that tells writers of such columns, if no list does.
UNTOLD = {"generated": 4, "identity": 6}
pytestmark = pytest.mark.req("R26", "R83", "R102")


def readers_of(root) -> dict[str, list]:
    """The rows as every reader sees them that does not refuse the table."""
    found = {}
    for name, read in READERS.items():
        try:
            found[name] = read(str(root))
        except Exception:  # noqa: BLE001 (each library has its own)
            continue
    return found


def can_append(root) -> bool:
    import deltalake

    try:
        deltalake.write_deltalake(str(root), ROWS, mode="append")
    except Exception:  # noqa: BLE001 (whatever it says, it did not append)
        return False
    return True


@pytest.fixture
def catalog(tmp_path):
    with deltasql.connect(f"deltasql://sqlite/{tmp_path}/catalog.db") as found:
        found.create_if_missing()
        yield found


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_whoever_read_a_legacy_table_reads_it_after_cut_over_and_detach(catalog, tmp_path, pair):
    tried = 0
    for name, made, rows in legacy_tables(pair):
        root = made.write(tmp_path / name.replace(" ", "-"), [({}, rows)])
        before = readers_of(root)
        catalog.import_table(str(root), name=f"t{tried}", engine="local")
        catalog.cutover(f"t{tried}")
        table = catalog.table(f"t{tried}")
        protocol, metadata = table.snapshot().protocol, table.snapshot().metadata
        assert check_new_protocol(protocol) is None, name
        assert missing_features(metadata, listed_features(protocol)) == {}, name
        assert read_deltasql(table) == ROWS.to_pylist()
        after = readers_of(root)
        assert {key: after.get(key) for key in before} == before, (pair, name)
        table.detach()
        released = readers_of(root)
        assert {key: released.get(key) for key in before} == before, (pair, name)
        tried += 1
    assert tried >= len(METADATA)


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_deltalake_appends_after_detach_where_it_could_before(catalog, tmp_path, pair):
    tried = 0
    for name, made, rows in legacy_tables(pair):
        if name in {"generated", "identity"} and (UNTOLD[name] > pair[1] or pair[1] == 7):
            continue  # deltalake writes wrong values only because the protocol does not tell it
        place = name.replace(" ", "-")
        could = can_append(made.write(tmp_path / f"before-{place}", [({}, rows)]))
        if not could:
            continue
        root = made.write(tmp_path / place, [({}, rows)])
        catalog.import_table(str(root), name=f"t{tried}", engine="local")
        catalog.cutover(f"t{tried}")
        assert not can_append(root), (pair, name)
        catalog.table(f"t{tried}").detach()
        assert can_append(root), (pair, name)
        tried += 1
    assert tried or pair[1] == 6  # where deltalake appends to nothing


@pytest.mark.parametrize("pair", [(1, 2), (1, 6), (1, 7)], ids=str)
def test_mapped_columns_under_a_protocol_that_does_not_know_them_are_refused(
    catalog, tmp_path, pair
):
    rows = ROWS.rename_columns(["col-id", "col-p"])
    root = legacy_table(pair, MAPPED).write(tmp_path / "t", [({}, rows)])
    catalog.import_table(str(root), name="t", engine="local")
    before = sorted(path.name for path in root.rglob("*"))
    with pytest.raises(UnsupportedFeatureError, match="readers disagree"):
        catalog.cutover("t")
    assert sorted(path.name for path in root.rglob("*")) == before


def test_metadata_that_uses_what_we_cannot_keep_is_refused_before_the_claim(catalog, tmp_path):
    made = ForeignTable(configuration={"delta.enableIcebergCompatV1": "true"})
    root = made.write(tmp_path / "t", [({}, ROWS)])
    catalog.import_table(str(root), name="t", engine="local")
    with pytest.raises(UnsupportedFeatureError, match="icebergCompatV1"):
        catalog.cutover("t")
    assert len(list((root / "_delta_log").glob("*.json"))) == 1


def test_timestamps_of_another_writer_stay_when_a_table_is_detached(catalog, tmp_path):
    features = ["appendOnly", "inCommitTimestamp", "invariants"]
    made = ForeignTable(
        versions=(1, 7),
        writer_features=features,
        configuration={"delta.enableInCommitTimestamps": "true"},
    )
    root = tmp_path / "t"
    info = {"timestamp": 1, "inCommitTimestamp": 1, "operation": "FOREIGN"}
    put_commit(
        root, 0, {"commitInfo": info}, {"protocol": made.protocol}, {"metaData": made.metadata}
    )
    catalog.import_table(str(root), name="t", engine="local")
    catalog.cutover("t")
    table = catalog.table("t")
    table.append(ROWS)
    table.detach()
    assert sorted(table.snapshot().protocol.writer_features) == features
    assert table.snapshot().metadata.configuration["delta.enableInCommitTimestamps"] == "true"


@pytest.mark.parametrize("keep", [False, True])
def test_detach_gives_a_new_table_back_as_a_legacy_one_unless_timestamps_are_kept(
    catalog, tmp_path, keep
):
    schema = pa.schema([("id", pa.int64()), ("p", pa.string())])
    table = catalog.create_table("t", location=str(tmp_path / "t"), schema=schema)
    table.append(ROWS)
    table.detach(keep_timestamps=keep)
    protocol = table.snapshot().protocol
    versions = (protocol.min_reader_version, protocol.min_writer_version)
    assert versions == ((1, 7) if keep else (1, 2))
    assert can_append(tmp_path / "t") is not keep
    assert len(READERS["deltalake"](str(tmp_path / "t"))) == (2 if keep else 4)

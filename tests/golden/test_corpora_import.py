"""Real tables, imported: SQL tells of every version what an independent replay found."""

import hashlib
import json
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pytest

import deltasql
from corpora import EXPECTED, needs_corpora
from deltasql.errors import (
    DeltaSqlError,
    LogGapError,
    MalformedActionError,
    ObjectNotFoundError,
    UnsafePathError,
    UnsupportedFeatureError,
)
from deltasql.imports.job import Imported, ImportOptions, TableImport
from deltasql.metastore.table_row import TableState
from deltasql.protocol.actions import path_key
from deltasql.protocol.log_names import commit_key
from deltasql.protocol.schema.types import StructType, print_schema
from deltasql.testing import inspect
from readers import read_deltasql

pytestmark = [pytest.mark.req("R60", "R61", "R64", "R66", "R73"), needs_corpora]
# Its checkpoint names other files than its commits: no import can be equal to both.
CONTRADICTING = "trino__deltalake--clone_merge--clone_merge_cloned"
# All that is refused, and what is said; of the verdict `either` these are refused, no others.
NO_SCHEMA = "golden__deltalog-state-reconstruction-from-checkpoint-missing-metadata"
REFUSED: dict[str, tuple[type[DeltaSqlError], str]] = {
    "deltars__simple_table_features": (UnsupportedFeatureError, "reader version 5"),
    "deltarserr__table_b": (LogGapError, "Version 7 is missing"),
    "deltarserr__table_c": (LogGapError, "Version 12 is missing"),
    "deltarserr__table_d": (UnsupportedFeatureError, "catalogOwned"),
    NO_SCHEMA: (MalformedActionError, "files and no schema"),
    "golden__deltalog-state-reconstruction-without-metadata": (
        MalformedActionError,
        "Version 0 .* has no metaData",
    ),
    "golden__deltalog-state-reconstruction-without-protocol": (
        MalformedActionError,
        "Version 0 .* has no protocol",
    ),
    "golden__no-delta-log-folder": (ObjectNotFoundError, "There is no Delta table at"),
    "kbench__basic_catalog_managed": (UnsupportedFeatureError, "catalogManaged"),
    "kernelrs__crc-malformed": (ObjectNotFoundError, "no commit and no usable checkpoint"),
    "kernelrs__table-with-geo": (UnsupportedFeatureError, "geospatial"),
    "kernelrsuc__catalog_managed_0": (UnsupportedFeatureError, "catalogManaged"),
    "trino__deltalake--unsupported_writer_version": (UnsupportedFeatureError, "writer version 8"),
    # its JSON is spread over many lines
    "duckdb__null_constraints_lists": (MalformedActionError, "version 0, line 1"),
}
IMPORTED = sorted(set(EXPECTED) - set(REFUSED))
HOLED = "deltarserr__table_b"
# Its commits are all there, and its checkpoint has dropped the tombstones, which had expired.
EXPIRED = "spark__delta-0.1.0"
# Its checkpoint spaces the JSON of the schema in another way than its commits.
RESPACED = "kernelrs__parsed-stats"
EMPTY = print_schema(StructType(()))
# What a scan says where it refuses: a placeholder in the place of a vector, a type of few readers.
UNREADABLE: dict[str, tuple[type[DeltaSqlError], str]] = {
    "spark__table-with-dv-special-char": (UnsafePathError, "FOLDER_WITH_SPECIAL_CHAR"),
    "spark__variant-stats-state-reconstruction": (UnsupportedFeatureError, "variantType"),
}
_COLUMNS = ("path", "dv_id", "size", "partition_values")


class Book:
    """A catalog that takes one table after the other."""

    def __init__(self, uri: str, tables: Path) -> None:
        self.catalog = deltasql.connect(uri)
        self.catalog.create_if_missing()
        self.tables = tables

    def source(self, name: str) -> Path:
        return self.tables / name / "delta"

    def bring(self, name: str, **options: bool) -> Imported:
        wanted = ImportOptions(**options)
        return TableImport(
            self.catalog._lazy.create().connection, str(self.source(name)), short(name), wanted
        ).run()

    def snapshot(self, done: Imported, version: int | None = None):
        return inspect(self.catalog).metastore.snapshot(done.table_id, version=version)

    def count(self, relation: str) -> int:
        database = inspect(self.catalog).database
        schema = pa.schema([("found", pa.int64())])
        return database.arrow(f"select count(*) as found from {relation}", {}, schema)[0][0].as_py()


def short(name: str) -> str:
    return f"t{sorted(EXPECTED).index(name)}"


@pytest.fixture(scope="module")
def book(tables, tmp_path_factory):
    found = Book(f"deltasql://sqlite/{tmp_path_factory.mktemp('book')}/catalog.db", tables)
    yield found
    found.catalog.close()


@pytest.fixture
def postgres_book(tables, postgres_server):
    found = Book(postgres_server.uri(postgres_server.create_database_name()), tables)
    yield found
    found.catalog.close()


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def sorted_json(text: str) -> str:
    return json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))


def key_lines(files: list[dict]) -> str:
    return sha256("".join(sorted(f"{spelled(f['path'])}\0{f['dv_id']}\n" for f in files)))


def spelled(path: str) -> str:
    """The path as Hadoop would spell it."""
    return unquote(path_key(path).replace("file:///", "file:/"))


def value_lines(files: list[dict]) -> str:
    """The digest of what files say of their partitions, with "" read as null."""
    lines = []
    for file in sorted(files, key=lambda one: (unquote(one["path"]), one["dv_id"])):
        values = json.loads(file["partition_values"])
        empty = {name: value or None for name, value in values.items()}
        told = [unquote(file["path"]), file["dv_id"] or None, empty]
        lines.append(json.dumps(told, sort_keys=True))
    return sha256("\n".join(lines))


def require_versions(book: Book, done: Imported, case: dict) -> None:
    first, head = case["first_reconstructible_version"], case["head_version"]
    assert (done.row.first_version, done.row.current_version) == (first, head)
    assert {str(version) for version in range(first, head + 1)} == set(case["versions"])
    for version, told in case["versions"].items():
        files = book.snapshot(done, int(version)).files(columns=_COLUMNS).to_pylist()
        found = {
            "files": len(files),
            "bytes": sum(file["size"] for file in files),
            "sha256": key_lines(files),
        }
        assert found == told, version


def require_head(book: Book, done: Imported, case: dict) -> None:
    snapshot = book.snapshot(done)
    files = snapshot.files(columns=_COLUMNS).to_pylist()
    assert len(files) == case["active_count"]
    assert sum(file["size"] for file in files) == case["active_bytes"]
    known = {(path, vector or "") for path, vector in case["active_keys"]}
    assert {(file["path"], file["dv_id"]) for file in files} == known
    assert key_lines(files) == case["active_sha256"]
    assert value_lines(files) == case["partition_values_sha256"]
    # `active_count_raw_paths` is what a reader finds that takes /x and file:/x for two files
    assert sum(file["dv_id"] != "" for file in files) == case["deletion_vectors"]
    assert {one.app_id: one.version for one in snapshot.txns()} == case["txns"]
    assert {one.domain: one.configuration for one in snapshot.domains()} == case["domains"]
    expired = 4 if name_of(done) == EXPIRED else 0
    assert tombstones(book, done, files) == case["tombstones"] + expired


def tombstones(book: Book, done: Imported, live: list[dict]) -> int:
    """How many files the log still calls removed, by the rows of SQL."""
    names = ("path", "dv_id")
    schema = pa.schema([(name, pa.string()) for name in names])
    text = "select path, dv_id from dl_removed_files where table_key = :key and removal = 'remove'"
    key = inspect(book.catalog).metastore.table_by_id(done.table_id).table_key
    found = inspect(book.catalog).database.arrow(text, {"key": key}, schema)
    gone = {(path_key(one["path"]), one["dv_id"]) for one in found.to_pylist()}
    return len(gone - {(path_key(file["path"]), file["dv_id"]) for file in live})


def require_rules(book: Book, done: Imported, case: dict) -> None:
    snapshot = book.snapshot(done)
    metadata, protocol, told = snapshot.metadata, snapshot.protocol, dict(case["metadata"])
    text = metadata.schema_string
    if name_of(done) == RESPACED:
        told["schema_sha256"] = sha256(text)
    if told["schema_sha256"] is None:  # there is none, which reads as one without columns
        told |= {
            "schema_sha256": sha256(EMPTY),
            "schema_canonical_sha256": sha256(sorted_json(EMPTY)),
        }
    assert {
        "configuration": metadata.configuration,
        "createdTime": metadata.created_time,
        "id": metadata.id,
        "name": metadata.name,
        "partitionColumns": metadata.partition_columns,
        "schema_canonical_sha256": sha256(sorted_json(text)),
        "schema_sha256": sha256(text),
    } == told
    assert {
        "minReaderVersion": protocol.min_reader_version,
        "minWriterVersion": protocol.min_writer_version,
        "readerFeatures": sorted(protocol.reader_features or []),
        "writerFeatures": sorted(protocol.writer_features or []),
    } == {key: sorted(v) if isinstance(v, list) else v for key, v in case["protocol"].items()}


def require_history(book: Book, done: Imported, case: dict) -> None:
    """Every commit file that counts is kept byte by byte, with its writer's own words."""
    root = book.source(name_of(done))
    first, last = case["commit_versions"] or (0, -1)
    found = {one.version: one for one in book.catalog.table(done.table).history()}
    assert set(found) == set(range(done.row.first_version, done.row.current_version + 1))
    for version in range(max(first, done.row.first_version), last + 1):
        path = root / commit_key(version)
        assert inspect(book.catalog).metastore.payload(done.table_id, version) == path.read_bytes()
        told = commit_info(path)
        assert found[version].operation == told.get("operation", "UNKNOWN")


def commit_info(path: Path) -> dict:
    lines = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    return next((one["commitInfo"] for one in lines if one.get("commitInfo")), {})


def name_of(done: Imported) -> str:
    return sorted(EXPECTED)[int(done.table[1:])]


def require_imported(book: Book, name: str) -> None:
    case = EXPECTED[name]
    done = book.bring(name)
    assert done.row.state is TableState.READ_ONLY
    assert done.validation is not None
    if name == CONTRADICTING:
        assert [check.name for check in done.validation.failed] == ["files of the checkpoint"]
        assert done.row.properties["import_metadata"]["validation"] == "different"
        return
    assert list(done.validation.lines()) == []
    assert done.row.properties["import_metadata"]["validation"] == "equal"
    require_versions(book, done, case)
    require_head(book, done, case)
    require_rules(book, done, case)
    require_history(book, done, case)
    require_rows(book, done, case)


def require_rows(book: Book, done: Imported, case: dict) -> None:
    table, name = book.catalog.table(done.table), name_of(done)
    if name in UNREADABLE:
        kind, said = UNREADABLE[name]
        with pytest.raises(kind, match=said):
            table.scan().to_arrow()
    elif case["rows"] is not None:
        assert len(read_deltasql(table)) == case["rows"]


def require_refused(book: Book, name: str) -> None:
    kind, said = REFUSED[name]
    before = [book.count(relation) for relation in ("dl_tables", "dl_table_versions", "dl_files")]
    with pytest.raises(kind, match=said) as refused:
        book.bring(name)
    assert refused.value.code
    assert refused.value.advice
    assert short(name) not in {table.name for table in book.catalog.tables()}
    after = [book.count(relation) for relation in ("dl_tables", "dl_table_versions", "dl_files")]
    assert after == before


def test_all_tables_are_judged_here():
    assert len(EXPECTED) == 139
    verdicts = {name: case["verdict"] for name, case in EXPECTED.items()}
    assert {name for name, verdict in verdicts.items() if verdict == "refuse"} <= set(REFUSED)
    assert not {name for name, verdict in verdicts.items() if verdict == "import"} & set(REFUSED)


@pytest.mark.parametrize("name", IMPORTED)
def test_an_imported_table_is_what_is_known_of_it(book, name):
    require_imported(book, name)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_refused_table_is_refused_by_name_and_leaves_nothing(book, name):
    require_refused(book, name)


@pytest.mark.verify
def test_postgresql_tells_the_same(postgres_book):
    for name in EXPECTED:
        try:
            (require_refused if name in REFUSED else require_imported)(postgres_book, name)
        except BaseException as error:
            error.add_note(name)
            raise


@pytest.mark.req("R75")
@pytest.mark.parametrize("options", [{"lenient": True}, {"checkpoint_only": True}])
def test_a_hole_can_be_passed_when_the_operator_says_so(tables, tmp_path, options):
    book = Book(f"deltasql://sqlite/{tmp_path}/catalog.db", tables)
    with book.catalog:
        done, case = book.bring(HOLED, **options), EXPECTED[HOLED]
        assert done.row.first_version == case["history_gaps"][-1][1] + 1
        assert done.row.current_version == case["head_version"]
        assert done.validation.is_equal
        require_head(book, done, case)
        require_rules(book, done, case)

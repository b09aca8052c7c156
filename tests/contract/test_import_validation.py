"""Validation finds every row that is not what the log says, and names the file."""

import pytest

from deltasql.imports.engines.local import LocalEngine
from deltasql.imports.job import ImportOptions, TableImport
from deltasql.imports.read.tasks import LogReader
from deltasql.imports.validate.validator import Verdict, validate_table, verdict_of
from deltasql.protocol.log_names import commit_key
from deltasql.testing import inspect
from histories import History

KEY = "(select table_key from dl_tables where table_id = '{t}')"
LIVE = f"(select min(file_id) from dl_files where table_key = {KEY})"
ENDED = (
    f"(select min(file_id) from dl_removed_files where table_key = {KEY} "
    "and removed_version > added_version + 1)"
)
ONE_ENDED = f"file_id = {ENDED}"
TXN = "(select min(app_id) from dl_txn_actions where table_id = '{t}')"
# what is done to the catalog, and which comparison must notice
WRONGS = {
    "a file is missing": (f"delete from dl_files where file_id = {LIVE}", "files"),
    "a file has another size": (
        f"update dl_files set size = size + 1 where file_id = {LIVE}",
        "files",
    ),
    "a file has another path": (
        f"update dl_files set path = 'elsewhere' where file_id = {LIVE}",
        "files",
    ),
    "a file has another vector": (
        f"update dl_files set dv_id = 'other' where file_id = {LIVE}",
        "files",
    ),
    "a file lives twice": (
        f"""
        insert into dl_files (
            file_id, table_key, file_key, path, dv_id, size, modification_time, partition_values,
            data_change, added_version
        )
        select
            999999999, table_key, {{other_key}}, path || 'x', dv_id, size, modification_time,
            partition_values, data_change, added_version
        from dl_files where file_id = {LIVE}
        """,
        "files",
    ),
    "a file has other statistics": (
        f"update dl_files set stats = '{{{{}}}}' where file_id = {LIVE}",
        "what is said of the files",
    ),
    "a file has other partition values": (
        f"update dl_files set partition_values = '{{{{}}}}' where file_id = {LIVE}",
        "what is said of the files",
    ),
    "a file has another time": (
        f"update dl_files set modification_time = 5 where file_id = {LIVE}",
        "what is said of the files",
    ),
    "a file came later": (
        f"update dl_files set added_version = added_version + 1 where file_id = {LIVE}",
        "files of all versions",
    ),
    "a file of the past is missing": (
        f"delete from dl_removed_files where file_id = {ENDED}",
        "files of all versions",
    ),
    "a file of the past went too early": (
        f"update dl_removed_files set removed_version = removed_version - 1 where {ONE_ENDED}",
        "files of all versions",
    ),
    "a file of the past came later": (
        f"update dl_removed_files set added_version = added_version + 1 where file_id = {ENDED}",
        "files of all versions",
    ),
    "a commit has other bytes": (
        "update dl_table_versions set digest = 'x' where table_id = '{t}' and version = 3",
        "commits of other bytes",
    ),
    "a commit is missing": (
        "delete from dl_table_versions where table_id = '{t}' and version = 3",
        "versions",
    ),
    "a transaction has another number": (
        f"update dl_txn_actions set txn_version = 77 where table_id = '{{t}}' and app_id = {TXN}",
        "txns",
    ),
    "a transaction is missing": (
        f"delete from dl_txn_actions where table_id = '{{t}}' and app_id = {TXN}",
        "txns",
    ),
    "a domain is missing": (
        "delete from dl_domain_metadata where table_id = '{t}'",
        "domains",
    ),
    "a domain has other words": (
        "update dl_domain_metadata set configuration = 'x' where table_id = '{t}'",
        "domains",
    ),
    "the schema is another": (
        "update dl_metadata_updates set action = replace(action, 'long', 'string')",
        "schema",
    ),
    "the protocol is another": (
        "update dl_protocol_updates set action = replace(action, '7', '6') where table_id = '{t}'",
        "protocol",
    ),
}


@pytest.fixture
def source(tmp_path):
    """A log with every kind of event, its domains still there at the end."""
    history = History(5, versions=40)
    history.commits.append(
        b'{"commitInfo":{"timestamp":1}}\n'
        b'{"domainMetadata":{"domain":"d","configuration":"1","removed":false}}\n'
        b'{"txn":{"appId":"a","version":1}}\n'
    )
    return history.write(tmp_path / "t")


def do_import(catalog, source, **options):
    return TableImport(
        catalog._lazy.create().connection, str(source), "t", ImportOptions(**options)
    ).run()


def validate(catalog, **given):
    row = inspect(catalog).metastore.table("t")
    store = inspect(catalog).connection.store_of(row)
    reader = LogReader(lambda: store)
    return validate_table(inspect(catalog).connection, "t", LocalEngine(), reader, **given)


def spoil(catalog, text):
    database = inspect(catalog).database
    row = inspect(catalog).metastore.table("t")
    other_key = "randomblob(16)" if database.dialect.name == "sqlite" else "gen_random_uuid()"
    text = text.format(t=row.table_id, other_key=other_key)
    with database.write() as tx:
        tx.connection.execute(text if database.dialect.name == "sqlite" else text.encode())


def verdict(catalog):
    return verdict_of(inspect(catalog).metastore.table("t"))


@pytest.mark.req("R64")
@pytest.mark.parametrize("wrong", WRONGS)
def test_a_wrong_row_is_found(catalog, source, wrong):
    done = do_import(catalog, source)
    assert done.validation is not None
    assert done.validation.is_equal, list(done.validation.lines())
    assert verdict(catalog) is Verdict.EQUAL
    assert validate(catalog).is_equal
    text, check = WRONGS[wrong]
    spoil(catalog, text)
    outcome = validate(catalog)
    assert not outcome.is_equal
    assert check in [one.name for one in outcome.failed]
    assert verdict(catalog) is Verdict.DIFFERENT
    if check.startswith(("files", "what is said")):
        assert outcome.files, "the file is named"
    assert len(list(outcome.lines())) == len(outcome.failed) + len(outcome.files)


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        ("a file is missing", "missing_file"),
        ("a file lives twice", "extra_file"),
        ("a file has another size", "other_size"),
        ("a file has other statistics", "metadata_differs"),
        ("a file of the past is missing", "missing_file"),
    ],
)
def test_the_file_is_named_with_what_is_wrong(catalog, source, wrong, kind):
    do_import(catalog, source)
    spoil(catalog, WRONGS[wrong][0])
    (named,) = validate(catalog).files
    assert named.kind == kind
    assert named.path in " ".join(validate(catalog).lines())


def test_an_operator_may_accept_what_differs(catalog, source):
    do_import(catalog, source)
    spoil(catalog, WRONGS["a file is missing"][0])
    assert not validate(catalog, accept=True).is_equal
    assert verdict(catalog) is Verdict.ACCEPTED


def test_a_wrong_row_of_what_came_last_is_found_while_following(catalog, source):
    """What was equal is not compared again; what comes is compared with all that it changes."""
    do_import(catalog, source, up_to_version=30)
    done = do_import(catalog, source, resume=True)
    assert done.validation is not None
    assert done.validation.is_equal, list(done.validation.lines())
    assert done.row.current_version == 40
    spoil(catalog, "update dl_files set added_version = 41 where added_version > 30")
    assert not validate(catalog).is_equal


def test_an_import_from_a_checkpoint_is_validated_too(catalog, source):
    import deltalake

    plain = History(8, versions=30, vectors=False).write(source.parent / "plain")
    deltalake.DeltaTable(str(plain), version=12).create_checkpoint()
    for version in range(12):
        (plain / commit_key(version)).unlink()
    done = TableImport(catalog._lazy.create().connection, str(plain), "t").run()
    assert done.plan.first == 12
    assert done.validation is not None
    assert done.validation.is_equal, list(done.validation.lines())
    assert validate(catalog).is_equal
    spoil(catalog, WRONGS["a file is missing"][0])
    (named,) = validate(catalog).files
    assert named.kind == "missing_file"


def test_a_checkpoint_that_contradicts_the_commits_is_told(catalog, source):
    import deltalake

    plain = History(8, versions=30, vectors=False).write(source.parent / "plain")
    deltalake.DeltaTable(str(plain), version=12).create_checkpoint()
    changed = plain / commit_key(5)
    lines = changed.read_bytes().splitlines()
    path = "later.parquet"
    lines.append(
        b'{"add":{"path":"%s","partitionValues":{"p":"a"},"size":7,"modificationTime":1,'
        b'"dataChange":true}}' % path.encode()
    )
    changed.write_bytes(b"\n".join(lines) + b"\n")
    done = TableImport(catalog._lazy.create().connection, str(plain), "t").run()
    assert done.validation is not None
    assert [one.name for one in done.validation.failed] == ["files of the checkpoint"]
    assert [(one.kind, one.path) for one in done.validation.files] == [("extra_file", path)]
    assert verdict(catalog) is Verdict.DIFFERENT

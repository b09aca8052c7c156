"""Streams and the change feed of tables on an object store, whose secrets go with the options."""

import json

import pytest

import deltasql
import deltasql.spark
import servers
from builders import SCHEMA, rows
from streams import Driver, Sink, ids

pytestmark = pytest.mark.req("R26")
FEED = {"delta.enableChangeDataFeed": "true"}


@pytest.fixture
def options(s3_server):
    return servers.s3_options(s3_server.endpoint)


@pytest.fixture
def uri(tmp_path, options, fresh_name):
    uri = f"deltasql://sqlite/{tmp_path}/catalog.db"
    with deltasql.connect(uri, storage_options=options) as catalog:
        place = f"s3://{servers.BUCKET}/{fresh_name}"
        table = catalog.create_table("orders", location=place, schema=SCHEMA, properties=FEED)
        table.append(rows(1, 2))
        table.append(rows(3))
    return uri


@pytest.mark.verify
def test_files_of_a_store(session, uri, options, tmp_path):
    secrets = json.dumps(options)
    stream = Driver(uri, "orders", storageSecrets=secrets, maxFilesPerTrigger=1)
    assert [ids(batch) for batch in stream.drain()] == [[1, 2], [3]]
    reader = session.readStream.format("deltasql").option("storageSecrets", secrets)
    found = Sink(tmp_path / "sink").drain(reader.option("table", "orders").load(uri))
    assert [ids(batch) for batch in found] == [[1, 2, 3]]
    feed = deltasql.spark.read_changes(session, uri, "orders", start=2, storage_options=options)
    assert [(row.id, row._change_type) for row in feed.collect()] == [(3, "insert")]

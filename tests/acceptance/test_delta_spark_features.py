"""Delta Spark reads what deltasql makes of properties and protocols, and knows the same names."""

import pytest

import delta_spark
import deltasql
from builders import a_table, rows
from deltasql.protocol.properties import DELTA_PROPERTIES
from legacy_protocols import PAIRS, ROWS, legacy_tables
from readers import read_deltasql

pytestmark = [pytest.mark.verify, pytest.mark.usefixtures("spark", "needs_jars")]
PROTOCOL_ONLY = {"delta.minReaderVersion", "delta.minWriterVersion"}


def test_the_names_of_properties_are_those_of_delta():
    known = delta_spark.session()._jvm.org.apache.spark.sql.delta.DeltaConfigs.getAllConfigs()
    found, names = known.valuesIterator(), set()
    while found.hasNext():
        names.add(found.next().key())
    assert names - PROTOCOL_ONLY == DELTA_PROPERTIES


@pytest.mark.parametrize(
    "properties",
    [
        {"delta.appendOnly": "true", "delta.enableChangeDataFeed": "true"},
        {"delta.checkpointPolicy": "v2"},
        {"delta.constraints.low": "id > -5"},
        {"delta.enableDeletionVectors": "true", "delta.enableTypeWidening": "true"},
        {"delta.feature.domainMetadata": "supported", "delta.feature.clustering": "supported"},
    ],
)
def test_delta_spark_reads_a_table_with_every_feature_that_is_switched_on(tmp_path, properties):
    with deltasql.connect(f"deltasql://sqlite/{tmp_path}/c.db") as catalog:
        made = a_table(catalog, tmp_path, "made", properties=properties)
        altered = a_table(catalog, tmp_path, "altered")
        altered.alter(properties=properties)
        for table in (made, altered):
            table.append(rows(1, 2))
            place = table.location.removeprefix("file://")
            assert delta_spark.read_delta_spark(place) == read_deltasql(table)


@pytest.mark.req("R26", "R83", "R102")
@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_delta_spark_reads_a_legacy_table_after_cut_over_and_detach(tmp_path, pair):
    tried = 0
    with deltasql.connect(f"deltasql://sqlite/{tmp_path}/c.db") as catalog:
        for number, (name, made, rows) in enumerate(legacy_tables(pair)):
            root = str(made.write(tmp_path / name.replace(" ", "-"), [({}, rows)]))
            catalog.import_table(root, name=f"t{number}", engine="local")
            catalog.cutover(f"t{number}")
            assert delta_spark.read_delta_spark(root) == ROWS.to_pylist(), (pair, name)
            if (sum(pair) + number) % 3 == 0:  # a third of them: Spark takes its time
                catalog.table(f"t{number}").detach()
                delta_spark.forget()
                assert delta_spark.read_delta_spark(root) == ROWS.to_pylist(), (pair, name)
                tried += 1
    assert tried >= 2

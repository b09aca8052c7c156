"""What the tables and views of Spark's own catalog read: places on disk, by Spark's analyzer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from deltasql.spark.statement import walk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FILES, _TABLE = "LogicalRelation", "DataSourceV2Relation"
_FILE_RELATION = "org.apache.spark.sql.execution.datasources.HadoopFsRelation"


def places_of(spark: SparkSession, parts: tuple[str, ...]) -> Iterator[str]:
    """Yield the directories and files that a persistent table or view reads, through views too."""
    name = ".".join("`" + part.replace("`", "``") + "`" for part in parts)
    if not spark.catalog.tableExists(name):
        return
    plan = spark.table(name)._jdf.queryExecution().analyzed()  # noqa: SLF001 (no other way)
    for node, kind in walk(plan):
        if kind == _FILES:
            yield from _file_places(spark, node.relation())
        elif kind == _TABLE:
            place = node.table().properties().get("location")
            if place is not None:
                yield str(place)


def _file_places(spark: SparkSession, relation: Any) -> Iterator[str]:
    from py4j.java_gateway import is_instance_of  # noqa: PLC0415 (loads only with Spark)

    gateway = spark.sparkContext._gateway  # noqa: SLF001
    if not is_instance_of(gateway, relation, _FILE_RELATION):  # Delta's is a kind of it
        return
    places = relation.location().rootPaths()
    for number in range(places.length()):
        yield str(places.apply(number).toUri().toString())

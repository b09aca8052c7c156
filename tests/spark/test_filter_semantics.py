"""Filters answer what Spark answers, row by row: true, false or unknown, NaN included."""

import random

import pyarrow as pa
import pytest

from deltasql.protocol.predicate import parse_predicate
from exact_answers import evaluate
from random_filters import SCHEMA, random_filter, random_rows, values_of

SEED, ROWS, AT_ONCE = 20261118, 100, 50
OWN = ["x <=> 'NaN'", "not (x <=> y)", "isnan(x)", "f <=> -0.0", "x <=> null", "not isnan(f)"]


@pytest.mark.req("R40")
@pytest.mark.parametrize("filters", [150, pytest.param(1500, marks=pytest.mark.verify)])
def test_filters_answer_what_spark_answers(session, filters):
    rng, table = random.Random(SEED), random_rows(SEED, ROWS)
    texts = [*OWN, *(random_filter(rng) for _ in range(filters))]
    numbered = table.append_column("row", pa.array(range(ROWS)))
    frame = session.createDataFrame(numbered).cache()
    rows = values_of(table)
    try:
        for start in range(0, len(texts), AT_ONCE):
            some = texts[start : start + AT_ONCE]
            columns = [f"({text}) as c{number}" for number, text in enumerate(some)]
            found = frame.selectExpr("row", *columns).orderBy("row").toArrow().to_pylist()
            assert len(found) == ROWS
            for number, text in enumerate(some):
                predicate = parse_predicate(text, SCHEMA)
                ours = [evaluate(predicate, row) for row in rows]
                assert ours == [row[f"c{number}"] for row in found], f"seed {SEED}: {text}"
    finally:
        frame.unpersist()

"""Texts that are too long for their column are refused; nulls and code points count as in Spark."""

import pyarrow as pa
import pytest

from deltasql.data.constraints import enforce_lengths
from deltasql.errors import ConstraintViolationError
from deltasql.protocol.schema.types import TextLimit


@pytest.mark.parametrize(
    ("place", "kind", "values", "count"),
    [
        ((), pa.string(), ["ab", None, "äö", "abc", "a  "], 2),
        (("x",), pa.struct([("x", pa.string())]), [None, {"x": "abc"}, {"x": None}], 1),
        (("element",), pa.list_(pa.string()), [["ab", "abc"], None, [None, "abcd"]], 2),
        (("key",), pa.map_(pa.string(), pa.string()), [[("abc", "a")], None], 1),
        (("value",), pa.map_(pa.string(), pa.string()), [[("abc", "a")], [("a", "abc")]], 1),
        (
            ("element", "x"),
            pa.list_(pa.struct([("x", pa.string())])),
            [[{"x": "abc"}, None], []],
            1,
        ),
    ],
)
def test_too_long(place, kind, values, count):
    batch = pa.RecordBatch.from_arrays([pa.array(values, kind)], names=["c"])
    limit = TextLimit(("c", *place), "varchar(2)", 2)
    told = f"{count} texts in the column {limit.path} are too long for its varchar.2."
    with pytest.raises(ConstraintViolationError, match=told):
        enforce_lengths([limit], batch)
    enforce_lengths([TextLimit(("c", *place), "varchar(9)", 9)], batch)
    enforce_lengths([limit], batch.slice(0, 0))

"""Small files that unpack to gigabytes: refused, in little memory, before they are unpacked."""

import io
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from deltasql.log.page_headers import widest_value
from deltasql.log.parquet_footer import Chunk, read_groups
from deltasql.log.thrift_compact import Compact
from foreign_checkpoints import ADD, PLAIN_ADD, refused
from naive_checkpoints import KEY, fast_rows, parquet, stored

MEGABYTE = 1024 * 1024
READ = """
import sys
from pathlib import Path
from deltasql.errors import MalformedActionError
from naive_checkpoints import fast_rows, stored
try:
    print("read", len(fast_rows(stored(Path(sys.argv[1]).read_bytes()))[0]))
except MalformedActionError as error:
    print("refused", error.message)
# getrusage would tell the peak of the process that started this one, if that was higher
print(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
"""


def read_apart(data: bytes, tmp_path: Path) -> tuple[str, int]:
    """Read a checkpoint in a process of its own; return what came out, and its megabytes."""
    path = tmp_path / "bomb.parquet"
    path.write_bytes(data)
    command = [sys.executable, "-c", READ, str(path)]
    tests = Path(__file__).parents[2]
    found = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tests)
    said, peak = found.stdout.strip().splitlines()
    return said, int(peak) // 1024


def table(rows: list[dict | None]) -> pa.Table:
    return pa.table({"add": pa.array(rows, PLAIN_ADD)})


def long_texts() -> bytes:
    """Three hundred statistics of a megabyte, packed to next to nothing."""
    rows = [{**ADD, "stats": "x" * MEGABYTE} for _ in range(300)]
    return parquet(table(rows), compression="zstd", use_dictionary=False)


def one_text_again_and_again() -> bytes:
    """A dictionary of one long text, named by a hundred thousand rows."""
    text = pa.array(["x" * MEGABYTE])
    rows = table([{**ADD, "stats": None}] * 90_000)
    fields = rows.column("add").combine_chunks().flatten()
    codes = pa.DictionaryArray.from_arrays(pa.array([0] * 90_000, pa.int32()), text)
    names = [field.name for field in PLAIN_ADD]
    fields[names.index("stats")] = codes
    adds = pa.StructArray.from_arrays(fields, names=names)
    whole = pa.table({"add": adds})
    return parquet(whole, compression="zstd", dictionary_pagesize_limit=4 * MEGABYTE)


def one_map_of_millions() -> bytes:
    """A single file with five million partition columns."""
    count = 5_000_000
    keys = pa.DictionaryArray.from_arrays(pa.nulls(count, pa.int32()).fill_null(0), ["k" * 50])
    offsets = pa.array([0, count], pa.int32())
    maps = pa.MapArray.from_arrays(offsets, keys.cast(pa.string()), pa.nulls(count, pa.string()))
    fields = table([ADD]).column("add").combine_chunks().flatten()
    names = [field.name for field in PLAIN_ADD]
    fields[names.index("partitionValues")] = maps
    return parquet(pa.table({"add": pa.StructArray.from_arrays(fields, names=names)}))


def rows_of_nothing() -> bytes:
    """Five million rows that hold no action."""
    return parquet(pa.table({"add": pa.nulls(5_000_000, PLAIN_ADD)}), row_group_size=5_000_000)


@pytest.mark.req("R76")
@pytest.mark.parametrize(
    "make", [long_texts, one_text_again_and_again, one_map_of_millions, rows_of_nothing]
)
def test_a_bomb_is_refused_in_little_memory(make, tmp_path):
    data = make()
    assert len(data) < MEGABYTE
    said, peak = read_apart(data, tmp_path)
    assert said.startswith("refused")
    assert KEY in said
    assert peak < 600


def test_a_long_text_that_a_dictionary_repeats_is_read_in_small_batches(tmp_path):
    rows = [{**ADD, "path": f"{n}", "stats": "x" * MEGABYTE} for n in range(60)]
    data = parquet(table(rows), compression="zstd", dictionary_pagesize_limit=4 * MEGABYTE)
    assert [row["path"] for row in fast_rows(stored(data))[0]] == [str(n) for n in range(60)]


def number(value: int) -> bytes:
    """A number as Thrift's compact protocol has it."""
    value, found = value << 1, b""
    while value > 127:
        found, value = found + bytes([value & 127 | 128]), value >> 7
    return found + bytes([value])


def page(unpacked: int, values: int, encoding: int = 0, kind: int = 0) -> bytes:
    """A header (type, sizes, then the header of a data page) and a page of one byte."""
    sizes = b"\x15" + number(kind) + b"\x15" + number(unpacked) + b"\x15" + number(1)
    inner = b"\x15" + number(values) + b"\x15" + number(encoding) + b"\x00"
    return sizes + b"\x2c" + inner + b"\x00" + b"!"


def chunk(data: bytes, values: int) -> Chunk:
    return Chunk(0, len(data), values, codec=6, encodings=frozenset({0, 7}))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (page(2**31 - 1, 1), "announces"),
        (page(10, 5), "hold 5 values instead of 1"),
        (page(10, 1, encoding=8), "not what the footer says"),
        (page(10, 1, kind=1), "unknown kind"),
        (page(10, 1)[:-1], "longer than its column"),
        (page(10, 1)[:4], "has no end"),
        (b"\x1c" * 100, "nested"),
        (b"\x1b" + b"\x00" * 9, "unknown type"),
        (b"\x15" + b"\xff" * 20, "too long"),
    ],
)
def test_pages_are_held_against_the_footer_and_the_limits(data, reason):
    with pytest.raises((ValueError, TypeError), match=reason):
        widest_value(io.BytesIO(data), chunk(data, 1), is_bytes=True)


def test_a_page_tells_how_wide_its_values_may_be():
    plain, shared = page(1_000, 10), page(1_000, 10, encoding=7)
    assert widest_value(io.BytesIO(plain), chunk(plain, 10), is_bytes=True) == (1_000, 101)
    # each value may repeat the one before
    assert widest_value(io.BytesIO(shared), chunk(shared, 10), is_bytes=True) == (1_000, 1_001)


@pytest.mark.parametrize(
    "data", [b"", b"\x00", b"\x19\xfc\xff\xff\xff\x7f", b"\x36\x02\x19\x1c", b"\x15\x02" * 3]
)
def test_a_footer_of_nonsense_is_refused(data):
    with pytest.raises(ValueError, match=r"footer|struct|number|field"):
        read_groups(data, 1_000)


def test_a_struct_is_read_by_the_numbers_of_its_fields():
    data = b"\x15\x06\x18\x02hi\x29\x25\x02\x04\x11\x1c\x15\x02\x00\x00"
    assert Compact(data).struct() == {1: 3, 2: None, 4: [1, 2], 5: True, 6: {1: 1}}


def test_a_file_that_grew_a_footer_is_refused():
    data = parquet(table([ADD]))
    length = int.from_bytes(data[-8:-4], "little")
    longer = data[:-8] + (length + 1).to_bytes(4, "little") + b"PAR1"
    refused(lambda: fast_rows(stored(longer)), KEY)
    huge = data[:-8] + (2**31).to_bytes(4, "little") + b"PAR1"
    refused(lambda: fast_rows(stored(huge)), KEY, "footer")

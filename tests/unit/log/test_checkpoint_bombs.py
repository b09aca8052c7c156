"""Small files that unpack to gigabytes are refused in little memory."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from foreign_checkpoints import ADD, PLAIN_ADD, refused
from naive_checkpoints import KEY, fast_rows, parquet, stored

MEGABYTE = 1024 * 1024
READ = """
import resource
import sys
from pathlib import Path
from deltasql.errors import MalformedActionError
from deltasql.log import parquet_input
from naive_checkpoints import fast_rows, stored
try:
    print("read", len(fast_rows(stored(Path(sys.argv[1]).read_bytes()))[0]))
except MalformedActionError as error:
    print("refused", error.message)
# getrusage of this process would tell the peak of the one that started it, if that was higher
own = int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
parquet_input._CHILDREN.close()
print(max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
"""


def read_apart(data: bytes, tmp_path: Path) -> tuple[str, int]:
    """Read a checkpoint in a process of its own; return what came out, and its megabytes."""
    path = tmp_path / "bomb.parquet"
    path.write_bytes(data)
    command = [sys.executable, "-c", READ, str(path)]
    tests = Path(__file__).parents[2] / "support"
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


def test_a_file_that_grew_a_footer_is_refused():
    data = parquet(table([ADD]))
    length = int.from_bytes(data[-8:-4], "little")
    longer = data[:-8] + (length + 1).to_bytes(4, "little") + b"PAR1"
    refused(lambda: fast_rows(stored(longer)), KEY)
    huge = data[:-8] + (2**31).to_bytes(4, "little") + b"PAR1"
    refused(lambda: fast_rows(stored(huge)), KEY, "footer")

"""Damaged and hostile logs, imported: a typed error, or exactly what the log says. Nothing else.

The same logs on every run. `make fuzz` takes new ones: DELTASQL_FUZZ_EXAMPLES says how many, and a
failure tells the seed that DELTASQL_FUZZ_SEED repeats.
"""

import os
import random
import shutil
import tarfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from corpora import ARCHIVE, EXPECTED
from deltasql.protocol.log_names import LOG_FOLDER, commit_key
from histories import History
from import_judge import Judge
from limits import Apart, CallDiedError, Taken
from log_mutations import GIANT_LINES, damaged_log, read_log, write_log

pytestmark = pytest.mark.req("R66", "R73", "R74", "R79")
_IS_FIXED = os.environ.get("HYPOTHESIS_PROFILE", "fixed") == "fixed"
SEED = os.environ.get(
    "DELTASQL_FUZZ_SEED", "1" if _IS_FIXED else str(random.SystemRandom().random())
)
FEW = 60
MANY = 500 if _IS_FIXED else int(os.environ.get("DELTASQL_FUZZ_EXAMPLES", "20000"))
MOST_BYTES = 1024**3
MOST_SECONDS = 10
_LARGEST_LOG = 300_000
# a process that has become so big is not what the next example is measured in
_FRESH_BYTES = 400 * 1024 * 1024


@pytest.fixture(scope="module")
def bases(tmp_path_factory) -> Path:
    """Logs of other writers: deltalake's, and those of the corpora where they are."""
    place = tmp_path_factory.mktemp("bases")
    for number in range(4):
        write_with_deltalake(place / f"deltalake-{number}", number)
    if ARCHIVE.exists():
        whole = tmp_path_factory.mktemp("unpacked")
        with tarfile.open(ARCHIVE) as archive:
            archive.extractall(whole, filter="data")
        for name in [name for name, case in EXPECTED.items() if case["verdict"] == "import"]:
            copy_log(whole / name / "delta", place / name)
        shutil.rmtree(whole)
    return place


def copy_log(source: Path, target: Path) -> None:
    log = source / LOG_FOLDER
    if sum(path.stat().st_size for path in log.rglob("*") if path.is_file()) < _LARGEST_LOG:
        shutil.copytree(log, target / LOG_FOLDER)


def write_with_deltalake(place: Path, number: int) -> None:
    from deltalake import DeltaTable, write_deltalake

    chance = random.Random(number)
    for version in range(8):
        rows = pa.table({"id": [version, version + 1], "p": ["a", chance.choice(["b", None, ""])]})
        mode = chance.choice(("append", "append", "overwrite"))
        write_deltalake(str(place), rows, mode=mode, partition_by=["p"] if number % 2 else None)
    table = DeltaTable(str(place))
    table.delete("id > 6")
    if number > 1:
        table.create_checkpoint()
        for version in range(3 * (number - 2)):
            (place / LOG_FOLDER / f"{version:020d}.json").unlink()
    write_deltalake(str(place), rows, mode="append")


def run(bases: Path, folder: Path, numbers: range, *, heavy: bool) -> Counter[str]:
    """Import the examples of these numbers; every one that goes wrong is told by its name."""
    kinds: Counter[str] = Counter()
    wrong: list[str] = []
    logs = [read_log(place) for place in sorted(bases.iterdir())]
    with Apart(Judge, folder) as judge:
        for number in numbers:
            name, place = f"{SEED}:{number}", folder / "table"
            write_log(place, damaged_log(name, logs, heavy=heavy))
            try:
                found = judge(str(place))
                if excesses(found.taken):  # what came before may have grown the process
                    judge.renew()
                    found = judge(str(place))
            except CallDiedError as died:
                wrong.append(f"{name} killed its process: {died}")
            except BaseException as error:  # noqa: BLE001 (all of them are told at the end)
                wrong.append(f"{name}: {type(error).__name__}: {str(error)[:500]}")
                judge.renew()
            else:
                kinds.update((found.kind, *found.codes))
                wrong += [f"{name} {text}" for text in excesses(found.taken)]
                if found.taken.peak_bytes > _FRESH_BYTES:
                    judge.renew()
            shutil.rmtree(place)
    told = "\n".join(wrong[:20])
    assert not wrong, f"DELTASQL_FUZZ_SEED={SEED}, {len(wrong)} of {len(numbers)}:\n{told}"
    return kinds


def excesses(taken: Taken) -> list[str]:
    found = []
    if taken.peak_bytes >= MOST_BYTES:
        found.append(f"took {taken.peak_bytes / 2**20:.0f} MB of memory")
    if taken.seconds >= MOST_SECONDS:
        found.append(f"took {taken.seconds:.1f} s of processor time")
    return found


def test_a_few_damaged_logs_are_refused_or_imported_right(bases, tmp_path):
    kinds = run(bases, tmp_path, range(FEW), heavy=False)
    assert kinds["refused"] > FEW / 5
    assert kinds["equal"] > FEW / 5


@pytest.mark.verify
@pytest.mark.timeout(0)
def test_damaged_logs_are_refused_or_imported_right(bases, tmp_path):
    kinds = run(bases, tmp_path, range(FEW, FEW + MANY), heavy=True)
    assert kinds["refused"] > MANY / 5
    assert kinds["equal"] > MANY / 5
    assert kinds["different"] > MANY / 100
    # damage of every kind was met
    for code in ("DS201", "DS204", "corrupt-checkpoint", "hint-corrupt"):
        assert kinds[code] > 0, kinds
    print(dict(kinds))


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=pytest.mark.soak if number % 3 else pytest.mark.verify)
        for number, kind in enumerate(sorted(GIANT_LINES))
    ],
)
def test_a_line_of_a_hundred_megabytes_is_refused_or_imported_right(tmp_path, kind):
    place = tmp_path / "table"
    commits = History(3, versions=4, vectors=False).commits
    commits[2] += GIANT_LINES[kind]()
    write_log(place, {commit_key(version): data for version, data in enumerate(commits)})
    with Apart(Judge, tmp_path) as judge:
        found = judge(str(place))
    assert found.kind in {"refused", "equal"}
    assert excesses(found.taken) == []

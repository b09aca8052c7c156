"""An import on Spark ends with the rows of a local one, whoever dies on the way.

Tasks that fail once and workers that are killed are in `tests/contract/test_spark_import.py`.
"""

import json
import os
import random
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

import deltasql
from deltasql.imports.engines.spark import SparkEngine
from deltasql.imports.job import ImportOptions, TableImport
from deltasql.imports.read import tasks
from deltasql.protocol.log_names import commit_key
from deltasql.testing import inspect
from histories import START, History
from import_faults import IMPORT_POINTS, truncated
from import_rows import book_rows
from processes import finish, is_running, until
from readers import require
from server_process import Unavailable
from servers import BUCKET, s3_options
from spark_cluster import CONF, cluster
from spark_driver import CUT, Call

pytestmark = [
    pytest.mark.verify,
    pytest.mark.req("R62", "R63", "R71", "R81"),
    pytest.mark.usefixtures("small_tasks"),
]
VERSIONS = 36
KILLS = 3
# What comes when the engine has done its part is the same for all engines. The local engine is
# killed before and after each step in verify, this one at some of them, and in the soak at all.
POINTS = [stop for stop in IMPORT_POINTS if "stats" not in stop[0] and "noted" not in stop[0]]
PHASES = [
    pytest.param(stop, marks=() if number % 4 == 1 else pytest.mark.soak, id=f"{stop[0]}-{stop[1]}")
    for number, stop in enumerate(POINTS)
]


@pytest.fixture
def small_tasks(monkeypatch):
    monkeypatch.setattr(tasks, "TASK_VERSIONS", CUT)


@pytest.fixture
def source(tmp_path) -> Path:
    return History(11, VERSIONS, vectors=False).write(tmp_path / "t")


@pytest.fixture
def engine(spark) -> SparkEngine:
    return SparkEngine(spark)


@pytest.fixture(scope="module")
def master():
    """A cluster of a master and two workers."""
    try:
        running = cluster()
        url = running.__enter__()
    except Unavailable as reason:
        require("spark", str(reason))
    yield url
    running.__exit__(None, None, None)


@pytest.fixture
def postgres_uri(postgres_server) -> str:
    return postgres_server.uri(postgres_server.create_database_name())


def local_rows(tmp_path, source):
    with deltasql.connect(f"deltasql://sqlite/{tmp_path}/local.db") as catalog:
        catalog.create_if_missing()
        done = TableImport(catalog._lazy.create().connection, str(source), "t").run()
        return book_rows(catalog, done.row.table_id)


def rows_of(uri):
    with deltasql.connect(uri) as catalog:
        assert [one.name for one in catalog.tables()] == ["t"]
        return book_rows(catalog, inspect(catalog).metastore.table("t").table_id)


def go_on(uri, source, engine):
    """Do what an operator does after a crash: resume, or begin where nothing was begun."""
    with deltasql.connect(uri) as catalog:
        catalog.create_if_missing()
        begun = "t" in [row.name for row in inspect(catalog).metastore.tables()]
        options = ImportOptions(resume=begun)
        TableImport(catalog._lazy.create().connection, str(source), "t", options, engine).run()


def first_line(driver: subprocess.Popen) -> str:
    line = driver.stdout.readline()
    assert line, driver.communicate()[1]
    return line


def jvm_of(driver: subprocess.Popen) -> int:
    return int(first_line(driver).split(":")[1].strip(" }\n"))


def marked(tmp_path, *faulty: int) -> Path:
    """Return a folder of marks by which only these versions go wrong."""
    marks = tmp_path / "marks"
    marks.mkdir()
    for version in set(range(VERSIONS)) - set(faulty):
        (marks / Path(commit_key(version)).name).touch()
    return marks


@pytest.fixture
def uri(request, stop, tmp_path) -> str:
    """The dialects take turns: each phase is tried on one of them, and locally on both."""
    if POINTS.index(stop) % 2:
        return request.getfixturevalue("postgres_uri")
    return f"deltasql://sqlite/{tmp_path}/catalog.db"


@pytest.mark.parametrize("stop", PHASES)
def test_a_driver_killed_in_any_phase(uri, source, engine, stop, tmp_path):
    if "part" in stop[0]:
        truncated(source, 9)
    point, turn = stop
    env = {"DELTASQL_TESTING": "1", "DELTASQL_CRASH_AT": f"{point}:{turn}"}
    # several segments, so that more than one ends
    cut = {"segment_bytes": 1} if "segment" in point else {}
    driver = Call(uri, str(source), **cut).start(**env)
    jvm = jvm_of(driver)
    _, errors = driver.communicate(timeout=120)
    assert driver.returncode == -signal.SIGKILL, errors
    until(lambda: not is_running(jvm))
    go_on(uri, source, engine)
    assert rows_of(uri) == local_rows(tmp_path, source)


@pytest.mark.parametrize(
    "catalog_uri", ["sqlite", pytest.param("postgres", marks=pytest.mark.soak)], indirect=True
)
def test_a_driver_killed_at_random(catalog_uri, tmp_path, source, engine):
    seed = int(os.environ.get("DELTASQL_SEED", "20261116"))
    print(f"seed {seed}")
    rng = random.Random(f"{seed} {catalog_uri.split('/')[2]}")
    History(11, 3 * VERSIONS, vectors=False).write(source)
    for _ in range(KILLS):
        driver = Call(catalog_uri, str(source)).start()
        jvm = jvm_of(driver)
        try:
            driver.wait(rng.uniform(0.0, 4.0))
        except subprocess.TimeoutExpired:
            driver.kill()
        _, errors = driver.communicate()
        assert driver.returncode in {0, -signal.SIGKILL}, errors
        until(lambda pid=jvm: not is_running(pid))
    go_on(catalog_uri, source, engine)
    assert rows_of(catalog_uri) == local_rows(tmp_path, source)


def test_a_spark_that_dies_is_told_in_one_line(tmp_path, source, engine):
    uri = f"deltasql://sqlite/{tmp_path}/catalog.db"
    marks = marked(tmp_path, 4 * CUT)
    call = Call(uri, str(source), fault=(str(marks), "stuck"))
    driver = call.start()
    jvm = jvm_of(driver)
    until((marks / Path(commit_key(4 * CUT)).name).exists)
    os.kill(jvm, signal.SIGKILL)
    out, errors = driver.communicate(timeout=120)
    assert driver.returncode == 1, errors
    assert out, errors
    message = json.loads(out.splitlines()[-1])["message"]
    assert message.startswith("The Spark job failed: ")
    assert "\n" not in message
    assert "Traceback" not in message + errors
    go_on(uri, source, engine)
    assert rows_of(uri) == local_rows(tmp_path, source)


def test_a_driver_that_is_interrupted_ends_its_tasks(tmp_path, source, engine):
    uri = f"deltasql://sqlite/{tmp_path}/catalog.db"
    marks = marked(tmp_path, 4 * CUT)
    driver = Call(uri, str(source), fault=(str(marks), "stuck")).start()
    jvm = jvm_of(driver)
    until((marks / Path(commit_key(4 * CUT)).name).exists)
    driver.send_signal(signal.SIGINT)
    _, errors = driver.communicate(timeout=120)
    assert driver.returncode == -signal.SIGINT, errors
    until(lambda: not is_running(jvm))
    go_on(uri, source, engine)
    assert rows_of(uri) == local_rows(tmp_path, source)


def test_waves_fit_into_the_result_size_of_the_session(tmp_path, source):
    """Four tasks together would return more than Spark allows."""
    uri = f"deltasql://sqlite/{tmp_path}/catalog.db"
    conf = {"spark.driver.maxResultSize": "64k"}
    reported = finish(Call(uri, str(source), conf=conf).start())
    assert reported["versions"] == VERSIONS
    assert rows_of(uri) == local_rows(tmp_path, source)


def test_a_task_that_is_larger_than_the_result_size_names_the_setting(tmp_path, source, engine):
    uri = f"deltasql://sqlite/{tmp_path}/catalog.db"
    driver = Call(uri, str(source), conf={"spark.driver.maxResultSize": "20k"}).start()
    out, errors = driver.communicate(timeout=120)
    assert driver.returncode == 1, errors
    message = json.loads(out.splitlines()[-1])["message"]
    assert message.startswith("The rows of versions 33 to 35 take ")
    assert "spark.driver.maxResultSize lets a task return 3776" in message
    go_on(uri, source, engine)
    assert rows_of(uri) == local_rows(tmp_path, source)


def test_a_cluster_imports_from_files(master, catalog_uri, tmp_path, source):
    """Its workers reach the files of the table, and no catalog."""
    told = finish(Call(catalog_uri, str(source), master, CONF).start())
    assert (told["engine"], told["versions"]) == ("spark", VERSIONS)
    assert rows_of(catalog_uri) == local_rows(tmp_path, source)


def test_a_cluster_imports_from_an_object_store(master, postgres_uri, s3_server, source, tmp_path):
    name = f"t{os.getpid()}"
    place, options = f"s3://{BUCKET}/{name}", s3_options(s3_server.endpoint)
    for version in range(VERSIONS):  # S3 tells times in seconds
        os.utime(source / commit_key(version), (START // 1000 + version,) * 2)
    shutil.copytree(source, s3_server.files / BUCKET / name)
    told = finish(Call(postgres_uri, place, master, CONF, options).start())
    assert told["versions"] == VERSIONS
    assert rows_of(postgres_uri) == local_rows(tmp_path, source)


def test_an_executor_that_is_killed_is_replaced(master, postgres_uri, tmp_path, source):
    marks = marked(tmp_path, 4 * CUT)
    call = Call(postgres_uri, str(source), master, CONF, fault=(str(marks), "executor"))
    told = finish(call.start())
    assert told["versions"] == VERSIONS
    assert (marks / f"{Path(commit_key(4 * CUT)).name}.again").exists()
    assert rows_of(postgres_uri) == local_rows(tmp_path, source)


def test_the_rows_of_a_slow_attempt_never_count(master, postgres_uri, tmp_path, source):
    """A second attempt overtakes the first, which then reads something else and returns it."""
    slow = (3 * CUT, 8 * CUT)
    marks = marked(tmp_path, *slow)
    conf = CONF | {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.minTaskRuntime": "100ms",
        "spark.speculation.efficiency.enabled": "false",
    }
    told = finish(Call(postgres_uri, str(source), master, conf, fault=(str(marks), "lost")).start())
    assert told["versions"] == VERSIONS
    for version in slow:
        name = Path(commit_key(version)).name
        assert (marks / f"{name}.slow").exists()
        assert (marks / f"{name}.again").exists()
    assert rows_of(postgres_uri) == local_rows(tmp_path, source)


def test_a_driver_of_a_cluster_that_is_killed(master, postgres_uri, tmp_path, source):
    """The next run goes on where it ended."""
    marks = marked(tmp_path, 8 * CUT)
    call = Call(postgres_uri, str(source), master, CONF, fault=(str(marks), "stuck"))
    driver = call.start()
    jvm = jvm_of(driver)
    until((marks / Path(commit_key(8 * CUT)).name).exists)
    driver.kill()
    driver.communicate()
    until(lambda: not is_running(jvm))
    finish(Call(postgres_uri, str(source), master, CONF).start())
    assert rows_of(postgres_uri) == local_rows(tmp_path, source)

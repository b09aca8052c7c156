"""Where the archive of Spark's classes is looked for."""

import pytest

from deltasql.jobs.class_archive import archive_options, archive_path, cache_folder

JAVA = "/java"


def test_without_an_archive_java_gets_no_options(tmp_path):
    assert archive_options(JAVA, {"XDG_CACHE_HOME": str(tmp_path)}) == ""


def test_an_archive_in_the_cache_is_used(tmp_path):
    env = {"XDG_CACHE_HOME": str(tmp_path)}
    path = archive_path(JAVA, env)
    path.parent.mkdir()
    path.touch()

    assert path.parent == tmp_path / "deltasql"
    assert f"-XX:SharedArchiveFile={path}" in archive_options(JAVA, env).split()


def test_another_java_has_another_archive(tmp_path):
    env = {"XDG_CACHE_HOME": str(tmp_path)}
    home = tmp_path / "java"
    home.mkdir()
    before = archive_path(str(home), env)
    (home / "release").write_text('JAVA_VERSION="21.0.1"')

    assert archive_path(str(home), env) != before
    assert archive_path(JAVA, env) != before


def test_a_path_with_a_blank_is_not_given_to_spark_which_would_cut_it(tmp_path):
    env = {"XDG_CACHE_HOME": str(tmp_path / "my cache")}
    path = archive_path(JAVA, env)
    path.parent.mkdir(parents=True)
    path.touch()

    assert archive_options(JAVA, env) == ""


@pytest.mark.parametrize("told", ["", "relative/cache"])
def test_a_cache_that_is_no_absolute_path_is_passed_over(told, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))

    assert cache_folder({"XDG_CACHE_HOME": told}) == tmp_path / ".cache" / "deltasql"

"""One Spark per test process; Delta's own tests and those of the import share it."""

import pytest

import delta_spark
from deltasql.errors import MissingExtraError
from deltasql.spark_runtime.launch import ImportSession, available, import_session
from readers import require


@pytest.fixture(scope="session")
def spark() -> ImportSession:
    """A session with two cores that is there already, as in a notebook."""
    if delta_spark.jars():
        delta_spark.session()
    else:
        try:
            import_session("local[2]", {})
        except MissingExtraError as error:
            require("spark", error.message)
    return import_session(None, {})


@pytest.fixture(scope="session")
def needs_spark() -> None:
    """Spark for processes of their own: none is started in this one."""
    if not available():
        require("spark", "Spark or Java is not installed (make setup)")


@pytest.fixture(scope="session")
def needs_jars(needs_spark) -> None:
    """Delta's jars for processes of their own."""
    delta_spark.find_jars()

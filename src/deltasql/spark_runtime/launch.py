"""Start Spark for imports and for the Spark API; its errors as ours.

The JVM's own output goes to a file without a name: a command's stdout is data.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING

from deltasql.errors import BadArgumentError, MissingExtraError, TableImportError
from deltasql.spark_runtime.java import INSTALL, environment, find_java, spark_environment

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_TRACEBACK = "Traceback (most recent call last):"

# what Spark says around the thing itself
_WRAPPING = re.compile(
    r"^(?:[\w.$]+(?:Exception|Error): )?(?:\[\w+\] )?"
    r"Job aborted due to stage failure: .*?most recent failure: "
)
_PLACE = re.compile(r"^Lost task [\d.]+ in stage [\d.]+ \(TID \d+\) \(.*?\): ")
_PYTHON_LINE = re.compile(r"^[A-Za-z_][\w.]*(?::|$)")

# What Py4J raises when nobody answers, or when the answer was cut off: that one, unlike a refusal
# of the JVM, has no trace. They are not imported, because Py4J loads only with Spark.
_NO_ANSWER = "Py4JNetworkError"
_ANSWER_CUT = "Py4JError"

_LOGGING = Path(__file__).parent / "log4j2.properties"

# Compiling for hours of work costs seconds at the start. Any free port serves the web page: those
# that Spark tries by itself may all be taken, and then it does not start.
_FAST = {
    "spark.app.name": "deltasql import",
    "spark.ui.port": "0",
    "spark.ui.showConsoleProgress": "false",
}
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_FAST_JAVA = (
    f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dlog4j2.configurationFile={_LOGGING.as_uri()}"
)
_DEFAULT_MASTER = "local[*]"
_LOCAL = re.compile(r"local(?:\[([^,\]]+)\])?")

# Without a number of its own, a local master gives a task one attempt only.
_ATTEMPTS = 4
_MOST_TOLD = 64 * 1024


def first_cause(error: BaseException) -> str:
    """Return the line that says what is wrong: of a Python error its own, else Spark's first."""
    if _is_cut_off(error):
        return "Spark's JVM has ended, perhaps for want of memory."
    thrown = getattr(error, "java_exception", None)
    text = str(error) if thrown is None else str(thrown.toString())
    lines = [line.rstrip() for line in text.strip().splitlines()]
    if _TRACEBACK in text:
        start = next(at for at, line in enumerate(lines) if _TRACEBACK in line)
        for line in lines[start + 1 :]:
            if _PYTHON_LINE.match(line):
                return line
    first = next((line for line in lines if line.strip()), type(error).__name__)
    return _PLACE.sub("", _WRAPPING.sub("", first)).strip()


def _is_cut_off(error: BaseException) -> bool:
    kind = type(error).__name__
    cut = kind == _ANSWER_CUT and "Trace:" not in str(error)
    return isinstance(error, ConnectionError) or kind == _NO_ANSWER or cut


@dataclass(frozen=True, slots=True)
class ImportSession:
    """A running Spark; `close` stops it if it was started here."""

    context: SparkContext
    is_ours: bool

    @property
    def spark(self) -> SparkSession:
        """The session for DataFrames, made when it is first asked for."""
        from pyspark.sql import SparkSession  # noqa: PLC0415 (loads only with Spark)

        return SparkSession.builder.getOrCreate()

    @property
    def page(self) -> str | None:
        """Where Spark shows its jobs to a browser."""
        found: str | None = self.context.uiWebUrl
        return found

    @property
    def tries_again(self) -> bool:
        """Whether Spark gives a task that failed another attempt."""
        return _LOCAL.fullmatch(str(self.context.master)) is None

    def close(self) -> None:
        """Stop what was started here."""
        if not self.is_ours:
            return
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", RuntimeWarning)  # pyspark's word for a dead JVM
                self.context.stop()
        except Exception:  # noqa: BLE001 (Py4J has others, and RuntimeWarning is one too)
            _forget_jvm(self.context)


def available(env: Mapping[str, str] = os.environ) -> bool:
    """Tell whether Spark can be used here, without loading it."""
    try:
        require_spark()
        find_java(env)
    except MissingExtraError:
        return False
    return True


def import_session(master: str | None, conf: Mapping[str, str]) -> ImportSession:
    """Return the active session if there is one and no master is named, else start one.

    Raises:
        MissingExtraError: Spark or Java is missing; says what to install.
        BadArgumentError: another session is active, or one that has no tasks of Python.
        TableImportError: Spark does not start; tells its own first words.
    """
    require_spark()
    found = _active(master)
    if found is not None:
        return ImportSession(found, is_ours=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyspark's opinion of the pandas beside it
        return ImportSession(_start(master or _DEFAULT_MASTER, conf), is_ours=True)


def _forget_jvm(context: SparkContext) -> None:
    """Let the next session of this process have a JVM of its own."""
    context.stop()  # what is left of it needs no JVM
    kind = type(context)
    kind._gateway = kind._jvm = None  # noqa: SLF001 (there is no other way)


def require_spark() -> None:
    """Refuse to go on without pyspark.

    Raises:
        MissingExtraError: says what to install.
    """
    if find_spec("pyspark") is None:
        raise MissingExtraError("pyspark is not installed.", hint=INSTALL)


def _active(master: str | None) -> SparkContext | None:
    if "pyspark" not in sys.modules:
        return None
    from pyspark import SparkContext  # noqa: PLC0415 (loads only with Spark)
    from pyspark.sql import SparkSession  # noqa: PLC0415

    # there is no other way to ask for a context without making one
    context: SparkContext | None = getattr(SparkContext, "_active_spark_context", None)
    if context is None:
        if SparkSession.getActiveSession() is not None:
            raise BadArgumentError(
                "The active session is one of Spark Connect, which runs no tasks of ours.",
                hint="Use a classic session, or `engine='local'`.",
            )
        return None
    if master is not None and master != context.master:
        raise BadArgumentError(
            f"A Spark session with the master {context.master} is active in this process.",
            hint="Leave the master out to use it, or stop it first.",
        )
    return context


def _start(master: str, conf: Mapping[str, str]) -> SparkContext:
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 (loads only with Spark)
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415

    master, own = _with_attempts(master), spark_environment(master)
    spark_conf = SparkConf(loadDefaults=False).setAll(list(_settings(master, conf).items()))
    with tempfile.TemporaryFile() as told, environment(own):
        # a JVM that an earlier session of this process has left is used again
        gateway = getattr(SparkContext, "_gateway", None)
        try:
            gateway = gateway or launch_gateway(  # type: ignore[no-untyped-call]
                spark_conf, {"stdout": told, "stderr": told}
            )
            return _quiet(SparkContext(conf=spark_conf, gateway=gateway))
        except Exception as error:
            reason = first_cause(error) if hasattr(error, "java_exception") else _first_words(told)
            raise TableImportError(
                f"Spark does not start with the master {master}: {reason}",
                hint="Check `master=` and `conf=`; `engine='local'` needs no Spark.",
            ) from error


def _quiet(context: SparkContext) -> SparkContext:
    """Keep pyspark and Py4J from printing stacks when the JVM dies: the job tells."""
    logging.getLogger().addFilter(_is_no_word_of_py4j)
    context._accumulatorServer.handle_error = lambda *_: None  # type: ignore[method-assign] # noqa: SLF001
    return context


def _is_no_word_of_py4j(record: logging.LogRecord) -> bool:
    """What Py4J has to say of a lost connection it says on the root logger, with a stack."""
    return Path(record.pathname).parent.name != "py4j"


def _with_attempts(master: str) -> str:
    local = _LOCAL.fullmatch(master)
    return master if local is None else f"local[{local[1] or 1},{_ATTEMPTS}]"


def _settings(master: str, conf: Mapping[str, str]) -> dict[str, str]:
    java = " ".join(filter(None, [_FAST_JAVA, conf.get(_JAVA_OPTIONS)]))
    return {**_FAST, **conf, "spark.master": master, _JAVA_OPTIONS: java}


def _first_words(told: IO[bytes]) -> str:
    """Return the first thing that the JVM found wrong."""
    told.seek(0)
    lines = told.read(_MOST_TOLD).decode(errors="replace").splitlines()
    wrong = [line for line in lines if re.search(r"ERROR|Exception|Error:", line)]
    return (wrong or lines or [""])[0].strip()

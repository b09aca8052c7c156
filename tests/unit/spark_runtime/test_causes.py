"""Of a failed Spark job the one line is told that says what is wrong."""

import pytest

from deltasql.spark_runtime.launch import first_cause

HEAD = (
    "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 2.0 failed "
    "4 times, most recent failure: Lost task 0.3 in stage 2.0 (TID 9) (10.0.0.7 executor 1): "
)
PYTHON = """org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/somewhere/worker.py", line 1, in main
    process()
ValueError: it is broken: badly

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handle(PythonRunner.scala:572)
Driver stacktrace:
"""
LOST = "ExecutorLostFailure (executor 1 exited caused by one of the running tasks)\n\tat x.y.Z"


class JavaError(Exception):
    """As Py4J raises one."""

    def __init__(self, text: str) -> None:
        self.java_exception = self
        self.text = text

    def toString(self) -> str:  # noqa: N802 (as Java spells it)
        return self.text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (HEAD + PYTHON, "ValueError: it is broken: badly"),
        (HEAD + LOST, "ExecutorLostFailure (executor 1 exited caused by one of the running tasks)"),
        ("java.lang.OutOfMemoryError: heap\n\tat a.b", "java.lang.OutOfMemoryError: heap"),
        ("\n\n", "JavaError"),
    ],
)
def test_the_cause_is_one_line(text, told):
    assert first_cause(JavaError(text)) == told


class Py4JNetworkError(Exception):
    """As Py4J raises one."""


class Py4JError(Exception):
    """As Py4J raises one."""


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError(111, "x"),
        Py4JNetworkError("empty"),
        Py4JError("An error occurred while calling o1.collect"),
    ],
)
def test_a_jvm_that_does_not_answer_is_told_as_such(error):
    assert first_cause(error) == "Spark's JVM has ended, perhaps for want of memory."


def test_an_error_of_python_speaks_for_itself():
    assert first_cause(OSError("no space left\nreally")) == "no space left"


def test_what_the_jvm_refused_is_told_as_it_said_it():
    refused = Py4JError("An error occurred while calling o1.x. Trace:\npy4j.Py4JException: no x")
    assert first_cause(refused) == "An error occurred while calling o1.x. Trace:"

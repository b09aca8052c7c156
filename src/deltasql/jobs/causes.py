"""Pure: what went wrong in a Spark job, in one line instead of two stack traces."""

from __future__ import annotations

import re

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

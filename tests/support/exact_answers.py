"""The exact answer of a filter for one row: what pruning by facts about files is measured by."""

from collections.abc import Mapping

from deltasql.protocol.predicate.ast import Column, Predicate
from deltasql.protocol.predicate.prune import Facts, _exactly, answers
from deltasql.protocol.values import Value


def evaluate(predicate: Predicate, values: Mapping[str, Value | None]) -> bool | None:
    """Return a filter's answer for a row of typed values, keyed by physical names."""

    def known(column: Column) -> Facts:
        return _exactly(values[".".join(column.physical)])

    (answer,) = answers(predicate, known)
    return answer

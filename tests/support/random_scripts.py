"""Random scripts of operations, the same for a table of Delta's own and for one of deltasql."""

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import delta_spark
import deltasql.spark
from deltasql.errors import ConstraintViolationError
from readers import Rows, sort_rows

COLUMNS = "id long, day string, amount long"
_DAYS = ("a", "b c", "d/é%", None)
_WRITES = ("append", "append", "overwrite", "replace", "dynamic", "wider")
_VIOLATIONS = ("DELTA_VIOLATE_CONSTRAINT", "DELTA_NEW_CHECK_CONSTRAINT_VIOLATION")
_STATEMENTS = ("merge", "merge", "update", "delete", "insert", "optimize", "alter", "constrain")


@dataclass(frozen=True)
class Step:
    """A statement for a table {t}, or rows for a writer."""

    statement: str = ""
    rows: tuple[tuple[Any, ...], ...] = ()
    columns: str = COLUMNS
    mode: str = "append"
    options: dict[str, str] = field(default_factory=dict)


def script(chance: random.Random, length: int) -> list[Step]:
    """Return steps that no table refuses, but for a null where a constraint wants a number."""
    makers = {**dict.fromkeys(_WRITES, _write), **dict.fromkeys(_STATEMENTS, _statement)}
    kinds = [chance.choice(_WRITES), *chance.choices(_WRITES + _STATEMENTS, k=length - 1)]
    return [makers[kind](chance, kind, number) for number, kind in enumerate(kinds)]


def first_rows(chance: random.Random) -> Step:
    """Return an append to a table that has its three columns."""
    return Step(rows=_rows(chance))


def _write(chance: random.Random, kind: str, number: int) -> Step:
    rows = _rows(chance)
    if kind == "replace":
        where = {"replaceWhere": "day = 'a'"}
        return Step(rows=tuple((i, "a", n) for i, _, n in rows), mode="overwrite", options=where)
    if kind == "dynamic":
        return Step(rows=rows, mode="overwrite", options={"partitionOverwriteMode": "dynamic"})
    if kind == "wider":
        wider = tuple((*row, f"x{row[0]}") for row in rows)
        return Step(
            rows=wider,
            columns=f"{COLUMNS}, more{number} string",
            options={"mergeSchema": "true"},
        )
    return Step(rows=rows, mode=kind)


def _statement(chance: random.Random, kind: str, number: int) -> Step:
    low, some = chance.randrange(20), _values(_rows(chance, unique=True))
    return Step(
        {
            "merge": f"MERGE INTO {{t}} t USING (SELECT * FROM VALUES {some} AS s(id, day, amount)"
            f") s ON t.id = s.id {_clauses(chance, low)}",
            "update": f"UPDATE {{t}} SET amount = amount + {low}, day = {_text(_day(chance))} "
            f"WHERE id > {low} OR day IS NULL",
            "delete": f"DELETE FROM {{t}} WHERE id BETWEEN {low} AND {low + 5}",
            "insert": f"INSERT INTO {{t}} (id, day, amount) VALUES {some}",
            "optimize": "OPTIMIZE {t}",
            "alter": f"ALTER TABLE {{t}} ADD COLUMNS (column{number} int)",
            "constrain": f"ALTER TABLE {{t}} ADD CONSTRAINT c{number} CHECK (amount > -1000)",
        }[kind]
    )


def transaction(chance: random.Random, tables: str, length: int) -> list[str]:
    """Return statements for tables {a}, {b}, … that read and write each other."""
    return [_across(chance, *chance.sample(tables, 2)) for _ in range(length)]


def _across(chance: random.Random, one: str, other: str) -> str:
    low = chance.randrange(20)
    source = (
        f"(SELECT id, max(day) day, max(amount) amount FROM {{{other}}} WHERE id >= {low} "
        "GROUP BY id)"
    )
    count = f"SELECT id, 'a', count(*) FROM {{{other}}} GROUP BY id"
    return chance.choice(
        [
            f"MERGE INTO {{{one}}} t USING {source} s ON t.id = s.id {_clauses(chance, low)}",
            f"INSERT INTO {{{one}}} SELECT id + 100, day, amount FROM {{{other}}} WHERE id < {low}",
            f"INSERT INTO {{{one}}} REPLACE WHERE day = 'a' {count}",
            f"UPDATE {{{one}}} SET amount = amount * 2, day = 'a' WHERE id % 3 = {low % 3}",
            f"DELETE FROM {{{one}}} WHERE id % 4 = {low % 4}",
            f"OPTIMIZE {{{one}}}",
        ]
    )


def _clauses(chance: random.Random, low: int) -> str:
    matched = chance.choice(
        [
            "WHEN MATCHED THEN UPDATE SET amount = s.amount, day = s.day",
            f"WHEN MATCHED AND t.amount > {low} THEN DELETE",
            "WHEN MATCHED THEN UPDATE SET t.amount = t.amount + 1",
        ]
    )
    insert = "WHEN NOT MATCHED THEN INSERT (id, day, amount) VALUES (s.id, s.day, s.amount)"
    gone = f"WHEN NOT MATCHED BY SOURCE AND t.id < {low} THEN DELETE"
    others = [clause for clause in (insert, gone) if chance.random() < 0.6]  # in this order only
    return " ".join([matched, *others])


def _rows(chance: random.Random, *, unique: bool = False) -> tuple[tuple[Any, ...], ...]:
    count = chance.randrange(1, 8)
    ids = chance.sample(range(30), count) if unique else chance.choices(range(30), k=count)
    return tuple((i, _day(chance), chance.choice([None, *range(50)])) for i in ids)


def _day(chance: random.Random) -> str | None:
    return chance.choice(_DAYS)


def _values(rows: tuple[tuple[Any, ...], ...]) -> str:
    return ", ".join(
        f"({i}L, {_text(day)}, CAST({'NULL' if n is None else n} AS bigint))" for i, day, n in rows
    )


def _text(value: str | None) -> str:
    return "CAST(NULL AS string)" if value is None else f"'{value}'"


def run_plain(step: Step, place: str) -> None:
    """Let Delta Spark do a step on a table of its own."""
    if step.statement:
        delta_spark.run(step.statement.format(t=f"delta.`{place}`"))
        return
    writer = _frame(step).write.format("delta").mode(step.mode)
    writer.options(**step.options).save(place)


def run_ours(step: Step, uri: str, name: str) -> None:
    """Do a step through deltasql."""
    if step.statement:
        deltasql.spark.sql(delta_spark.session(), uri, step.statement.format(t=name))
        return
    deltasql.spark.write(_frame(step), uri, name, mode=step.mode, options=step.options)


def refuses(run: Callable[[], None]) -> bool:
    """Tell whether a step breaks a constraint; it is an error if it fails for anything else."""
    try:
        run()
    except Exception as error:
        is_ours = isinstance(error, ConstraintViolationError)
        if not is_ours and not any(word in delta_spark.complaint(error) for word in _VIOLATIONS):
            raise
        return True
    return False


def _frame(step: Step) -> Any:
    spark = delta_spark.session()
    return spark.createDataFrame(list(step.rows), step.columns).coalesce(1)


def rows_of_versions(place: str, versions: range) -> dict[int, Rows]:
    """Return what Delta Spark reads at each version, in one job."""
    delta_spark.forget()
    frames = [
        delta_spark._frame(place, versionAsOf=version).selectExpr("*", f"{version} AS `_version`")
        for version in versions
    ]
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionByName(frame, allowMissingColumns=True)
    found: dict[int, Rows] = {version: [] for version in versions}
    for row in whole.toArrow().to_pylist():
        found[row.pop("_version")].append(row)
    return {version: sort_rows(rows) for version, rows in found.items()}


def schema_of(place: str) -> str:
    return delta_spark._frame(place).schema.json()


def live_stats(place: str) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield the statistics of each live file, and how many of its rows are deleted."""
    live: dict[tuple[str, str], dict[str, Any]] = {}
    for file in sorted(Path(place, "_delta_log").glob("*.json")):
        for line in file.read_text().splitlines():
            ((kind, action),) = json.loads(line).items()
            if kind in {"add", "remove"}:
                key = action["path"], json.dumps(action.get("deletionVector"))
                live.pop(key, None)
                if kind == "add":
                    live[key] = action
    for add in live.values():
        vector = add.get("deletionVector") or {"cardinality": 0}
        yield json.loads(add["stats"]), vector["cardinality"]


def totals(place: str) -> dict[str, Any]:
    """Return what the statistics say of the table; bounds only where no row is deleted."""
    found = list(live_stats(place))
    told: dict[str, Any] = {"rows": sum(one["numRecords"] - gone for one, gone in found)}
    if any(gone for _, gone in found):
        return told
    for name in ("id", "amount"):
        low = [one["minValues"][name] for one, _ in found if name in one.get("minValues", {})]
        high = [one["maxValues"][name] for one, _ in found if name in one.get("maxValues", {})]
        nulls = sum(one["nullCount"].get(name, 0) for one, _ in found)
        told[name] = (min(low, default=None), max(high, default=None), nulls)
    return told

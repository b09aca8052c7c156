"""Listings of `_delta_log` in few words, for tests of what an import makes of them."""

from collections.abc import Iterable

from deltasql.imports.plan.import_plan import ImportPlan, PlanOptions, plan_listing
from deltasql.imports.plan.listing import sort_listing
from deltasql.protocol.log_names import LOG_FOLDER, commit_name
from deltasql.storage.port import ObjectInfo

URI = "memory://lake/t"
UUIDS = [f"80a083e8-7026-4e79-81be-64bd76c43a{n:02d}" for n in range(3)]


def classic(version: int) -> str:
    return f"{version:020d}.checkpoint.parquet"


def multipart(version: int, part: int, parts: int) -> str:
    return f"{version:020d}.checkpoint.{part:010d}.{parts:010d}.parquet"


def v2(version: int, number: int = 0, form: str = "json") -> str:
    return f"{version:020d}.checkpoint.{UUIDS[number]}.{form}"


def commits(*versions: int) -> list[str]:
    return [commit_name(version) for version in versions]


def span(first: int, last: int) -> list[str]:
    """The commits of these versions, both ends included."""
    return commits(*range(first, last + 1))


def listed(names: Iterable[str], empty: Iterable[str] = ()) -> list[ObjectInfo]:
    """Files of a hundred bytes, and files of none."""
    sizes = dict.fromkeys(names, 100) | dict.fromkeys(empty, 0)
    return [
        ObjectInfo(LOG_FOLDER + name, size, 1_000 + number)
        for number, (name, size) in enumerate(sorted(sizes.items()))
    ]


def planned(
    names: Iterable[str],
    *,
    empty: Iterable[str] = (),
    hint: bytes | None = None,
    **options: object,
) -> ImportPlan:
    """The plan for a log with these files."""
    return plan_listing(sort_listing(listed(names, empty), hint, URI), PlanOptions(**options))


def codes(plan: ImportPlan) -> set[str]:
    """The names of what a plan remarks."""
    return {str(warning.code) for warning in plan.warnings}


def versions(plan: ImportPlan) -> list[int]:
    return [file.version for file in plan.commits]

"""Where the archive of the classes lies that Spark's JVM loads at its start, if there is one.

A JVM that finds its classes in an archive starts in about half the time. The archive belongs to one
Java and one Spark; a JVM that finds it does not fit passes over it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

_KEPT = "deltasql"
# The JVM's own words about an archive that does not fit would come on stdout, which is data.
_QUIET = "-Xlog:disable -Xlog:all=error:stderr"


def archive_path(java_home: str, env: Mapping[str, str]) -> Path:
    """Return where the archive of this Java and this Spark belongs."""
    told = "\n".join([java_home, _release(java_home), version("pyspark")])
    name = hashlib.sha256(told.encode()).hexdigest()[:16]
    return cache_folder(env) / f"spark-{name}.jsa"


def archive_options(java_home: str, env: Mapping[str, str]) -> str:
    """Return the options by which a JVM takes its classes from the archive; none without one."""
    found = archive_path(java_home, env)
    if not found.is_file() or " " in str(found):  # Spark splits options at blanks
        return ""
    return f"-XX:SharedArchiveFile={found} {_QUIET}"


def recording_options(path: Path) -> str:
    """Return the options by which a JVM writes the archive when it ends."""
    return f"-XX:ArchiveClassesAtExit={path} {_QUIET}"


def cache_folder(env: Mapping[str, str]) -> Path:
    """Return the folder for what can be made again."""
    told = env.get("XDG_CACHE_HOME")
    base = Path(told) if told and Path(told).is_absolute() else Path.home() / ".cache"
    return base / _KEPT


def _release(java_home: str) -> str:
    try:
        return (Path(java_home) / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""

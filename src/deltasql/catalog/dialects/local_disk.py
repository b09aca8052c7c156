"""Does a file lie on a disk of this machine? SQLite's locks hold nowhere else."""

from __future__ import annotations

from pathlib import Path

from deltasql.errors import ConfigError

_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "9p", "afs"}
_MOUNTS = Path("/proc/self/mounts")


def refuse_network_file_system(path: Path, mounts: str | None = None) -> None:
    """Refuse a place where POSIX locks cannot be trusted; `mounts` is the system's own table.

    Raises:
        ConfigError: names the file system.
    """
    table = _read() if mounts is None else mounts
    target = str(path.parent.resolve())
    best, kind = "", ""
    for line in table.splitlines():
        _, point, found, *_ = line.split(" ")
        point = point.replace("\\040", " ")
        inside = target == point or target.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, found
    if kind in _NETWORK:
        raise ConfigError(
            f"The catalog at {path} lies on a network file system ({kind}).",
            hint="SQLite needs a local disk; use PostgreSQL to share a catalog.",
        )


def _read() -> str:
    return _MOUNTS.read_text(encoding="utf-8", errors="replace") if _MOUNTS.exists() else ""

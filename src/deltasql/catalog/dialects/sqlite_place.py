"""Can a catalog file be at this path? Said of the path, before SQLite says less."""

from __future__ import annotations

from pathlib import Path

from deltasql.errors import ConfigError, PermissionDeniedError


def is_there(path: Path) -> bool:
    """Tell whether there is something at the path.

    Raises:
        PermissionDeniedError: this user may not look.
        ConfigError: no file can have such a path.
    """
    try:
        return path.exists()
    except PermissionError as error:
        raise no_right_error(path) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"There can be no catalog database at {path}: {reason}.") from error


def require_folder(path: Path) -> None:
    """Refuse a path whose folder is missing: it is not made, it may be a disk not yet mounted.

    Raises:
        ConfigError: names the folder.
    """
    if not path.parent.is_dir():
        raise ConfigError(
            f"The folder {path.parent.absolute()} of the catalog database does not exist.",
            hint="Create the folder, or correct the path in the URI.",
        )


def no_right_error(path: Path) -> PermissionDeniedError:
    """Return the error of a file that this user may not open."""
    return PermissionDeniedError(
        f"This user may not open the catalog database at {path}.",
        hint="Check the owner and the mode of the file and of its folder.",
    )

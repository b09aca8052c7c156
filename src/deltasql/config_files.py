"""Where settings are written down: TOML files and the environment, read into flat layers.

It knows where to look and how a layer is shaped, not which settings exist.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from deltasql.errors import ConfigError
from deltasql.errors.nearest import did_you_mean

PROJECT_FILE: Final = "deltasql.toml"
_HINT: Final = "See the settings reference for the sections and names."


@dataclass(frozen=True, slots=True)
class Layer:
    """Settings of one source, `section.name` to value; values stay out of its repr."""

    source: str
    values: Mapping[str, object] = field(repr=False)
    stores: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    profiles: Mapping[str, Layer] = field(default_factory=dict, repr=False)


def find_files(env: Mapping[str, str], cwd: Path, config: str | None = None) -> list[Path]:
    """Return the configuration files to read, the weakest first.

    Raises:
        ConfigError: the file that was asked for is not there, or a place cannot be looked at.
    """
    asked = config or env.get("DELTASQL_CONFIG")
    if asked:
        file = cwd / Path(asked).expanduser()
        if not _is_file(file):
            raise ConfigError(f"The configuration file {file} does not exist.")
        return [file]
    home = env.get("HOME")
    base = Path(env["XDG_CONFIG_HOME"]) if env.get("XDG_CONFIG_HOME") else None
    base = base or (Path(home) / ".config" if home else None)
    candidates = [base / "deltasql" / "config.toml"] if base else []
    return [file for file in [*candidates, cwd / PROJECT_FILE] if _is_file(file)]


def _is_file(file: Path) -> bool:
    """Tell whether there is such a file; where nobody can tell, its settings may be missing."""
    try:
        return file.is_file()
    except OSError as error:
        raise ConfigError(
            f"The configuration file {file} cannot be looked for: {error.strerror}.",
            hint="Make its folder readable, or name another file by `config=` or DELTASQL_CONFIG.",
        ) from error


def read_layer(file: Path) -> Layer:
    """Return the settings of a TOML file.

    Raises:
        ConfigError: the file cannot be read or is not shaped like a configuration.
    """
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file} is not valid TOML: {error}.") from error
    except OSError as error:
        raise ConfigError(
            f"The configuration file {file} cannot be read: {error.strerror}.",
            hint="Make it readable, or name another file by `config=` or DELTASQL_CONFIG.",
        ) from error
    except UnicodeDecodeError:
        raise ConfigError(f"{file} cannot be read as UTF-8 text.") from None
    profiles = _section(document.pop("profiles", {}), "profiles", str(file))
    layers = {
        name: _layer(_section(profile, f"profiles.{name}", str(file)), f"{file} [profiles.{name}]")
        for name, profile in profiles.items()
    }
    own = _layer(document, str(file))
    return Layer(own.source, own.values, own.stores, layers)


def _layer(document: dict[str, Any], source: str) -> Layer:
    rest = dict(document)
    stores = {
        prefix: _options(options, prefix, source)
        for prefix, options in _section(rest.pop("stores", {}), "stores", source).items()
    }
    values: dict[str, object] = {}
    for name, value in rest.items():
        if isinstance(value, dict):
            values.update({f"{name}.{key}": inner for key, inner in value.items()})
        else:
            values[name] = value
    return Layer(source, values, stores)


def _section(value: object, name: str, source: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{name} in {source} is not a section.", hint=_HINT)
    return dict(value)


def _options(value: object, prefix: str, source: str) -> dict[str, str]:
    options = _section(value, f"stores.{prefix}", source)
    for key, option in options.items():
        if not isinstance(option, str | int | bool) or isinstance(option, float):
            raise ConfigError(f"The option {key} of stores.{prefix} in {source} is not a text.")
    return {key: _text(option) for key, option in options.items()}


def _text(option: str | int | bool) -> str:
    return str(option).lower() if isinstance(option, bool) else str(option)


def env_layer(env: Mapping[str, str], keys: Iterable[str]) -> Layer:
    """Return the settings of DELTASQL_<SECTION>_<NAME> variables, and DELTASQL_URI.

    Raises:
        ConfigError: a variable begins like a section but names no setting.
    """
    known = {env_name(key): key for key in keys}
    sections = {f"DELTASQL_{key.split('.')[0].upper()}_" for key in known.values() if "." in key}
    values: dict[str, object] = {}
    for name, value in sorted(env.items()):
        if name in known:
            values[known[name]] = value
        elif name.startswith(tuple(sections)):
            raise ConfigError(
                f"The environment variable {name} names no setting.",
                hint=did_you_mean(name, known, _HINT),
            )
    return Layer("the environment", values)


def env_name(key: str) -> str:
    """Return the environment variable of a setting."""
    return "DELTASQL_" + key.replace(".", "_").upper()

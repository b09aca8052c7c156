"""Settings as frozen values: names, defaults, meanings, where they are written, and which source
wins.

A flag beats a table's property, which beats the environment, which beats the configuration file,
which beats the default.

Where settings are written down: TOML files and the environment, read into flat layers. It knows
where to look and how a layer is shaped, not which settings exist.
"""

# ruff: noqa: RUF009 (_setting and _time make a dataclass field: nothing mutable is shared)
from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal, Self

from deltasql.errors import ConfigError, did_you_mean

PROJECT_FILE: Final = "deltasql.toml"
_HINT: Final = "See the settings reference for the sections and names."

MirrorMode = Literal["inline", "worker", "off"]
SchemaMode = Literal["create_if_missing", "error"]
_FLAG: Final = "a flag"
_SEE_REFERENCE: Final = "The settings reference lists all names."
_UNITS: Final = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
_DURATION: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*(ms|s|m|h|d)?")


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


def parse_duration(value: object) -> timedelta:
    """Return a duration such as 250ms, 30s, 5m, 1h, 1d; a bare number counts seconds.

    Raises:
        ValueError: it is none.
    """
    match = None if isinstance(value, bool) else _DURATION.fullmatch(str(value).strip())
    if match is None:
        raise ValueError("a duration such as 30s, 5m or 1h")
    return float(match[1]) * _UNITS[match[2] or "s"]


def format_duration(value: timedelta) -> str:
    """Return the shortest exact spelling that `parse_duration` reads back."""
    for unit in ("h", "m", "s"):
        if value and value % _UNITS[unit] == timedelta(0):
            return f"{value // _UNITS[unit]}{unit}"
    return f"{value / _UNITS['ms']:g}ms"


def _positive_duration(value: object) -> timedelta:
    duration = parse_duration(value)
    if duration <= timedelta(0):
        raise ValueError("a duration above zero")
    return duration


def _duration_or_off(value: object) -> timedelta:
    if value is False or str(value).strip().lower() == "off":
        return timedelta(0)
    try:
        return parse_duration(value)
    except ValueError:
        raise ValueError("a duration such as 30s, 5m or 1h, or off") from None


def _whole(minimum: int) -> Callable[[object], int]:
    def parse(value: object) -> int:
        text = str(value).strip()
        is_whole = not isinstance(value, bool) and re.fullmatch(r"\d{1,9}", text)
        if not is_whole or int(text) < minimum:
            raise ValueError(f"a whole number from {minimum}")
        return int(text)

    return parse


def _choice(*names: str) -> Callable[[object], str]:
    def parse(value: object) -> str:
        if value not in names:
            raise ValueError("one of " + ", ".join(names))
        return str(value)

    return parse


def _setting(default: Any, parse: Callable[[object], Any], text: str) -> Any:
    return field(default=default, metadata={"parse": parse, "help": text})


def _time(default: str, text: str) -> Any:
    return _setting(parse_duration(default), _positive_duration, text)


@dataclass(frozen=True, slots=True)
class MirrorSettings:
    """How commits reach `_delta_log`."""

    checkpoint_interval: int = _setting(10, _whole(1), "A checkpoint every so many versions")
    checkpoint_codec: str = _setting(
        "snappy", _choice("snappy", "zstd", "gzip", "none"), "Compression of checkpoints"
    )
    reconcile_interval: timedelta = _time("30s", "Pause between full sweeps of the reconciler")
    max_retry_attempts: int = _setting(5, _whole(1), "Attempts before a version counts as failed")
    retry_backoff_base: timedelta = _time("1s", "First pause between attempts; doubles each time")
    retry_backoff_max: timedelta = _time("60s", "Longest pause between attempts")
    slow_retry_interval: timedelta = _time("1h", "Pause between attempts on a failed version")
    lease_ttl: timedelta = _time("60s", "How long a silent worker keeps its hold on a table")
    lag_warn_threshold: timedelta = _time("60s", "Lag that warns")
    lag_alert_threshold: timedelta = _time("300s", "Lag that alerts")
    max_concurrency: int = _setting(10, _whole(1), "Tables that are mirrored at the same time")
    mode: MirrorMode = _setting(
        "inline",
        _choice("inline", "worker", "off"),
        "inline: right after each commit; worker: by a reconciler; off: SQL only",
    )
    inline_deadline: timedelta = _time("2s", "Longest time a commit waits for its inline mirror")
    verify_interval: timedelta = _setting(
        parse_duration("24h"),
        _duration_or_off,
        "A worker compares every log with SQL once in this time; 0 or off: never",
    )
    max_puts_per_second: int = _setting(
        0, _whole(0), "Commits that one worker puts in a second; 0: as many as it can"
    )
    max_checkpoints_per_minute: int = _setting(
        0, _whole(0), "Checkpoints that one worker writes in a minute; 0: as many as are due"
    )


@dataclass(frozen=True, slots=True)
class CommitSettings:
    """How commits meet each other."""

    retries: int = _setting(10, _whole(0), "Times a commit that may be rebased is tried again")
    user: str = _setting(
        "", str, "User of commits in the history; default: the database login, else the OS user"
    )


@dataclass(frozen=True, slots=True)
class SqlSettings:
    """What the catalog does to its database."""

    schema: SchemaMode = _setting(
        "create_if_missing",
        _choice("create_if_missing", "error"),
        "What a first create or import does where there is no catalog",
    )


@dataclass(frozen=True, slots=True, repr=False)
class AlertSettings:
    """Where a worker says that something is wrong; its log always has it.

    An address may hold a secret: no repr shows it.
    """

    webhook: str = _setting("", str, "Post alerts as JSON to this http or https address")
    command: str = _setting("", str, "Run this command with each alert as JSON on its input")


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One line of the settings reference."""

    key: str
    default: str
    env: str
    help: str


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be set. URI and store options may hold secrets: no repr shows them."""

    mirror: MirrorSettings = field(default_factory=MirrorSettings)
    commit: CommitSettings = field(default_factory=CommitSettings)
    sql: SqlSettings = field(default_factory=SqlSettings)
    alerts: AlertSettings = field(default_factory=AlertSettings, repr=False)
    uri: str | None = field(default=None, repr=False)
    stores: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    origins: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    SECTIONS: ClassVar[Mapping[str, type]] = MappingProxyType(
        {
            "mirror": MirrorSettings,
            "commit": CommitSettings,
            "sql": SqlSettings,
            "alerts": AlertSettings,
        }
    )

    @classmethod
    def load(
        cls, env: Mapping[str, str], cwd: Path, overrides: Mapping[str, object] | None = None
    ) -> Self:
        """Return the settings of flags (`overrides`), environment, files and defaults.

        `overrides` may also name the `profile` and the `config` file to use.

        Raises:
            ConfigError: a source names an unknown setting or gives it a value it cannot have.
        """
        flags = {key: value for key, value in (overrides or {}).items() if value is not None}
        config, profile = flags.pop("config", None), flags.pop("profile", None)
        files = [read_layer(file) for file in find_files(env, cwd, str(config) if config else None)]
        named = str(profile) if profile else env.get("DELTASQL_PROFILE")
        layers = [*files, *_profile_layers(files, named)]
        layers += [env_layer(env, _keys()), Layer(_FLAG, flags)]
        return cls()._with(layers)  # noqa: SLF001 (its own class)

    def for_table(self, properties: Mapping[str, str]) -> Self:
        """Return the settings of a table; its properties yield to flags only.

        A property is `mirror.<name>` or `deltasql.mirror.<name>`; `delta.checkpointInterval`
        counts where neither stands for it.

        Raises:
            ConfigError: such a property is unknown or has a value it cannot have.
        """
        values: dict[str, object] = {}
        if "delta.checkpointInterval" in properties:
            values["mirror.checkpoint_interval"] = properties["delta.checkpointInterval"]
        for prefix in ("", "deltasql."):
            start = f"{prefix}mirror."
            named = {k: v for k, v in sorted(properties.items()) if k.startswith(start)}
            values |= {key.removeprefix(prefix): value for key, value in named.items()}
        free = {k: v for k, v in values.items() if self.origins.get(k) != _FLAG}
        return self._with([Layer("the table's properties", free)])

    @classmethod
    def describe(cls) -> list[SettingRow]:
        """Return one row per setting, for the reference."""
        rows = [SettingRow("uri", "", "DELTASQL_URI", "The catalog to use where none is named")]
        for section, kind in cls.SECTIONS.items():
            for spec in fields(kind):
                key = f"{section}.{spec.name}"
                shown = spec.default
                text = format_duration(shown) if isinstance(shown, timedelta) else str(shown)
                rows.append(SettingRow(key, text, env_name(key), spec.metadata["help"]))
        return rows

    def _with(self, layers: Iterable[Layer]) -> Self:
        parsed: dict[str, dict[str, Any]] = {section: {} for section in self.SECTIONS}
        origins, uri, stores = dict(self.origins), self.uri, dict(self.stores)
        for layer in layers:
            stores |= {prefix: MappingProxyType(dict(o)) for prefix, o in layer.stores.items()}
            for key, value in layer.values.items():
                if key == "uri":
                    uri = _parse_text(value, key, layer.source)
                elif key != "profile":
                    section, name, result = _parse(key, value, layer.source)
                    parsed[section][name] = result
                origins[key] = layer.source
        sections: dict[str, Any] = {
            name: replace(getattr(self, name), **values) for name, values in parsed.items()
        }
        changed = replace(
            self,
            **sections,
            uri=uri,
            stores=MappingProxyType(stores),
            origins=MappingProxyType(origins),
        )
        _check_together(changed)
        return changed


def _keys() -> list[str]:
    return [row.key for row in Settings.describe()]


def _profile_layers(files: list[Layer], asked: str | None) -> list[Layer]:
    written = [str(f.values["profile"]) for f in files if "profile" in f.values]
    name = asked or (written[-1] if written else None)
    found = [file.profiles[name] for file in files if name in file.profiles] if name else []
    if name and not found:
        known = sorted({profile for file in files for profile in file.profiles})
        raise ConfigError(
            f"There is no profile {name} in the configuration.",
            hint=did_you_mean(name, known, f"Profiles: {', '.join(known)}.")
            if known
            else "No profile is configured.",
        )
    return found


def _parse(key: str, value: object, source: str) -> tuple[str, str, Any]:
    section, _, name = key.partition(".")
    spec = {f.name: f for f in fields(Settings.SECTIONS.get(section, type(_NONE)))}.get(name)
    if spec is None:
        raise ConfigError(
            f"{key} in {source} is not a setting.",
            hint=did_you_mean(key, _keys(), _SEE_REFERENCE),
            setting=key,
            source=source,
        )
    try:
        return section, name, spec.metadata["parse"](value)
    except ValueError as error:
        # the value itself is not told: it may have been meant for another place
        raise ConfigError(
            f"{key} in {source} must be {error}.", setting=key, source=source
        ) from None


def _parse_text(value: object, key: str, source: str) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{key} in {source} must be a text.", setting=key, source=source)
    return value


def _check_together(settings: Settings) -> None:
    mirror, origins = settings.mirror, settings.origins
    for low, high in (
        ("retry_backoff_base", "retry_backoff_max"),
        ("lag_warn_threshold", "lag_alert_threshold"),
    ):
        if getattr(mirror, low) > getattr(mirror, high):
            source = origins.get(f"mirror.{low}") or origins.get(f"mirror.{high}", "the defaults")
            raise ConfigError(
                f"mirror.{low} in {source} is above mirror.{high}.", setting=low, source=source
            )


@dataclass(frozen=True)
class _NoSection:
    """Stands for a section that does not exist: it has no fields."""


_NONE: Final = _NoSection()

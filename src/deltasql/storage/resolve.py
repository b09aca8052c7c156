"""From a location to its store. Cloud libraries are loaded only when a cloud location is opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from deltasql.storage.local import LocalStore
from deltasql.storage.location import (
    canonical_location,
    location_key,
    parse_location,
)
from deltasql.storage.memory import MemoryStore, shared_bucket
from deltasql.storage.port import ObjectStore
from deltasql.storage.store_options import read_options

__all__ = ["StoreOpener", "canonical_location", "location_key", "open_store"]


def open_store(
    location: str,
    options: Mapping[str, str] | None = None,
    *,
    stores: Mapping[str, Mapping[str, str]] | None = None,
) -> ObjectStore:
    """Return the store rooted at a table's location; nothing is read or written yet.

    `options` are the caller's storage options; `stores` holds defaults by URI prefix.

    Raises:
        BadUriError: the location is none that we know.
        ConfigError: an option is unknown or malformed.
    """
    parsed = parse_location(location)
    checked = read_options(parsed, options, stores)
    if parsed.scheme == "file":
        return LocalStore(parsed.path)
    if parsed.scheme == "memory":
        bucket = shared_bucket(parsed.authority)
        return MemoryStore(parsed.uri, bucket=bucket, prefix=parsed.path)
    from deltasql.storage.cloud import CloudStore  # noqa: PLC0415 (obstore loads only when needed)

    return CloudStore(parsed, checked)


@dataclass(frozen=True, slots=True)
class StoreOpener:
    """How another process opens a store: it can be pickled, and shows none of the options."""

    location: str
    options: dict[str, str] = field(repr=False)
    stores: dict[str, dict[str, str]] = field(repr=False)

    @classmethod
    def of(
        cls,
        location: str,
        options: Mapping[str, str] | None,
        stores: Mapping[str, Mapping[str, str]],
    ) -> StoreOpener:
        """Return the opener of what `open_store` opens."""
        return cls(location, dict(options or {}), {key: dict(of) for key, of in stores.items()})

    def __call__(self) -> ObjectStore:
        """Open the store."""
        return open_store(self.location, self.options or None, stores=self.stores)

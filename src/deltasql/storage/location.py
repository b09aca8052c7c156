"""Where a table lies: locations parsed once, with one spelling for each place.

In a URI, percent sequences are decoded once, whatever the scheme; a plain path is taken as it is.
Nothing here touches a store; only `location_key` looks at the disk, to resolve symbolic links.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from urllib.parse import quote, unquote

from deltasql.errors import BadUriError

# what RFC 2396 lets stand in a path; `%`, `#`, `?` and blanks are escaped
_SAFE = "/!$&'()*+,;=:@-._~"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_ONE_NAME = {"s3a": "s3", "s3n": "s3", "abfs": "abfss"}
_CLOUDS = frozenset({"s3", "gs", "az", "abfss"})
_AZURE = frozenset({"az", "abfss"})
_HINT = "Use a path, or a file:, s3:, gs:, az:, abfss: or memory: URI."


@dataclass(frozen=True, slots=True)
class Location:
    """A parsed location; `path` is decoded: absolute for files, relative to the bucket else."""

    scheme: str
    authority: str
    path: str

    @property
    def uri(self) -> str:
        """The location as a URI in our spelling."""
        path = quote_path(self.path.lstrip("/"))
        return f"{self.scheme}://{self.authority}/{path}".removesuffix("/")

    def holds(self, other: Location) -> bool:
        """Tell whether `other` is this place or lies below it, by whole segments.

        An az: location names no account: it may be that of any abfss: location.
        """
        if not self._shares_bucket(other):
            return False
        above, below = _split(self.path), _split(other.path)
        return below[: len(above)] == above

    @property
    def is_azure(self) -> bool:
        """Tell whether other spellings of the place differ in more than their letters."""
        return self.scheme in _AZURE

    def _shares_bucket(self, other: Location) -> bool:
        if self.scheme == other.scheme or not (self.is_azure and other.is_azure):
            return (self.scheme, self.authority) == (other.scheme, other.authority)
        return self.authority.partition("@")[0] == other.authority.partition("@")[0]


def parse_location(location: str) -> Location:
    """Return the parsed location of a table.

    Raises:
        BadUriError: the scheme is unknown, the location climbs above its bucket, has an empty
            segment in a bucket, or holds a query or credentials, which the message does not repeat.
    """
    _check_text(location)
    match = _SCHEME.match(location)
    if match is None:
        return _file(location)
    scheme = _ONE_NAME.get(match[1].lower(), match[1].lower())
    rest = location[match.end() :]
    if "?" in rest or "#" in rest:
        raise BadUriError(
            f"A {scheme}: location takes no ? or #; write them as %3F and %23.", hint=_HINT
        )
    if scheme == "file":
        return _file_uri(rest)
    if scheme == "memory" or scheme in _CLOUDS:
        return _bucket_uri(scheme, rest)
    raise BadUriError(f"deltasql knows no location of scheme {scheme}:.", hint=_HINT)


def canonical_location(location: str) -> str:
    """Return the location in our spelling: absolute, a URI, no trailing or double slash."""
    return parse_location(location).uri


def location_key(location: str) -> str:
    """Return the one name of the place, equal for all its spellings; symbolic links resolved."""
    parsed = parse_location(location)
    if parsed.scheme == "file":
        return replace(parsed, path=os.path.realpath(parsed.path)).uri
    return parsed.uri


def quote_path(path: str) -> str:
    """Return the path as it stands in a URI; `unquote` is its inverse."""
    return quote(path, safe=_SAFE)


def _check_text(location: str) -> None:
    if not location or "\0" in location:
        raise BadUriError("A location is not empty and holds no NUL character.", hint=_HINT)
    try:
        location.encode()
    except UnicodeEncodeError as error:
        raise BadUriError("A location is valid Unicode text.", hint=_HINT) from error


def _file(path: str) -> Location:
    if ".." in path.split("/"):
        # only the disk knows what `..` after a symbolic link means
        return Location("file", "", os.path.realpath(path))
    return Location("file", "", "/" + "/".join(_split(os.path.abspath(path))))  # noqa: PTH100 (pure)


def _file_uri(rest: str) -> Location:
    if rest.startswith("//"):
        host, slash, tail = rest[2:].partition("/")
        if host not in {"", "localhost"}:
            raise BadUriError("A file: location names no host: file:///path.", hint=_HINT)
        rest = slash + tail
    if not rest.startswith("/"):
        raise BadUriError("A file: location is absolute: file:///path.", hint=_HINT)
    return _file(_decode(rest))


def _bucket_uri(scheme: str, rest: str) -> Location:
    authority, path = "", rest
    if rest.startswith("//"):
        authority, _, path = rest[2:].partition("/")
    elif scheme != "memory" or (rest and not rest.startswith("/")):
        raise BadUriError(f"A {scheme}: location is {scheme}://bucket/path.", hint=_HINT)
    if scheme != "memory" and not authority:
        raise BadUriError(f"The {scheme}: location names no bucket.", hint=_HINT)
    plain = _decode(path)
    if scheme in _CLOUDS and "//" in f"/{plain}":
        raise BadUriError(
            f"The {scheme}: location has an empty segment (//), which a store keeps as another "
            "prefix.",
            hint="Write one slash where the objects have one; rename the prefix if it has two.",
        )
    return Location(scheme, _authority(scheme, authority), "/".join(_resolved(plain)))


def _authority(scheme: str, authority: str) -> str:
    if scheme == "abfss":
        container, at, host = authority.partition("@")
        if not at or not container or ":" in container or "@" in host or not host:
            raise BadUriError(
                "An abfss: location is abfss://container@account.dfs.core.windows.net/path.",
                hint=_HINT,
            )
        return f"{container}@{host.lower().replace('.blob.', '.dfs.', 1)}"
    if "@" in authority or ":" in authority:
        raise BadUriError(f"A {scheme}: location holds no credentials and no port.", hint=_HINT)
    return authority


def _decode(text: str) -> str:
    try:
        decoded = unquote(text, errors="strict")
    except UnicodeDecodeError as error:
        raise BadUriError("The percent sequences of a location are UTF-8.", hint=_HINT) from error
    _check_text(decoded or "/")
    return decoded


def _resolved(path: str) -> list[str]:
    segments: list[str] = []
    for segment in _split(path):
        if segment != "..":
            segments.append(segment)
        elif segments:
            segments.pop()
        else:
            raise BadUriError("The location climbs above its bucket by `..`.", hint=_HINT)
    return segments


def _split(path: str) -> list[str]:
    return [segment for segment in path.split("/") if segment not in {"", "."}]

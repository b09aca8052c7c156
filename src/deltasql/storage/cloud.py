"""S3, Google Cloud Storage and Azure through obstore, with credentials of AWS profiles.

Its own retries are off for everything that others may write too: one backoff is enough, and it is
the caller's; a hidden retry would turn a lost reply into "already exists" and multiply waiting
times. Files written by `open_output` have names that nobody else uses and are put without a
condition: there a repeated request does no harm, and no caller could send the rows again.

Credentials of AWS profiles (`~/.aws`), by boto3: keys, single sign-on, assumed roles. What is
given as options or as keys in the environment comes first, and so does what a container or a web
identity gives; obstore reads those itself.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, cast

import obstore
from obstore.store import AzureStore, GCSStore, S3Store

from deltasql.errors import (
    ConfigError,
    DeltaSqlError,
    MissingExtraError,
    ObjectNotFoundError,
    StorageError,
    StorageUnavailableError,
)
from deltasql.storage.cloud_errors import RANGE_NOT_SATISFIABLE, clean_cause, is_vendor, translate
from deltasql.storage.location import Location
from deltasql.storage.paths import bytewise, check_folder, check_key, check_prefix, check_range
from deltasql.storage.port import ObjectInfo, open_ranges
from deltasql.storage.store_options import StoreOptions

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_OWN_KEYS = frozenset({"access_key_id", "skip_signature", "container_credentials_relative_uri"})
_OTHER_SOURCES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
_FILES = {
    "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials",
    "AWS_CONFIG_FILE": "~/.aws/config",
}

_T = TypeVar("_T")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_RETRIES = {"max_retries": 0, "retry_timeout": timedelta(seconds=60)}
_FILE_RETRIES = {
    "max_retries": 6,
    "backoff": {
        "init_backoff": timedelta(milliseconds=100),
        "max_backoff": timedelta(seconds=5),
        "base": 2,
    },
    "retry_timeout": timedelta(seconds=60),
}
_first_pid: int | None = None


def profile_credentials(
    profile: str | None, config: Mapping[str, str], env: Mapping[str, str]
) -> Any | None:
    """Return what obstore asks for the keys of a profile, or None where no profile counts.

    `profile` is the option `aws_profile`; without it AWS_PROFILE counts, then the default profile.

    Raises:
        ConfigError: there is no such profile, or it gives no keys.
        MissingExtraError: a profile is named and boto3 is not installed.
    """
    if _OWN_KEYS & config.keys():
        return None
    named = profile or _named(env)
    if named is None and (any(map(env.get, _OTHER_SOURCES)) or not _has_files(env)):
        return None
    try:
        from boto3 import Session  # noqa: PLC0415 (an extra)
        from botocore.exceptions import BotoCoreError  # noqa: PLC0415
        from obstore.auth.boto3 import Boto3CredentialProvider  # noqa: PLC0415
    except ImportError as error:
        if named is None:
            return None
        raise MissingExtraError(
            f"The AWS profile {named!r} needs boto3.", hint='Run `pip install "deltasql[aws]"`.'
        ) from error
    try:
        return Boto3CredentialProvider(Session(profile_name=named))
    except (BotoCoreError, ValueError) as error:
        if named is None:
            return None  # the files hold no keys: an instance role may give some
        raise ConfigError(
            f"The AWS profile {named!r} gives no credentials.",
            hint="Check ~/.aws/config and ~/.aws/credentials, or sign in: `aws sso login`.",
            profile=named,
        ) from error


def _named(env: Mapping[str, str]) -> str | None:
    """AWS_PROFILE counts only where the environment holds no keys, as in every AWS tool."""
    return None if env.get("AWS_ACCESS_KEY_ID") else env.get("AWS_PROFILE") or None


def _has_files(env: Mapping[str, str]) -> bool:
    paths = [Path(env.get(name) or default) for name, default in _FILES.items()]
    return any(path.expanduser().is_file() for path in paths)


class CloudStore:
    """A prefix of one bucket or container."""

    def __init__(self, location: Location, options: StoreOptions) -> None:
        self._uri = location.uri
        self._secrets = options.secrets()
        self._uses_offset = not _ignores_offset(location, dict(options.config))
        self._store = self._run("open", "", lambda: _connect(location, options, _NO_RETRIES))
        self._files = self._run("open", "", lambda: _connect(location, options, _FILE_RETRIES))

    def __repr__(self) -> str:
        return f"CloudStore({self._uri!r})"

    @property
    def uri(self) -> str:
        """The root's URI, without secrets."""
        return self._uri

    def put_if_absent(self, key: str, data: bytes) -> str | None:
        """Create the object in one conditional request."""
        check_key(key)
        answer = self._run("create", key, lambda: self._store.put(key, data, mode="create"))
        return _e_tag(answer)

    def put(self, key: str, data: bytes) -> None:
        """Create or replace the object in one request."""
        check_key(key)
        self._run("write", key, lambda: self._store.put(key, data, use_multipart=False))

    def get(self, key: str) -> bytes:
        """Return the whole object."""
        check_key(key)
        return self._run("read", key, lambda: bytes(self._store.get(key).bytes()))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Return up to `length` bytes from `start`."""
        check_range(key, start, length)
        if length == 0:
            self.head(key)
            return b""
        check_key(key)
        try:
            return self._run(
                "read", key, lambda: bytes(self._store.get_range(key, start=start, length=length))
            )
        except StorageUnavailableError as error:
            beyond = error.context.get("status") == RANGE_NOT_SATISFIABLE
            if beyond and start >= self.head(key).size:
                return b""
            raise

    def head(self, key: str) -> ObjectInfo:
        """Return size, time and entity tag of the object."""
        check_key(key)
        return _info(self._run("read", key, lambda: self._store.head(key)))

    def list_from(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects below the prefix in bytewise order of their keys.

        The whole listing is fetched first: not every store lists in order, and offsets are a hint
        that some ignore.
        """
        directory = check_prefix(prefix).rpartition("/")[0]
        offset = max(start_after, prefix[:-1]) if self._uses_offset else ""
        after = bytewise(start_after)
        chunks: list[Any] = self._run(
            "list",
            prefix,
            lambda: list(self._store.list(directory or None, offset=offset or None)),
        )
        found = [
            (order, meta)
            for chunk in chunks
            for meta in chunk
            if (order := bytewise(meta["path"])) > after and meta["path"].startswith(prefix)
        ]
        for _, meta in sorted(found, key=lambda pair: pair[0]):
            yield _info(meta)

    def folders(self, prefix: str = "") -> tuple[str, ...]:
        """Return the folders directly below one, in one listing with a delimiter."""
        directory = check_folder(prefix).rstrip("/") or None
        listed = self._run("list", prefix, lambda: self._store.list_with_delimiter(directory))
        names = {f"{path.rstrip('/')}/" for path in listed["common_prefixes"]}
        return tuple(sorted(names, key=bytewise))

    def delete(self, key: str) -> None:
        """Remove the object; silent where there is none."""
        check_key(key)
        try:
            self._run("delete", key, lambda: self._store.delete(key))
        except ObjectNotFoundError:
            return

    def open_input(self, key: str) -> BinaryIO:
        """Open the object for reading by ranges."""
        size = self.head(key).size
        return open_ranges(lambda start, length: self.get_range(key, start, length), size)

    @contextmanager
    def open_output(self, key: str) -> Iterator[BinaryIO]:
        """Stream an object in parts; the upload is completed on clean exit.

        Each request is tried again, with growing pauses, for up to a minute.
        Parts of an upload that was given up are never visible; the bucket's lifecycle rule for
        incomplete uploads frees their space.
        """
        check_key(key)
        writer = self._send(key, lambda: obstore.open_writer(self._files, key))
        upload = _Upload(lambda data: self._send(key, lambda: writer.write(data)))
        yield cast("BinaryIO", upload)
        self._send(key, writer.close)

    def local_path(self, key: str) -> str | None:
        """Return None: nothing here is a file."""
        check_key(key)
        return None

    def sweep_leftovers(self, prefix: str, older_than_s: float, now: float) -> tuple[str, ...]:
        """Do nothing: an unfinished object is not to be seen here."""
        del prefix, older_than_s, now
        return ()

    def close(self) -> None:
        """Connections belong to the process and end with it."""

    def _send(self, key: str, call: Callable[[], _T]) -> _T:
        """Do a step of an upload; of a failed connection obstore's writer does not say why."""
        try:
            return self._run("write", key, call)
        except StorageUnavailableError as error:
            if error.context.get("status") is not None:
                raise
            raise self._connection_error(key) or error from error.__cause__

    def _connection_error(self, key: str) -> DeltaSqlError | None:
        """Return why the store cannot be reached now; None where it answers again."""
        try:
            self._run("write", key, lambda: self._store.head(key))
        except StorageError as error:
            is_answer = error.context.get("status") is not None
            return None if is_answer else error
        return None

    def _run(self, doing: str, key: str, call: Callable[[], _T]) -> _T:
        """Do it; what obstore raises becomes ours, without a secret even in the chain."""
        _refuse_fork(self._uri)
        try:
            return call()
        except BaseException as error:
            if not is_vendor(error):
                raise
            failure = error
        # raised out here, so that the original is not in the context either
        raise translate(failure, doing, key, self._uri) from clean_cause(failure, self._secrets)


class _Upload(io.RawIOBase):
    """What the caller writes to; closing it completes nothing."""

    def __init__(self, send: Callable[[bytes], object]) -> None:
        super().__init__()
        self._send = send
        self._at = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def write(self, data: ReadableBuffer) -> int:
        if self.closed:
            raise ValueError("the file is closed")
        whole = bytes(data)
        self._send(whole)
        self._at += len(whole)
        return len(whole)


def _connect(location: Location, options: StoreOptions, retries: Mapping[str, Any]) -> Any:
    config = dict(options.config)
    shared: dict[str, Any] = {
        "prefix": location.path or None,
        "client_options": dict(options.client),
        "retry_config": dict(retries),
    }
    if location.scheme == "s3":
        profile = config.pop("profile", None)
        provider = profile_credentials(profile, config, os.environ)
        if provider is not None:
            shared["credential_provider"] = provider
        return S3Store(location.authority, config=config, **shared)
    if location.scheme == "gs":
        return GCSStore(location.authority, config=config, **shared)
    if location.scheme in {"az", "abfss"}:
        container, at, host = location.authority.partition("@")
        if at:
            config.setdefault("account_name", host.partition(".")[0])
            if _is_fabric(host):
                config.setdefault("use_fabric_endpoint", "true")
        return AzureStore(container, config=config, **shared)
    raise ConfigError(f"{location.uri} is not on a cloud store.")


def _ignores_offset(location: Location, config: Mapping[str, str]) -> bool:
    # OneLake answers a listing with an offset by an empty one
    return _is_fabric(location.authority) or config.get("use_fabric_endpoint", "") == "true"


def _is_fabric(host: str) -> bool:
    return host.endswith(".fabric.microsoft.com")


def _refuse_fork(uri: str) -> None:
    global _first_pid  # noqa: PLW0603 (obstore's threads belong to the process, and so does this)
    pid = os.getpid()
    if _first_pid is None:
        _first_pid = pid
    elif _first_pid != pid:
        raise StorageError(
            f"{uri} cannot be used in a forked process, where it would hang for ever.",
            hint="Start processes by spawn, or use no store before the fork.",
        )


def _info(meta: Mapping[str, Any]) -> ObjectInfo:
    modified_ms = (meta["last_modified"] - _EPOCH) // timedelta(milliseconds=1)
    return ObjectInfo(meta["path"], meta["size"], modified_ms, _e_tag(meta))


def _e_tag(answer: Mapping[str, Any]) -> str | None:
    e_tag: str | None = answer.get("e_tag")
    # some stores quote it in one answer and not in the other
    return e_tag.strip('"') if e_tag else None

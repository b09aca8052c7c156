"""`storage_options` under the names that delta-rs users know, turned into what obstore takes.

Values may be secrets: no repr and no error here ever shows one.

The names of storage options that we pass on, per kind of store. Data, no logic. A test asks
obstore whether it still takes each of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from deltasql.errors import BadUriError, ConfigError
from deltasql.storage.location import Location, parse_location

_S3 = """
access_key_id secret_access_key session_token profile region default_region endpoint
metadata_endpoint imdsv1_fallback skip_signature unsigned_payload checksum_algorithm
virtual_hosted_style_request s3_express conditional_put copy_if_not_exists disable_tagging
disable_bulk_delete request_payer role_arn role_session_name web_identity_token_file
container_credentials_relative_uri container_credentials_full_uri
container_authorization_token_file endpoint_url_sts server_side_encryption sse_kms_key_id
sse_bucket_key_enabled sse_customer_key_base64
"""
_AZURE = """
account_name account_key client_id client_secret tenant_id authority_host sas_token token
use_emulator use_fabric_endpoint endpoint msi_endpoint object_id msi_resource_id
federated_token_file use_azure_cli skip_signature disable_tagging encryption_key credential_type
fabric_token_service_url fabric_workload_host fabric_session_token fabric_cluster_identifier
"""
_GCS = """
service_account service_account_key base_url bearer_token application_credentials skip_signature
"""
_CLIENT = """
allow_http allow_invalid_certificates connect_timeout default_content_type http1_only http2_only
http2_keep_alive_interval http2_keep_alive_timeout http2_keep_alive_while_idle pool_idle_timeout
pool_max_idle_per_host proxy_url proxy_ca_certificate proxy_excludes randomize_addresses
read_timeout root_certificate timeout user_agent
"""

CLIENT_NAMES = frozenset(_CLIENT.split())
CLIENT_DEFAULTS: Mapping[str, str] = {"timeout": "30s", "connect_timeout": "5s"}
PROVIDER_BY_SCHEME: Mapping[str, str] = {"s3": "s3", "az": "azure", "abfss": "azure", "gs": "gcs"}

# what only delta-rs needs: its own locks, retries and renames
DELTA_ONLY = re.compile(
    r"(aws_)?(s3_)?allow_unsafe_rename|mount_allow_unsafe_rename|(aws_)?s3_locking_provider"
    r"|(delta_)?dynamo_.*|.*_dynamodb|max_retries|retry_timeout|backoff_config\..*"
    r"|(aws_)?s3_get_internal_server_error_retries|aws_force_credential_load"
    r"|aws_(s3|sts)_pool_idle_timeout_seconds|object_store_concurrency_limit"
)

# names of options whose values no text may show
SECRET = re.compile(r"key|secret|token|credential|service_account|proxy_url")

_HINT = "Option names are those of delta-rs, such as aws_access_key_id or account_name."
_SHORTEST_SECRET = 3  # blotting out shorter values would blot out ordinary words


@dataclass(frozen=True, slots=True)
class Provider:
    """How one kind of store spells its options."""

    names: frozenset[str]
    prefixes: tuple[str, ...]
    aliases: Mapping[str, str]


PROVIDERS: Mapping[str, Provider] = {
    "s3": Provider(
        frozenset(_S3.split()),
        ("aws_",),
        {"endpoint_url": "endpoint", "endpoint_url_s3": "endpoint", "token": "session_token"},
    ),
    "azure": Provider(
        frozenset(_AZURE.split()),
        ("azure_storage_", "azure_", "object_store_"),
        {
            "access_key": "account_key",
            "master_key": "account_key",
            "sas_key": "sas_token",
            "bearer_token": "token",
            "authority_id": "tenant_id",
            "identity_endpoint": "msi_endpoint",
            "endpoint_url": "endpoint",
        },
    ),
    "gcs": Provider(
        frozenset(_GCS.split()), ("google_",), {"service_account_path": "service_account"}
    ),
}


@dataclass(frozen=True, slots=True, repr=False)
class StoreOptions:
    """Options of one store, ready for obstore; sorted pairs, so equal options are equal values."""

    config: tuple[tuple[str, str], ...]
    client: tuple[tuple[str, str], ...]

    def __repr__(self) -> str:
        return f"StoreOptions({', '.join(name for name, _ in (*self.config, *self.client))})"

    def secrets(self) -> frozenset[str]:
        """Return the values that no text may show."""
        pairs = (*self.config, *self.client)
        return frozenset(
            value for name, value in pairs if SECRET.search(name) and len(value) >= _SHORTEST_SECRET
        )


def read_options(
    location: Location,
    options: Mapping[str, str] | None = None,
    stores: Mapping[str, Mapping[str, str]] | None = None,
) -> StoreOptions:
    """Return the options for a location: the caller's over those of the longest matching prefix.

    Raises:
        ConfigError: a name is unknown or given twice; the message names it, never its value.
    """
    provider = PROVIDER_BY_SCHEME.get(location.scheme)
    layers = (_defaults(location, stores or {}), options or {})
    merged: dict[str, str] = {}
    for layer in layers:
        merged |= _normalised(layer, provider)
    if merged.pop("s3_addressing_style", "") == "virtual":
        merged.setdefault("virtual_hosted_style_request", "true")
    _refuse_userinfo(merged)
    client = {name: merged.pop(name) for name in list(merged) if name in CLIENT_NAMES}
    client = {**CLIENT_DEFAULTS, **client}
    return StoreOptions(tuple(sorted(merged.items())), tuple(sorted(client.items())))


def _defaults(location: Location, stores: Mapping[str, Mapping[str, str]]) -> Mapping[str, str]:
    """Return the options of the longest prefix that covers the location, by whole segments."""
    best, found = -1, {}
    for prefix, options in stores.items():
        length = _covered(prefix, location)
        if length > best:
            best, found = length, dict(options)
    return found


def _covered(prefix: str, location: Location) -> int:
    """Return how much of the location the prefix covers; -1 where it is another place."""
    scheme, separator, rest = prefix.partition("://")
    try:
        if separator and not rest:  # "s3://" is every bucket
            every = parse_location(f"{scheme}://x@x" if scheme.startswith("abfs") else prefix + "x")
            return 0 if every.scheme == location.scheme else -1
        parsed = parse_location(prefix)
    except BadUriError as error:
        raise ConfigError("A prefix under [stores] is not a location.") from error
    return len(parsed.uri) if parsed.holds(location) else -1


def _normalised(options: Mapping[str, str], provider: str | None) -> dict[str, str]:
    """Return the options that this provider takes, by its own names."""
    found: dict[str, str] = {}
    spelled: dict[str, str] = {}
    for given, value in options.items():
        for name in _names(given, provider):
            if name in spelled:
                raise ConfigError(
                    f"The storage options {spelled[name]!r} and {given!r} are the same one.",
                    hint=_HINT,
                )
            spelled[name] = given
            found[name] = str(value)
    return found


def _names(given: str, provider: str | None) -> Iterator[str]:
    """Yield the name that the provider has for an option: one, or none where it does not care."""
    lower = given.lower()
    if DELTA_ONLY.fullmatch(lower):
        return
    if lower in {"aws_s3_addressing_style", "s3_addressing_style"}:
        if provider == "s3":
            yield "s3_addressing_style"
        return
    known = {name: canonical for name in PROVIDERS if (canonical := _canonical(lower, name))}
    if not known:
        raise ConfigError(f"The storage option {given!r} is unknown.", hint=_HINT, option=given)
    if provider in known:
        yield known[provider]


def _canonical(lower: str, provider: str) -> str | None:
    taken = PROVIDERS[provider]
    bare = [lower, *(lower.removeprefix(p) for p in taken.prefixes if lower.startswith(p))]
    for name in bare:
        canonical = taken.aliases.get(name, name)
        if canonical in taken.names or canonical in CLIENT_NAMES:
            return canonical
    return None


def _refuse_userinfo(merged: Mapping[str, str]) -> None:
    for name in ("endpoint", "base_url"):
        if "@" in urlsplit(merged.get(name, "")).netloc:
            raise ConfigError(f"The storage option {name!r} must not hold credentials.", hint=_HINT)

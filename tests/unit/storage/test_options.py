"""Storage options: known names in, obstore's names out, never a value in a text."""

from __future__ import annotations

import pickle

import pytest
from obstore.exceptions import UnknownConfigurationKeyError
from obstore.store import AzureStore, GCSStore, S3Store

from deltasql.errors import ConfigError
from deltasql.storage.location import parse_location
from deltasql.storage.store_options import CLIENT_NAMES, PROVIDERS, StoreOptions, read_options

S3 = parse_location("s3://bucket/lake/orders")
AZURE = parse_location("az://container/lake")
GCS = parse_location("gs://bucket/lake")
CANARY = "canary-4711"


def config(options: StoreOptions) -> dict[str, str]:
    return dict(options.config)


def test_every_spelling_of_an_option_is_one() -> None:
    for name in ["AWS_ACCESS_KEY_ID", "aws_access_key_id", "access_key_id", "Access_Key_Id"]:
        assert config(read_options(S3, {name: "k"})) == {"access_key_id": "k"}
    for name in ["AWS_ENDPOINT_URL", "endpoint_url", "aws_endpoint", "AWS_ENDPOINT_URL_S3"]:
        assert config(read_options(S3, {name: "http://h"})) == {"endpoint": "http://h"}
    for name in ["azure_storage_account_key", "AZURE_STORAGE_ACCESS_KEY", "account_key"]:
        assert config(read_options(AZURE, {name: "k"})) == {"account_key": "k"}
    for name in ["google_service_account", "SERVICE_ACCOUNT_PATH", "service_account"]:
        assert config(read_options(GCS, {name: "k"})) == {"service_account": "k"}


def test_connection_options_go_to_the_client_with_our_timeouts() -> None:
    options = read_options(S3, {"AWS_ALLOW_HTTP": "true", "timeout": "3s", "proxy_url": "http://p"})
    assert dict(options.client) == {
        "allow_http": "true",
        "connect_timeout": "5s",
        "proxy_url": "http://p",
        "timeout": "3s",
    }
    assert options.config == ()


@pytest.mark.parametrize(
    "name",
    [
        "AWS_S3_ALLOW_UNSAFE_RENAME",
        "allow_unsafe_rename",
        "AWS_S3_LOCKING_PROVIDER",
        "DELTA_DYNAMO_TABLE_NAME",
        "aws_region_dynamodb",
        "AWS_ENDPOINT_URL_DYNAMODB",
        "max_retries",
        "retry_timeout",
        "backoff_config.init_backoff",
        "AWS_FORCE_CREDENTIAL_LOAD",
    ],
)
def test_what_only_delta_rs_needs_is_dropped(name: str) -> None:
    assert config(read_options(S3, {name: "x", "region": "r"})) == {"region": "r"}


def test_the_addressing_style_is_translated() -> None:
    style = {"AWS_S3_ADDRESSING_STYLE": "virtual"}
    assert config(read_options(S3, style)) == {"virtual_hosted_style_request": "true"}
    assert config(read_options(S3, {"AWS_S3_ADDRESSING_STYLE": "path"})) == {}


@pytest.mark.req("R96")
@pytest.mark.parametrize(
    "location", [S3, AZURE, GCS, parse_location("/x"), parse_location("memory:")]
)
def test_an_unknown_name_is_told_without_its_value(location) -> None:
    with pytest.raises(ConfigError, match="aws_acess_key_id") as failure:
        read_options(location, {"aws_acess_key_id": CANARY})
    assert CANARY not in str(failure.value)
    assert CANARY not in repr(failure.value.context)


def test_options_of_other_stores_are_passed_over() -> None:
    mixed = {"aws_region": "r", "azure_storage_account_name": "a", "google_service_account": "g"}
    assert config(read_options(S3, mixed)) == {"region": "r"}
    assert config(read_options(AZURE, mixed)) == {"account_name": "a"}
    assert config(read_options(GCS, mixed)) == {"service_account": "g"}
    assert config(read_options(parse_location("/x"), mixed)) == {}


def test_one_option_in_two_spellings_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"AWS_REGION.*region") as failure:
        read_options(S3, {"AWS_REGION": CANARY, "region": CANARY})
    assert CANARY not in str(failure.value)


def test_the_longest_prefix_gives_the_defaults_and_the_caller_wins() -> None:
    stores = {
        "s3://": {"region": "every"},
        "s3a://bucket/": {"region": "bucket", "timeout": "9s"},
        "s3://bucket/lake/orders": {"region": "orders"},
        "s3://bucket/lake/order": {"region": "not by letters"},
        "gs://bucket": {"google_service_account": "other"},
        "/lake": {},
    }

    def region(location: str, options: dict[str, str] | None = None) -> str:
        return config(read_options(parse_location(location), options, stores))["region"]

    assert region("s3://bucket/lake/orders/") == "orders"
    assert region("s3://bucket/lake/orders/deep") == "orders"
    assert region("s3://bucket/lake/orders2") == "bucket"
    assert region("s3a://bucket") == "bucket"
    assert region("s3://bucket2/lake") == "every"
    assert region("s3://bucket/x", {"AWS_REGION": "mine"}) == "mine"
    merged = read_options(parse_location("s3://bucket/x"), {"region": "mine"}, stores)
    assert dict(merged.client)["timeout"] == "9s"


def test_a_prefix_that_is_no_location_is_refused_without_repeating_it() -> None:
    with pytest.raises(ConfigError) as failure:
        read_options(S3, {}, {f"s3://x?{CANARY}": {}})
    assert CANARY not in str(failure.value)


@pytest.mark.req("R96")
def test_no_text_shows_a_value() -> None:
    options = read_options(
        S3, {"secret_access_key": CANARY, "region": CANARY, "proxy_url": f"http://u:{CANARY}@h"}
    )
    for text in (repr(options), str(options), f"{options}", repr([options])):
        assert CANARY not in text
        assert "secret_access_key" in text
    assert CANARY in options.secrets()
    assert pickle.loads(pickle.dumps(options)) == options


def test_an_endpoint_with_credentials_is_refused() -> None:
    with pytest.raises(ConfigError, match="endpoint") as failure:
        read_options(S3, {"endpoint": f"http://user:{CANARY}@host"})
    assert CANARY not in str(failure.value)


@pytest.mark.parametrize(
    ("provider", "vendor", "needed"),
    [("s3", S3Store, {}), ("azure", AzureStore, {"account_name": "a"}), ("gcs", GCSStore, {})],
)
def test_obstore_still_knows_every_name_that_we_pass_on(provider, vendor, needed) -> None:
    unknown = []
    for name in sorted(PROVIDERS[provider].names - {"profile"}):  # which boto3 reads
        try:
            vendor("bucket", config={name: "x"} | {k: v for k, v in needed.items() if k != name})
        except UnknownConfigurationKeyError:
            unknown.append(name)
        except Exception:  # noqa: BLE001 (the value is nonsense; the name is what counts)
            pass
    assert unknown == []


def test_obstore_still_knows_every_client_option() -> None:
    unknown = []
    for name in sorted(CLIENT_NAMES):
        try:
            S3Store("bucket", client_options={name: "true"})
        except ValueError as error:
            if "Invalid key" in str(error):
                unknown.append(name)
        except Exception:  # noqa: BLE001 (the value is nonsense; the name is what counts)
            pass
    assert unknown == []

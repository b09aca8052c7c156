"""Profiles of ~/.aws give the keys for S3, where nothing nearer does."""

import json
import subprocess
import sys

import pytest

import servers
from deltasql.errors import AccessDeniedError, ConfigError, MissingExtraError
from deltasql.storage import cloud as aws_profiles
from deltasql.storage.resolve import open_store

GOOD = {"aws_access_key_id": servers.ACCESS, "aws_secret_access_key": servers.SECRET}
BAD = {"aws_access_key_id": "unknown", "aws_secret_access_key": "unknown-secret"}


def section(name, values):
    return f"[{name}]\n" + "".join(f"{key} = {value}\n" for key, value in values.items())


@pytest.fixture
def credentials(tmp_path, monkeypatch):
    """The shared file, empty; the environment names nothing else."""
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    # never ask the metadata service of a cloud
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return tmp_path / "credentials"


def put_and_get(s3_server, name, **options):
    given = servers.s3_options(s3_server.endpoint)
    del given["AWS_ACCESS_KEY_ID"], given["AWS_SECRET_ACCESS_KEY"]
    store = open_store(f"s3://{servers.BUCKET}/{name}", {**given, **options})
    store.put("key", b"data")
    return store.get("key")


def test_the_default_profile(s3_server, fresh_name, credentials):
    credentials.write_text(section("default", GOOD))
    assert put_and_get(s3_server, fresh_name) == b"data"


def test_a_profile_by_name(s3_server, fresh_name, credentials, monkeypatch):
    credentials.write_text(section("default", BAD) + section("lake", GOOD))
    assert put_and_get(s3_server, fresh_name, aws_profile="lake") == b"data"
    monkeypatch.setenv("AWS_PROFILE", "lake")
    assert put_and_get(s3_server, fresh_name) == b"data"
    with pytest.raises(AccessDeniedError):
        put_and_get(s3_server, fresh_name, aws_profile="default")


def test_keys_by_a_process(s3_server, fresh_name, credentials, tmp_path):
    script = tmp_path / "keys.py"
    keys = {
        "Version": 1,
        "AccessKeyId": servers.ACCESS,
        "SecretAccessKey": servers.SECRET,
    }
    script.write_text(f"print({json.dumps(keys)!r})")
    command = {"credential_process": f"{sys.executable} {script}"}
    (tmp_path / "config").write_text(section("profile made", command))
    assert put_and_get(s3_server, fresh_name, aws_profile="made") == b"data"


def test_what_is_nearer_comes_first(s3_server, fresh_name, credentials, monkeypatch):
    credentials.write_text(section("default", BAD) + section("lake", BAD))
    assert put_and_get(s3_server, fresh_name, **GOOD, aws_profile="lake") == b"data"
    monkeypatch.setenv("AWS_PROFILE", "lake")
    for name, value in GOOD.items():
        monkeypatch.setenv(name.upper(), value)
    assert put_and_get(s3_server, fresh_name) == b"data"


def test_a_profile_that_is_not_there_is_named(s3_server, fresh_name, credentials):
    credentials.write_text(section("default", GOOD))
    with pytest.raises(ConfigError, match="The AWS profile 'lost' gives no credentials"):
        put_and_get(s3_server, fresh_name, aws_profile="lost")


def test_files_without_keys_leave_it_to_others(credentials):
    credentials.write_text(section("default", {"region": "eu-central-1"}))
    given = {"AWS_SHARED_CREDENTIALS_FILE": str(credentials)}
    assert aws_profiles.profile_credentials(None, {}, given) is None


def test_a_named_profile_without_boto3_says_what_to_install(credentials, monkeypatch):
    credentials.write_text(section("default", GOOD))
    monkeypatch.setitem(sys.modules, "boto3", None)
    files = {"AWS_SHARED_CREDENTIALS_FILE": str(credentials)}
    with pytest.raises(MissingExtraError, match="needs boto3") as caught:
        aws_profiles.profile_credentials("lake", {}, files)
    assert "deltasql[aws]" in caught.value.advice
    assert aws_profiles.profile_credentials(None, {}, files) is None


def test_boto3_is_loaded_only_for_a_profile(s3_server, fresh_name):
    options = servers.s3_options(s3_server.endpoint)
    place = f"s3://{servers.BUCKET}/{fresh_name}"
    code = (
        "import sys\n"
        "from deltasql.storage.resolve import open_store\n"
        f"open_store({place!r}, {options!r}).put('key', b'data')\n"
        "assert 'boto3' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

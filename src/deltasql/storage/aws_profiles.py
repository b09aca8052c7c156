"""Credentials of AWS profiles (`~/.aws`), by boto3: keys, single sign-on, assumed roles.

What is given as options or as keys in the environment comes first, and so does what a container
or a web identity gives; obstore reads those itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deltasql.errors import ConfigError, MissingExtraError

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

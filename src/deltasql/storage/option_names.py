"""The names of storage options that we pass on, per kind of store. Data, no logic.

A test asks obstore whether it still takes each of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

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

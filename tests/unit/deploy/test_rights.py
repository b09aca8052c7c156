"""The files about rights in `deploy/`: no table is forgotten, and only operators delete."""

import json
import re
from pathlib import Path

import pytest
import strictyaml

from deltasql.database.migrations import known_migrations

DEPLOY = Path(__file__).parents[3] / "deploy"
ROLES = ("reader", "writer", "worker", "operator")
# what only operators write, by their right to all tables
OPERATORS_ONLY = {"dl_vacuum_marks", "dl_imports"}
pytestmark = pytest.mark.req("R36", "R96")


def test_the_role_script_speaks_of_every_table():
    """A new table needs a decision: who writes to it?"""
    text = "\n".join(step.text for step in known_migrations("postgres"))
    tables = set(re.findall(r"^create (?:table|view) (\w+)", text, re.MULTILINE))
    tables -= set(re.findall(r"^drop table (\w+)", text, re.MULTILINE))
    script = (DEPLOY / "postgres/roles.sql").read_text(encoding="utf-8")
    assert tables - set(re.findall(r"\bdl_\w+", script)) == OPERATORS_ONLY & tables


def s3_actions(role: str) -> set[str]:
    found = json.loads((DEPLOY / f"policies/s3/{role}.json").read_text(encoding="utf-8"))
    return {action for statement in found["Statement"] for action in statement["Action"]}


def azure_actions(role: str) -> set[str]:
    found = json.loads((DEPLOY / f"policies/azure/{role}.json").read_text(encoding="utf-8"))
    assert found["IsCustom"]
    assert not found["Actions"]
    return {action.partition("/blobs/")[2] for action in found["DataActions"]}


def gcs_permissions(role: str) -> set[str]:
    text = (DEPLOY / f"policies/gcs/{role}.yaml").read_text(encoding="utf-8")
    return set(strictyaml.load(text).data["includedPermissions"])


def test_every_store_gives_the_roles_the_same_rights():
    s3 = {role: s3_actions(role) - {"s3:ListBucket"} for role in ROLES}
    assert s3["reader"] == {"s3:GetObject"}
    assert s3["writer"] == s3["worker"] == {"s3:GetObject", "s3:PutObject"}
    assert s3["operator"] == s3["writer"] | {"s3:DeleteObject"}
    azure = {role: azure_actions(role) for role in ROLES}
    assert azure["reader"] == {"read"}
    assert azure["writer"] == azure["worker"] == {"read", "add/action", "write"}
    assert azure["operator"] == azure["writer"] | {"delete"}
    gcs = {role: gcs_permissions(role) for role in ROLES}
    assert gcs["reader"] == {"storage.objects.get", "storage.objects.list"}
    assert gcs["writer"] == gcs["worker"]
    assert gcs["operator"] == gcs["writer"] | gcs_permissions("hint")
    assert gcs_permissions("hint") == {"storage.objects.delete"}

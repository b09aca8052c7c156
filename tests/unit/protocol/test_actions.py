"""The promise on which canonical bytes rest, and identities of deletion vectors."""

import msgspec
import pytest

from commits import add, remove, vector
from deltasql.protocol.actions import (
    ACTION_TYPES,
    EXTRA_KEY,
    Add,
    DeletionVector,
    Format,
    Remove,
)

STRUCTS = (*ACTION_TYPES, DeletionVector, Format)


@pytest.mark.req("R21")
@pytest.mark.parametrize("kind", STRUCTS, ids=lambda kind: kind.__name__)
def test_fields_are_declared_in_the_order_of_their_names_on_disk(kind):
    names = [field.encode_name for field in msgspec.structs.fields(kind)]
    assert names[0] == EXTRA_KEY
    assert names[1:] == sorted(names[1:])


@pytest.mark.parametrize("kind", STRUCTS, ids=lambda kind: kind.__name__)
def test_actions_cannot_be_changed(kind):
    assert kind.__struct_config__.frozen


def test_names_on_disk_are_those_of_the_protocol():
    assert [kind.kind for kind in ACTION_TYPES] == [
        "commitInfo",
        "protocol",
        "metaData",
        "domainMetadata",
        "txn",
        "add",
        "remove",
        "cdc",
        "checkpointMetadata",
        "sidecar",
    ]


@pytest.mark.parametrize(
    ("offset", "identity"), [(None, "uab^-aqEH.-t@S}K{vb[*k^"), (4, "uab^-aqEH.-t@S}K{vb[*k^@4")]
)
def test_a_vector_is_known_by_type_place_and_offset(offset, identity):
    found = msgspec.structs.replace(vector(), offset=offset)
    assert found.id == identity
    assert add("f", deletion_vector=found).dv_id == identity
    assert remove("f", deletion_vector=found).dv_id == identity


def test_an_offset_of_zero_is_an_offset():
    assert msgspec.structs.replace(vector(), offset=0).id.endswith("@0")


@pytest.mark.parametrize("kind", [Add, Remove])
def test_without_a_vector_the_identity_is_empty(kind):
    assert (add("f") if kind is Add else remove("f")).dv_id == ""

"""The published schema is the one that is used, and its page tells the truth."""

import json
import re
from pathlib import Path

import pytest

from deltasql.protocol.validate import commit_schema, validate_payload

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
pytestmark = pytest.mark.req("R24")


def test_the_published_schema_is_the_one_in_use():
    published = (REFERENCE / "commit.schema.json").read_bytes()
    assert published == (ROOT / "src/deltasql/protocol/commit.schema.json").read_bytes()
    assert json.loads(published) == commit_schema()


def test_the_page_names_every_action_and_its_required_fields():
    page = (REFERENCE / "commit-schema.md").read_text(encoding="utf-8")
    table = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", page, re.MULTILINE))
    schema = commit_schema()
    assert set(table) == set(schema["properties"])
    for action, told in table.items():
        required = schema["$defs"][action].get("required", [])
        top_level = re.sub(r"\([^)]*\)", "", told)
        assert re.findall(r"`(\w+)`", top_level) == required


def test_the_page_s_example_is_valid():
    page = (REFERENCE / "commit-schema.md").read_text(encoding="utf-8")
    [block] = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    exec(block, {})
    with pytest.raises(Exception, match="line 1"):
        validate_payload(b'{"txn":{"appId":"loader"}}\n', version=3)

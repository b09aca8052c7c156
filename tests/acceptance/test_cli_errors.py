"""How the command line helps: help where nothing was asked, suggestions, errors as JSON."""

import json

import pytest


@pytest.mark.parametrize("words", ["", "mirror", "db", "completion"])
def test_a_command_without_arguments_prints_its_help(call, words):
    told = call(*words.split())
    assert told.stdout.startswith(f"Usage: deltasql {words}".rstrip())
    assert told.stderr == ""


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("tabels", "tables"),
        ("mirror verfy", "verify"),
        ("db int", "init"),
        ("tables --outpt json", "--output"),
    ],
)
def test_a_misspelt_command_or_option_gets_a_suggestion(call, words, meant):
    told = call(*words.split(), code=2).stderr
    assert "DS103" in told
    assert f"Did you mean {meant}?" in told


def test_nothing_is_suggested_where_nothing_is_near(call):
    assert "Did you mean" not in call("xyzzy", code=2).stderr


@pytest.mark.parametrize("form", ["json", "ndjson"])
@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (["show", "nothing"], 1, "DS301"),
        (["mirror", "run", "--listen", "x"], 2, "DS103"),
    ],
)
def test_errors_are_json_where_data_is(call, tmp_path, form, words, code, error):  # noqa: PLR0917
    uri = f"deltasql://sqlite/{tmp_path}/c.db"
    call("-u", uri, "db", "init")
    told = call("-u", uri, "-o", form, *words, code=code)
    assert told.stdout == ""
    found = json.loads(told.stderr.splitlines()[-1])["error"]
    assert found["code"] == error
    assert found["message"]
    assert found["exit_code"] == code
    assert "hint" in found

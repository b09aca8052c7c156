"""Which source wins, and what a bad setting says."""

from dataclasses import FrozenInstanceError
from datetime import timedelta

import pytest

from deltasql.errors import ConfigError
from deltasql.settings import Settings, format_duration, parse_duration

CANARY = "s3cr3t-canary"


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "home"
    (folder / ".config/deltasql").mkdir(parents=True)
    return folder


@pytest.fixture
def cwd(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def load(home, cwd, env=None, **overrides):
    return Settings.load({"HOME": str(home), **(env or {})}, cwd, overrides)


def write(folder, text):
    (folder / "deltasql.toml").write_text(text)


@pytest.mark.req("R27", "R30")
def test_defaults_are_those_of_the_design(home, cwd):
    mirror = load(home, cwd).mirror
    assert (mirror.checkpoint_interval, mirror.max_retry_attempts) == (10, 5)
    assert mirror.reconcile_interval == timedelta(seconds=30)
    assert mirror.retry_backoff_base == timedelta(seconds=1)
    assert mirror.retry_backoff_max == timedelta(seconds=60)
    assert mirror.slow_retry_interval == timedelta(hours=1)
    assert mirror.lag_warn_threshold == timedelta(seconds=60)
    assert mirror.lag_alert_threshold == timedelta(seconds=300)
    assert (mirror.max_concurrency, mirror.mode) == (10, "inline")
    assert mirror.inline_deadline == timedelta(seconds=2)


@pytest.mark.req("R27")
def test_flag_beats_table_beats_env_beats_file_beats_default(home, cwd):
    key, table = "mirror.checkpoint_interval", {"mirror.checkpoint_interval": "4"}
    env = {"DELTASQL_MIRROR_CHECKPOINT_INTERVAL": "3"}

    def interval(settings):
        return settings.mirror.checkpoint_interval

    assert interval(load(home, cwd)) == 10
    (home / ".config/deltasql/config.toml").write_text("[mirror]\ncheckpoint_interval = 1\n")
    assert interval(load(home, cwd)) == 1
    write(cwd, "[mirror]\ncheckpoint_interval = 2\n")
    assert interval(load(home, cwd)) == 2
    assert interval(load(home, cwd, env)) == 3
    assert interval(load(home, cwd, env).for_table(table)) == 4
    assert interval(load(home, cwd, env, **{key: "5"}).for_table(table)) == 5


@pytest.mark.req("R27")
@pytest.mark.parametrize(
    ("properties", "interval"),
    [
        ({"delta.checkpointInterval": "7"}, 7),
        ({"delta.checkpointInterval": "7", "mirror.checkpoint_interval": "8"}, 8),
        ({"mirror.checkpoint_interval": "8", "deltasql.mirror.checkpoint_interval": "9"}, 9),
        ({"deltasql.fence": "false", "delta.appendOnly": "true", "mine": "x"}, 10),
    ],
)
def test_table_properties_override(properties, interval):
    assert Settings().for_table(properties).mirror.checkpoint_interval == interval


def test_named_config_file_is_the_only_one_read(home, cwd):
    write(cwd, "[mirror]\nmode = 'off'\n")
    (cwd / "other.toml").write_text("[commit]\nretries = 2\n")
    settings = load(home, cwd, {"DELTASQL_CONFIG": "other.toml"})
    assert (settings.commit.retries, settings.mirror.mode) == (2, "inline")
    with pytest.raises(ConfigError, match=r"none\.toml"):
        load(home, cwd, config="none.toml")


def test_profile_adds_to_the_file(home, cwd):
    write(
        cwd,
        "uri='deltasql://sqlite/a.db'\n[profiles.prod]\nuri='deltasql://sqlite/b.db'\n"
        "[profiles.prod.mirror]\nmode='worker'\n",
    )
    assert load(home, cwd).uri == "deltasql://sqlite/a.db"
    for settings in (
        load(home, cwd, profile="prod"),
        load(home, cwd, {"DELTASQL_PROFILE": "prod"}),
    ):
        assert (settings.uri, settings.mirror.mode) == ("deltasql://sqlite/b.db", "worker")
    assert load(home, cwd, {"DELTASQL_URI": "x"}, profile="prod").uri == "x"
    with pytest.raises(ConfigError, match="no profile dev") as caught:
        load(home, cwd, profile="dev")
    assert "prod" in caught.value.advice


def test_store_options_are_texts_by_prefix(home, cwd):
    write(cwd, '[stores."s3://bucket"]\nregion = "x"\nallow_http = true\ntimeout = 5\n')
    stores = load(home, cwd).stores
    assert dict(stores["s3://bucket"]) == {"region": "x", "allow_http": "true", "timeout": "5"}


@pytest.mark.req("R96")
def test_secrets_stay_out_of_repr_and_errors(home, cwd):
    write(
        cwd,
        f"uri='postgresql://u:{CANARY}@h/d'\n[stores.'s3://b']\nsecret_access_key='{CANARY}'\n",
    )
    assert CANARY not in repr(load(home, cwd)) + str(load(home, cwd))
    with pytest.raises(ConfigError) as caught:
        load(home, cwd, {"DELTASQL_MIRROR_MODE": CANARY})
    assert CANARY not in repr(caught.value) + str(caught.value.context)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[mirror]\ncheckpoint_interval = 0\n", "mirror.checkpoint_interval"),
        ("[mirror]\ncheckpoint_interval = true\n", "mirror.checkpoint_interval"),
        ("[mirror]\nreconcile_interval = '3 weeks'\n", "mirror.reconcile_interval"),
        ("[mirror]\ninline_deadline = 0\n", "mirror.inline_deadline"),
        ("[mirror]\nmode = 'sometimes'\n", "mirror.mode"),
        ("[mirror]\ncheckpoint = 3\n", "mirror.checkpoint"),
        ("[mirrors]\nmode = 'off'\n", "mirrors.mode"),
        ("frob = 1\n", "frob"),
        ("uri = 3\n", "uri"),
        ("stores = 3\n", "stores"),
        ("[stores.x]\na = 1.5\n", "stores.x"),
        ("[mirror]\nretry_backoff_base = '2m'\n", "mirror.retry_backoff_base"),
        ("[mirror\n", "TOML"),
    ],
)
def test_bad_setting_is_named_with_its_source(home, cwd, text, named):
    write(cwd, text)
    with pytest.raises(ConfigError) as caught:
        load(home, cwd)
    assert named in caught.value.message
    assert "deltasql.toml" in caught.value.message


@pytest.mark.parametrize(
    ("env", "named"),
    [
        ({"DELTASQL_MIRROR_MODE": "x"}, "mirror.mode in the environment"),
        ({"DELTASQL_MIRROR_MOOD": "x"}, "DELTASQL_MIRROR_MOOD"),
    ],
)
def test_bad_environment_variable_is_named(home, cwd, env, named):
    with pytest.raises(ConfigError, match=named):
        load(home, cwd, env)


def test_bad_flag_and_bad_table_property_are_named(home, cwd):
    with pytest.raises(ConfigError, match=r"mirror\.mode in a flag"):
        load(home, cwd, **{"mirror.mode": "x"})
    with pytest.raises(ConfigError, match=r"mirror\.mood in the table's properties"):
        Settings().for_table({"mirror.mood": "x"})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("250ms", 0.25), ("30s", 30), ("5m", 300), ("1h", 3600), ("1d", 86400), ("1.5s", 1.5), (7, 7)],
)
def test_durations(text, seconds):
    assert parse_duration(text) == timedelta(seconds=seconds)
    assert parse_duration(format_duration(parse_duration(text))) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "s", "-1s", "1w", "1h30", True, None, "inf", "1e3s"])
def test_other_durations_are_refused(text):
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


def test_settings_are_frozen():
    with pytest.raises(FrozenInstanceError):
        Settings().mirror.mode = "off"  # type: ignore[misc]
    with pytest.raises(TypeError):
        Settings().for_table({}).stores["x"] = {}  # type: ignore[index]


def test_every_setting_is_described():
    rows = {row.key: row for row in Settings.describe()}
    assert rows["mirror.slow_retry_interval"].default == "1h"
    assert rows["mirror.checkpoint_interval"].env == "DELTASQL_MIRROR_CHECKPOINT_INTERVAL"
    assert all(row.help for row in rows.values())


def test_every_section_is_read_and_an_address_for_alerts_is_shown_nowhere(tmp_path):
    (tmp_path / "deltasql.toml").write_text('[alerts]\nwebhook = "https://x.example.com/s3cret"\n')
    settings = Settings.load({"DELTASQL_ALERTS_COMMAND": "page s3cret"}, tmp_path)
    assert settings.alerts.webhook == "https://x.example.com/s3cret"
    assert settings.alerts.command == "page s3cret"
    assert "s3cret" not in repr(settings) + repr(settings.alerts) + str(settings.alerts)
    for section in Settings.SECTIONS:
        assert hasattr(settings, section)

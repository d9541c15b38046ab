"""Settings from the environment."""

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

import mcp_baton
from mcp_baton.exceptions import SettingsError
from mcp_baton.settings import SETTINGS, Settings, unknown_settings

DEFAULT = Settings()
SAM_LOCAL = replace(DEFAULT, sam_local=True, streaming=False, allow_anonymous=True)
SECRET = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:StateKey-a1B2c3"
KEY = "k" * 32
WORKER = "arn:aws:lambda:eu-west-1:123456789012:function:baton-worker:live"


@pytest.mark.parametrize(
    ("env", "settings"),
    [
        ({}, DEFAULT),
        ({"BATON_TABLE": "tasks"}, replace(DEFAULT, table="tasks")),
        ({"BATON_TABLE": "  "}, DEFAULT),
        ({"BATON_ALLOW_ANONYMOUS": "on"}, replace(DEFAULT, allow_anonymous=True)),
        ({"BATON_ALLOW_ANONYMOUS": "True"}, replace(DEFAULT, allow_anonymous=True)),
        ({"BATON_ALLOW_ANONYMOUS": "0"}, DEFAULT),
        ({"BATON_STREAMING": "off"}, replace(DEFAULT, streaming=False)),
        ({"AWS_SAM_LOCAL": "true"}, SAM_LOCAL),
        ({"AWS_SAM_LOCAL": "true", "BATON_STREAMING": "on"}, SAM_LOCAL),
        ({"AWS_SAM_LOCAL": "true", "BATON_ALLOW_ANONYMOUS": ""}, SAM_LOCAL),
        ({"AWS_SAM_LOCAL": "true", "BATON_ALLOW_ANONYMOUS": "off"}, replace(SAM_LOCAL, allow_anonymous=False)),
        ({"BATON_DEFAULT_TTL_MS": "60000"}, replace(DEFAULT, default_ttl_ms=60_000)),
        ({"BATON_MAX_TTL_MS": "3600000"}, replace(DEFAULT, max_ttl_ms=3_600_000)),
        ({"BATON_MAX_TASKS_PER_OWNER": "5"}, replace(DEFAULT, max_tasks_per_owner=5)),
        ({"BATON_WRITE_RESERVE_MS": " 2500 "}, replace(DEFAULT, write_reserve_ms=2_500)),
        ({"BATON_QUESTION_MS": "60000"}, replace(DEFAULT, question_ms=60_000)),
        ({"BATON_CONNECT": " Init "}, replace(DEFAULT, connect="init")),
        ({"BATON_MAX_BODY_BYTES": "1024"}, replace(DEFAULT, max_body_bytes=1024)),
        (
            {"BATON_ALLOWED_ORIGINS": "https://App.example.com:443, http://localhost:6274,"},
            replace(DEFAULT, allowed_origins=frozenset({"https://app.example.com", "http://localhost:6274"})),
        ),
        ({"BATON_STATE_KEY_SECRET": SECRET}, replace(DEFAULT, state_key_secret=SECRET)),
        ({"BATON_STATE_KEY_SECRET": "", "BATON_STATE_KEY": KEY}, replace(DEFAULT, state_key=KEY.encode())),
        ({"BATON_STATE_KEY_SECRET": "StateKey", "AWS_SAM_LOCAL": "true"}, SAM_LOCAL),
        ({"BATON_WORKER": WORKER}, replace(DEFAULT, worker=WORKER)),
        ({"BATON_WORKER": " baton-worker:live "}, replace(DEFAULT, worker="baton-worker:live")),
        ({"BATON_WORKER": WORKER, "AWS_SAM_LOCAL": "true"}, SAM_LOCAL),
        ({"PATH": "/bin", "TABLE": "other"}, DEFAULT),
    ],
)
def test_a_variable_sets_its_field(env: dict[str, str], settings: Settings) -> None:
    assert Settings.from_environment(env) == settings


@pytest.mark.parametrize(
    ("env", "remedy"),
    [
        ({"BATON_ALLOW_ANONYMOUS": "maybe"}, "set it to one of"),
        ({"BATON_CONNECT": "later"}, "set it to one of auto, first, init"),
        ({"BATON_DEFAULT_TTL_MS": "1h"}, "whole number"),
        ({"BATON_MAX_TASKS_PER_OWNER": "0"}, "whole number"),
        ({"BATON_WRITE_RESERVE_MS": "1_000"}, "whole number"),
        ({"BATON_MAX_BODY_BYTES": "٣"}, "whole number"),
        ({"BATON_ALLOWED_ORIGINS": "*"}, "no wildcard"),
        ({"BATON_ALLOWED_ORIGINS": "https://*.example.com"}, "no wildcard"),
        ({"BATON_ALLOWED_ORIGINS": "https://ok.example,https://example.com/"}, "without a path"),
        ({"BATON_ALLOWED_ORIGINS": "example.com"}, "scheme://host"),
        ({"BATON_DEFAULT_TTL_MS": "180000000"}, "raise the second"),
        ({"BATON_WORKER": "baton-worker"}, "name:alias"),
        ({"BATON_WORKER": "baton-worker:$LATEST"}, "name:alias"),
        ({"BATON_WORKER": WORKER.removesuffix(":live")}, "name:alias"),
        ({"BATON_WORKER": "arn:aws:sqs:eu-west-1:123456789012:queue:live"}, "arn:aws:lambda"),
        ({"BATON_APPROVAL_TOPIC": "arn:aws:sns:eu-west-1:123456789012:people.fifo"}, "arn:aws:sns"),
        ({"BATON_STATE_KEY_SECRET": "StateKey"}, "arn:aws:secretsmanager"),
        ({"BATON_STATE_KEY_SECRET": "arn:aws:ssm:eu-west-1:123456789012:parameter/key"}, "arn:aws:secretsmanager"),
    ],
)
def test_an_invalid_value_is_reported_with_its_variable_and_the_remedy(env: dict[str, str], remedy: str) -> None:
    with pytest.raises(SettingsError) as error_info:
        Settings.from_environment(env)
    [(name, value)] = env.items()
    assert name in str(error_info.value)
    assert value.rpartition(",")[2] in str(error_info.value)
    assert remedy in str(error_info.value)


@pytest.mark.parametrize("text", ["kim", '{"refunds": "kim"}', '{"refunds": ["kim"], "refunds": ["lee"]}'])
def test_approvers_are_json_that_names_each_audience_once(text: str) -> None:
    with pytest.raises(SettingsError, match=r"^BATON_APPROVERS .*[:;] set it to JSON"):
        Settings.from_environment({"BATON_APPROVERS": text})


@pytest.mark.parametrize("name", ["BATON_STATE_KEY", "BATON_STATE_KEY_PREVIOUS"])
def test_a_key_and_a_secret_cannot_both_be_set(name: str) -> None:
    with pytest.raises(SettingsError, match=f"BATON_STATE_KEY_SECRET and {name} are both set: keep"):
        Settings.from_environment({"BATON_STATE_KEY_SECRET": SECRET, name: KEY})


def test_the_largest_body_fits_into_a_lambda_event() -> None:
    assert DEFAULT.max_body_bytes < 6_291_556 - 64 * 1024


def test_the_repr_of_the_settings_does_not_contain_keys() -> None:
    settings = Settings(state_key=b"current" * 8, state_key_previous=b"previous" * 8)

    assert "current" not in repr(settings)
    assert "previous" * 8 not in repr(settings)


@pytest.mark.parametrize(
    ("name", "warning"),
    [
        ("BATON_ALOW_ANONYMOUS", "BATON_ALOW_ANONYMOUS is not a setting; did you mean 'BATON_ALLOW_ANONYMOUS'?"),
        ("BATON_XYZZY", "BATON_XYZZY is not a setting; it has no effect"),
    ],
)
def test_an_unknown_variable_with_batons_prefix_is_reported(name: str, warning: str) -> None:
    assert unknown_settings({name: "on", "BATON_TABLE": "tasks", "PATH": "/bin"}) == [warning]


def test_every_setting_is_used() -> None:
    modules = Path(mcp_baton.__file__).parent.rglob("*.py")
    code = "".join(module.read_text() for module in modules if module.name != "settings.py")

    assert [name for name, _ in SETTINGS.values() if not re.search(rf"settings\.{name}\b", code)] == []

"""Finding the values of secret arguments in other values."""

import pytest

from mcp_baton.protocol.json import Json
from mcp_baton.tools.secrets import Secrets, is_hidden, secrets_of, shown_texts, stored_arguments
from mcp_baton.workflow.secrets import contains_argument, hidden_in, secrets_in_call
from mcp_baton.workflow.sources import FirstOf, Source, constant, prompt_arg, step_output

PIN = secrets_of({"pin"}, {"pin": "4711", "to": "ann"}, {"pin": 4711, "to": "ann"})
CVV = secrets_of({"cvv"}, {"cvv": "123"}, {"cvv": "123"})
BOTH = secrets_of({"a", "b"}, {"a": "hunter2", "b": "hunter22"}, {})
LOGIN = secrets_of(
    {"login"}, {"login": '{"user": "kim", "key": "s3cr3t"}'}, {"login": {"user": "kim", "key": "s3cr3t"}}
)
QUOTED = secrets_of({"q"}, {"q": 'say "hi"'}, {"q": 'say "hi"'})
SAME = secrets_of({"secret"}, {"secret": "secret"}, {"secret": "secret"})
EMPTY = secrets_of({"pin"}, {"pin": ""}, {"pin": ""})
NULL = secrets_of({"pin"}, {"pin": "null"}, {"pin": None})


@pytest.mark.parametrize(
    ("secrets", "value", "result"),
    [
        (PIN, "4711", "<secret pin>"),
        (PIN, 4711, "<secret pin>"),
        (PIN, "Bearer 4711!", "Bearer <secret pin>!"),
        (PIN, {"deep": [{"x4711": "a 4711"}]}, {"deep": [{"x<secret pin>": "a <secret pin>"}]}),
        (PIN, [4712, True, None, 4711.5, "ann"], [4712, True, None, 4711.5, "ann"]),
        (CVV, "123", "<secret cvv>"),
        (CVV, 123, "<secret cvv>"),
        (CVV, "call 12345", "call 12345"),
        (BOTH, "hunter22 and hunter2", "<secret b> and <secret a>"),
        (LOGIN, {"user": "kim", "key": "s3cr3t"}, "<secret login>"),
        (LOGIN, "the key s3cr3t", "the key <secret login>"),
        (QUOTED, '{"text": "say \\"hi\\""}', '{"text": "<secret q>"}'),
        (SAME, "a secret, a secret", "a <secret secret>, a <secret secret>"),
        (EMPTY, ["", "a"], ["", "a"]),
        (NULL, "null", "null"),
    ],
)
def test_secrets_of_four_characters_are_hidden_inside_texts(secrets: Secrets, value: Json, result: Json) -> None:
    assert secrets.hide(value) == result


def test_secrets_are_hidden_in_other_arguments() -> None:
    assert shown_texts({"pin": "4711", "note": "pin is 4711"}, PIN) == {
        "pin": "<secret pin>",
        "note": "pin is <secret pin>",
    }


def test_only_the_presence_of_a_secret_is_stored() -> None:
    stored_values = stored_arguments({"pin": "4711", "to": "ann", "at": None}, {"pin"})

    assert stored_values == {"pin": {"_workflow.secret": True}, "to": "ann", "at": None}
    assert [name for name, value in stored_values.items() if is_hidden(value)] == ["pin"]


@pytest.mark.parametrize(
    ("source", "contains_secret"),
    [
        (prompt_arg("pin"), True),
        (prompt_arg("to"), False),
        (constant({"headers": ["Pin {pin}"]}), True),
        (constant("{to}"), False),
        (step_output("pin"), False),
    ],
)
def test_a_source_mentions_a_secret_if_it_names_it(source: Source, contains_secret: bool) -> None:
    assert contains_argument(source, {"pin"}) is contains_secret


def test_arguments_that_contain_a_secret_are_hidden() -> None:
    sources: dict[str, Source] = {"pin": prompt_arg("pin"), "header": constant("Pin {pin}"), "to": prompt_arg("to")}
    call: dict[str, Json] = {"pin": "4711", "header": "x", "to": "ann", "note": "use 4711", "free": "4712"}

    assert hidden_in(call, sources, {"pin"}) == {"pin", "header", "note"}
    assert hidden_in(call, sources, frozenset()) == frozenset()


@pytest.mark.parametrize(
    ("call", "text", "shown"),
    [
        ({"pin": "hunter2", "again": "50-50"}, "no hunter2, no 50-50", "no <secret pin>, no <secret pin>"),
        ({"header": "Pin hunter2!"}, "no Pin hunter2!, no hunter2", "no Pin <secret pin>!, no <secret pin>"),
        ({"header": "hunter2"}, "no hunter2", "no <secret pin>"),
        ({"deep": {"auth": ["ann:hunter2"]}}, "no hunter2 of ann", "no <secret pin> of ann"),
        ({"deep": {"auth": ["hunter2"]}}, "no hunter2", "no <secret pin>"),
        ({"deep": ["hunter2"]}, "no hunter2", "no <secret pin>"),
        ({"either": "hunter2"}, "no hunter2", "no <secret pin>"),
        ({"to": "hunter2"}, "no hunter2", "no hunter2"),
    ],
)
def test_the_values_that_a_call_has_in_place_of_secrets_are_hidden(
    call: dict[str, Json], text: str, shown: str
) -> None:
    sources: dict[str, Source] = {
        "pin": prompt_arg("pin"),
        "again": prompt_arg("pin"),
        "header": constant("Pin {pin}!"),
        "deep": constant({"auth": ["{to}:{pin}"]}),
        "either": FirstOf((step_output("s"), prompt_arg("pin"))),
        "to": prompt_arg("to"),
    }

    assert secrets_in_call(call, sources, {"pin"}).hide_text(text) == shown


def test_a_secrets_placeholder_is_not_searched_for_secrets() -> None:
    secrets = secrets_of({"secret"}, {"secret": "secret"}, {"secret": "secret"})

    assert secrets.hide("a secret, a secret") == "a <secret secret>, a <secret secret>"


def test_an_empty_secret_hides_nothing() -> None:
    assert secrets_of({"pin"}, {"pin": ""}, {"pin": ""}).hide(["", "a"]) == ["", "a"]


def test_a_secret_that_is_null_hides_nothing() -> None:
    assert secrets_of({"pin"}, {"pin": "null"}, {"pin": None}).hide("null") == "null"

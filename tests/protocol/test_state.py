"""`requestState`: a signed text that returns answers only to the same caller and request, and only for a limited
time."""

from collections.abc import Iterator

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mcp_baton.protocol.json import JsonObject
from mcp_baton.protocol.state import LIFETIME_S, ForgedState, Seal, binding_of

NOW_S = 1_000_000
OLD, NEW = b"o" * 32, b"n" * 32


def seal_with(*keys: bytes) -> Seal:
    return Seal(lambda: keys)


SEAL = seal_with(NEW)
BINDING = binding_of("alice", "tools/call", "ask", {"a": 1})
ANSWERS: JsonObject = {"name": {"action": "accept", "content": {"name": "Zoë \ud800 🎉"}}, "more": [1.5, None]}
STATE = SEAL.seal(ANSWERS, BINDING, NOW_S)


def test_the_answers_are_returned_unchanged() -> None:
    assert SEAL.open(STATE, BINDING, NOW_S) == ANSWERS
    assert SEAL.open(SEAL.seal({}, BINDING, NOW_S), BINDING, NOW_S) == {}


def test_a_state_needs_no_escapes_in_json_and_urls() -> None:
    assert set(STATE) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.")


def test_a_state_is_valid_only_for_its_lifetime() -> None:
    assert SEAL.open(STATE, BINDING, NOW_S + LIFETIME_S - 1) == ANSWERS
    for late_s in (LIFETIME_S, LIFETIME_S + 1, 10**9):
        with pytest.raises(ForgedState, match="expired"):
            SEAL.open(STATE, BINDING, NOW_S + late_s)


@pytest.mark.parametrize(
    "binding",
    [
        pytest.param(binding_of("mallory", "tools/call", "ask", {"a": 1}), id="another owner"),
        pytest.param(binding_of(None, "tools/call", "ask", {"a": 1}), id="no owner"),
        pytest.param(binding_of("alice", "prompts/get", "ask", {"a": 1}), id="another method"),
        pytest.param(binding_of("alice", "tools/call", "other", {"a": 1}), id="another tool"),
        pytest.param(binding_of("alice", "tools/call", "ask", {"a": 2}), id="other arguments"),
        pytest.param(binding_of("alice", "tools/call", "ask", {"a": True}), id="arguments that are equal in Python"),
        pytest.param(binding_of("alice", "tools/call", "ask", {}), id="no arguments"),
        pytest.param("", id="nothing"),
    ],
)
def test_a_state_is_valid_only_for_its_request(binding: str) -> None:
    with pytest.raises(ForgedState, match="another"):
        SEAL.open(STATE, binding, NOW_S)


def test_different_requests_have_different_bindings() -> None:
    owners, names = ["a", 'a","b', "a b", "None", None], ["x", 'x",{}', ""]
    bindings = [binding_of(owner, "m", name, {}) for owner in owners for name in names]

    assert len(set(bindings)) == len(bindings)


def test_arguments_in_another_order_are_the_same_request() -> None:
    binding = binding_of("alice", "tools/call", "ask", {"a": {"x": 1, "y": 2}, "b": 3})
    other_binding = binding_of("alice", "tools/call", "ask", {"b": 3, "a": {"y": 2, "x": 1}})

    assert binding == other_binding


def test_the_current_and_the_previous_key_are_accepted() -> None:
    old_state = seal_with(OLD).seal(ANSWERS, BINDING, NOW_S)

    assert seal_with(NEW, OLD).open(old_state, BINDING, NOW_S) == ANSWERS
    assert seal_with(NEW, OLD).open(STATE, BINDING, NOW_S) == ANSWERS
    assert seal_with(NEW, OLD).seal(ANSWERS, BINDING, NOW_S) == STATE
    for seal in (seal_with(NEW), seal_with(b"x" * 32, NEW)):
        with pytest.raises(ForgedState, match="signature"):
            seal.open(old_state, BINDING, NOW_S)


def test_only_needed_keys_are_read() -> None:
    read_keys: list[bytes] = []

    def keys() -> Iterator[bytes]:
        for key in (NEW, OLD):
            read_keys.append(key)
            yield key

    seal = Seal(keys)
    with pytest.raises(ForgedState):
        seal.open("no state", BINDING, NOW_S)
    assert read_keys == []
    assert seal.seal(ANSWERS, BINDING, NOW_S) == STATE
    assert seal.open(STATE, BINDING, NOW_S) == ANSWERS
    assert read_keys == [NEW, NEW]


ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


@given(st.integers(0, len(STATE) - 1), st.sampled_from(ALPHABET + ".=+/ \n"))
def test_a_changed_state_is_refused(place: int, character: str) -> None:
    assume(STATE[place] != character)
    with pytest.raises(ForgedState):
        SEAL.open(STATE[:place] + character + STATE[place + 1 :], BINDING, NOW_S)


@pytest.mark.parametrize("part", [0, 1], ids=["payload", "signature"])
def test_another_last_character_is_refused(part: int) -> None:
    texts = STATE.split(".")
    for character in set(ALPHABET) - {texts[part][-1]}:
        changed_texts = [*texts]
        changed_texts[part] = texts[part][:-1] + character
        with pytest.raises(ForgedState):
            SEAL.open(".".join(changed_texts), BINDING, NOW_S)


@given(st.text(max_size=80) | st.from_regex(r"[A-Za-z0-9_-]{0,40}\.[A-Za-z0-9_-]{0,44}", fullmatch=True))
def test_garbage_is_refused(text: str) -> None:
    with pytest.raises(ForgedState):
        SEAL.open(text, BINDING, NOW_S)

"""Arguments that are stored with the result of a call."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_baton.protocol.json import Json, JsonObject, dumps
from mcp_baton.tasks.keys import digest
from mcp_baton.tasks.record import StepStatus
from mcp_baton.tasks.store import StepWrite
from mcp_baton.tools.secrets import HIDDEN
from mcp_baton.workflow.batch import outdated
from mcp_baton.workflow.stored_calls import DIGEST, MAX_STORED_CALL_BYTES, restore_call, shown_call, stored_call

LONG = "x" * 9_000


def test_arguments_of_up_to_8_kb_are_stored_unchanged() -> None:
    call: JsonObject = {"text": "x" * (MAX_STORED_CALL_BYTES - 11)}

    assert len(dumps(call)) == MAX_STORED_CALL_BYTES
    assert stored_call(call) == call


def test_very_many_arguments_are_stored_as_one_digest() -> None:
    call: JsonObject = {f"a{number}": "x" * 100 for number in range(1_000)}
    stored_arguments = stored_call(call)

    assert len(dumps(stored_arguments)) < 200
    assert restore_call(stored_arguments, call) == call
    assert restore_call(stored_arguments, {**call, "a1": "other"}) is None
    assert shown_call({"_workflow.call.a": stored_arguments}, "a") is None


@pytest.mark.parametrize("other_call", [{"to": "ann"}, {"to": "ann", "text": "y" * 9_000}])
def test_different_digests_show_that_calls_differ(other_call: JsonObject) -> None:
    assert restore_call(stored_call({"to": "ann", "text": LONG}), other_call) is None


def test_hidden_arguments_are_stored_without_values() -> None:
    stored_arguments = stored_call({"to": "ann", "pin": "1234"}, hidden=["pin"])

    assert stored_arguments == {"to": "ann", "pin": {"_workflow.secret": True}}
    assert shown_call({"_workflow.call.a": stored_arguments}, "a") == {"to": "ann", "pin": "<secret>"}


def test_a_hidden_argument_differs_only_if_it_is_absent() -> None:
    stored_arguments = stored_call({"to": "ann", "pin": "1234"}, hidden=["pin"])

    assert restore_call(stored_arguments, {"to": "ann", "pin": "9876"}) == {"to": "ann", "pin": "9876"}
    assert restore_call(stored_arguments, {"to": "ann"}) == {"to": "ann"}


def test_one_digest_of_all_arguments_ignores_hidden_ones() -> None:
    arguments = {str(number): 1 for number in range(3_000)}

    assert stored_call(arguments | {"pin": "1234"}, ["pin"]) == stored_call(arguments | {"pin": "9876"}, ["pin"])


SAME = digest("x")


@pytest.mark.parametrize("value", [{DIGEST: SAME, "bytes": 3}, {HIDDEN: True}], ids=str)
@pytest.mark.parametrize("text", ["", "y" * 9_000], ids=["short", "long"])
def test_a_value_that_looks_like_a_digest_stays_a_value(value: Json, text: str) -> None:
    call: JsonObject = {"a": value, "more": text}
    assert restore_call(stored_call(call), call) == call
    assert restore_call(stored_call(call), {"a": "x", "more": text}) is None


def test_arguments_that_look_like_one_digest_stay_arguments() -> None:
    call: JsonObject = {DIGEST: digest({"a": 1}), "bytes": 7}
    assert restore_call(stored_call(call), call) == call
    assert restore_call(stored_call(call), {"a": 1}) is None


CALLS = st.dictionaries(
    st.text(max_size=3), st.integers() | st.integers(8_000, 9_000).map(lambda length: "é" * length) | st.none()
)


@given(CALLS)
def test_stored_arguments_are_small_and_equal_their_call(call: JsonObject) -> None:
    stored_arguments = stored_call(call)

    assert len(dumps(stored_arguments).encode()) <= MAX_STORED_CALL_BYTES
    assert restore_call(stored_arguments, call) == call


def test_a_run_deletes_stored_calls_of_the_steps_that_it_writes() -> None:
    pending, completed, failed = StepStatus.PENDING, StepStatus.COMPLETED, StepStatus.FAILED
    writes = [
        StepWrite(0, "a", failed, completed, 1),
        StepWrite(1, "b", completed, completed, 1),
        StepWrite(2, "c", pending, completed, 1),
    ]

    assert outdated(writes) == {"_workflow.call.a", "_workflow.call.b"}

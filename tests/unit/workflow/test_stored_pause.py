"""A pause reason as it is stored and sent, and read again."""

import json

import pytest

from mcp_baton.protocol.json import JsonObject
from mcp_baton.workflow.pause import (
    DeadlineExceeded,
    Interrupted,
    InvalidField,
    PauseReason,
    SchemaMismatch,
    ToolFailed,
    UnresolvableParams,
    UnresolvedDependency,
    pause_in,
    step_named_by,
)


@pytest.mark.parametrize(
    ("reason", "wire"),
    [
        (
            UnresolvableParams("one", "p", "t"),
            {"type": "unresolvableParams", "blockedStep": "one", "missingParam": "p", "suggestedTool": "t"},
        ),
        (
            UnresolvableParams("one", "p", "t", "'7' is not there"),
            {
                "type": "unresolvableParams",
                "blockedStep": "one",
                "missingParam": "p",
                "problem": "'7' is not there",
                "suggestedTool": "t",
            },
        ),
        (
            SchemaMismatch("one", ("a",), (InvalidField("b", "bad"),), "t"),
            {
                "type": "schemaMismatch",
                "blockedStep": "one",
                "missingFields": ["a"],
                "invalidFields": [{"field": "b", "problem": "bad"}],
                "suggestedTool": "t",
            },
        ),
        (
            ToolFailed("one", "e", True, ""),
            {"type": "toolError", "failedStep": "one", "error": "e", "retryable": True, "suggestedTool": ""},
        ),
        (
            ToolFailed("one", "", False, "t"),
            {"type": "toolError", "failedStep": "one", "error": "", "retryable": False, "suggestedTool": "t"},
        ),
        (
            UnresolvedDependency("one", "out", "by", "t"),
            {
                "type": "unresolvedDependency",
                "blockedStep": "one",
                "missingOutput": "out",
                "producingStep": "by",
                "suggestedTool": "t",
            },
        ),
        (DeadlineExceeded("one", "t"), {"type": "deadlineExceeded", "blockedStep": "one", "suggestedTool": "t"}),
        (Interrupted("one", ""), {"type": "interrupted", "blockedStep": "one", "suggestedTool": ""}),
    ],
)
def test_a_reason_has_its_fields_on_the_wire_names_its_step_and_is_read_again(
    reason: PauseReason, wire: JsonObject
) -> None:
    assert reason.to_json() == wire
    assert step_named_by(wire) == "one"
    read = pause_in(json.loads(json.dumps(wire)))
    assert read == reason
    assert read.to_json() == wire


def test_of_a_type_that_is_not_known_nothing_is_said() -> None:
    assert pause_in({"type": "moonPhase", "blockedStep": "one"}) is None
    assert pause_in({}) is None


def test_a_damaged_reason_says_what_is_left_of_it() -> None:
    damaged: JsonObject = {
        "type": "schemaMismatch",
        "missingFields": "a",
        "invalidFields": [1, {"field": 2}],
        "suggestedTool": 3,
    }

    assert pause_in(damaged) == SchemaMismatch("", (), (InvalidField("", ""),), "")


@pytest.mark.parametrize("stored", [{}, {"type": "toolError"}, {"failedStep": 7}, {"blockedStep": None}])
def test_a_stored_reason_that_names_no_step_names_none(stored: JsonObject) -> None:
    assert step_named_by(stored) is None


def test_a_reason_never_grows_with_what_the_tool_said() -> None:
    reason = ToolFailed("s", "x" * 1_000_000, True, "t")

    stored = reason.to_json()["error"]
    assert isinstance(stored, str)
    assert stored.startswith("xxxx")
    assert len(stored) < 5_000


def test_a_reason_never_grows_with_what_was_wrong() -> None:
    fields = tuple(InvalidField("f" * 10_000, "p" * 10_000) for _ in range(1_000))

    stored = SchemaMismatch("s", (), fields, "t").to_json()

    assert len(repr(stored)) < 100_000

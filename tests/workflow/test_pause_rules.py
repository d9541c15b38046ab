"""Pause reasons: their stored form, and all code that reads them."""

import json

import pytest

from mcp_baton.protocol.json import JsonObject
from mcp_baton.tasks.record import paused_step
from mcp_baton.tools.outcomes import InvalidField
from mcp_baton.workflow import pause
from mcp_baton.workflow.pause import (
    REASONS,
    AnswersRequired,
    DeadlineExceeded,
    Interrupted,
    OpenQuestion,
    PauseReason,
    Reason,
    SchemaMismatch,
    StepFailed,
    UnresolvableParams,
    UnresolvedDependency,
    parse_pause,
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
            StepFailed("one", "e", True, ""),
            {"type": "toolError", "failedStep": "one", "error": "e", "retryable": True, "suggestedTool": ""},
        ),
        (
            StepFailed("one", "", False, "t"),
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
        (
            AnswersRequired("one", (OpenQuestion("one", "Who?", {"type": "string"}, "user"),), "flow"),
            {
                "type": "answersRequired",
                "blockedStep": "one",
                "questions": [{"name": "one", "question": "Who?", "schema": {"type": "string"}, "of": "user"}],
                "suggestedTool": "flow",
            },
        ),
        (DeadlineExceeded("one", "t"), {"type": "deadlineExceeded", "blockedStep": "one", "suggestedTool": "t"}),
        (Interrupted("one", ""), {"type": "interrupted", "blockedStep": "one", "suggestedTool": ""}),
    ],
)
def test_a_reason_is_read_back_as_it_was_stored(reason: PauseReason, wire: JsonObject) -> None:
    assert reason.to_json() == wire
    assert paused_step(wire) == "one"
    assert parse_pause(json.loads(json.dumps(wire))) == reason


def test_an_unknown_or_damaged_reason_is_not_parsed() -> None:
    assert parse_pause({"type": "moonPhase", "blockedStep": "one"}) is None
    assert parse_pause({}) is None
    assert parse_pause(None) is None
    assert parse_pause({"type": "deadlineExceeded", "blockedStep": 7, "suggestedTool": "t"}) is None


def test_a_long_error_is_shortened_when_it_is_stored() -> None:
    reason = StepFailed("s", "x" * 1_000_000, True, "t")

    error = reason.to_json()["error"]
    assert isinstance(error, str)
    assert error.startswith("xxxx")
    assert len(error) < 5_000


def test_long_lists_of_invalid_fields_are_shortened_when_they_are_stored() -> None:
    fields = tuple(InvalidField("f" * 10_000, "p" * 10_000) for _ in range(1_000))

    reason_json = SchemaMismatch("s", (), fields, "t").to_json()

    assert len(repr(reason_json)) < 100_000


def test_every_reason_is_registered() -> None:
    defined = {value for value in vars(pause).values() if isinstance(value, type) and issubclass(value, Reason)}

    bases = {base for kind in defined for base in kind.__bases__}
    assert set(REASONS) == defined - bases

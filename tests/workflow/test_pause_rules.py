"""Pause reasons: their stored form, and all code that reads them."""

import json

import pytest
from msgspec import structs

from mcp_baton.protocol.json import Json, JsonObject
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
)
from mcp_baton.workflow.stored_pauses import FREE_TEXTS, parse_pause


def blocked(kind: str, **members: Json) -> JsonObject:
    """The stored form of a reason of step `one`, whose tool is `t`."""
    return {"type": kind, "blockedStep": "one", "suggestedTool": "t", **members}


def failed(**members: Json) -> JsonObject:
    return {"type": "toolError", "failedStep": "one", **members}


@pytest.mark.parametrize(
    ("reason", "wire"),
    [
        (UnresolvableParams("one", "p", "t"), blocked("unresolvableParams", missingParam="p")),
        (UnresolvableParams("one", "p", "t", "no"), blocked("unresolvableParams", missingParam="p", problem="no")),
        (
            SchemaMismatch("one", ("a",), (InvalidField("b", "bad"),), "t"),
            blocked("schemaMismatch", missingFields=["a"], invalidFields=[{"field": "b", "problem": "bad"}]),
        ),
        (StepFailed("one", "e", True, ""), failed(error="e", retryable=True, suggestedTool="")),
        (StepFailed("one", "", False, "t"), failed(error="", retryable=False, suggestedTool="t")),
        (
            UnresolvedDependency("one", "out", "by", "t"),
            blocked("unresolvedDependency", missingOutput="out", producingStep="by"),
        ),
        (
            AnswersRequired("one", (OpenQuestion("one", "Who?", {"type": "string"}, "user"),), "t"),
            blocked(
                "answersRequired",
                questions=[{"name": "one", "question": "Who?", "schema": {"type": "string"}, "of": "user"}],
            ),
        ),
        (DeadlineExceeded("one", "t"), blocked("deadlineExceeded")),
        (Interrupted("one", ""), blocked("interrupted", suggestedTool="")),
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


def test_every_text_of_a_reason_is_cut_if_it_is_not_a_name() -> None:
    names = {"blockedStep", "failedStep", "producingStep", "suggestedTool", "missingParam", "missingOutput"}
    names |= {"approvalId", "audience", "errorId", "idempotencyKey", "expiresAt", "until", "for"}

    texts = {
        member.encode_name for kind in REASONS for member in structs.fields(kind) if member.type in (str, str | None)
    }

    assert texts - FREE_TEXTS == names


def test_every_reason_is_registered() -> None:
    defined = {value for value in vars(pause).values() if isinstance(value, type) and issubclass(value, Reason)}

    bases = {base for kind in defined for base in kind.__bases__}
    assert set(REASONS) == defined - bases

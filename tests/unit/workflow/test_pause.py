"""Pause reasons: their stored form, and all code that reads them."""

import json
import re
from pathlib import Path

import pytest
from msgspec import structs

from mcp_baton.cli.remote.printing import pause_text
from mcp_baton.console import page
from mcp_baton.local.request_log import pause_words
from mcp_baton.present.handoff import RemainingCalls
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.record import PAUSED_STEP, StepStatus, paused_step
from mcp_baton.testing.results import Pause
from mcp_baton.tools.outcomes import InvalidField
from mcp_baton.tools.templates import placeholders
from mcp_baton.workflow import pause
from mcp_baton.workflow.definition import Step, Workflow
from mcp_baton.workflow.pause import (
    REASONS,
    AnswersRequired,
    DeadlineExceeded,
    FailedItem,
    Interrupted,
    PauseReason,
    Question,
    Reason,
    Remedy,
    SchemaMismatch,
    StepFailed,
    UnresolvableParams,
    UnresolvedDependency,
    parse_pause,
)
from mcp_baton.workflow.resolve import Known
from tests.fakes import ScriptedHost


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
            AnswersRequired("one", (Question("one", "Who?", {"type": "string"}, "user"),), "flow"),
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


def sample(kind: type[Reason]) -> PauseReason:
    """Return a reason of this class with a value for each member."""
    values: dict[object, Json] = {str: "text", bool: False, tuple[str, ...]: ["a", "b"], str | None: "optional"}
    question: Json = {"name": "reader", "question": "Who?", "schema": {"type": "string"}, "of": "user"}
    values[tuple[Question, ...]] = [question]
    values |= {tuple[InvalidField, ...]: [{"field": "c", "problem": "no"}], int: 1}
    values[tuple[FailedItem, ...]] = [{"index": 2, "error": "no"}]
    members = {member.encode_name: values[member.type] for member in structs.fields(kind)}
    members |= dict.fromkeys(members.keys() & PAUSED_STEP, "pay")
    reason = parse_pause({"type": str(kind.__struct_config__.tag), **members})
    assert reason is not None
    return reason


def test_every_reason_is_registered() -> None:
    defined = {value for value in vars(pause).values() if isinstance(value, type) and issubclass(value, Reason)}

    bases = {base for kind in defined for base in kind.__bases__}
    assert set(REASONS) == defined - bases


@pytest.mark.parametrize("kind", REASONS)
def test_all_code_that_reads_reasons_supports_every_reason(kind: type[Reason]) -> None:
    reason = sample(kind)
    reason_json = reason.to_json()
    short = reason.short_form()
    table = json.loads(re.findall(r"const PAUSES = (.*);", page.text())[0])
    workflow = Workflow(name="shop", description="shop", steps=[Step("pay", tool="t")])
    known = Known(workflow, {}, {}, {"pay": StepStatus.PENDING}, {}, {})

    assert "pay" in reason.what_happened()
    assert RemainingCalls(known, ScriptedHost({}), reason).handoff().startswith(reason.what_happened())
    assert reason.remedy in Remedy
    assert "{" not in short
    assert {name for template in kind.short for name in placeholders(template)} <= reason_json.keys()
    assert not placeholders(kind.short[-1])
    assert pause_text(reason_json) == f"{reason.type}: {reason.what_happened()}"
    assert pause_words(reason_json, "the limit").startswith(f"paused at pay: {short}")
    assert (Pause(reason.type, reason_json).step, paused_step(reason_json)) == ("pay", "pay")
    assert table["types"][reason.type]["short"] == list(kind.short)
    assert f"| `{reason.type}` |" in Path("docs/reference/workflow-rules.md").read_text()

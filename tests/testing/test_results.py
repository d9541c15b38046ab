"""The `repr` of runs, results, tasks and pauses, which failing assertions show."""

from typing import Any, cast

import pytest

from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.testing import Client, JsonRpcError, Kill, Message, Pause, Result, Run, Task

REASON: JsonObject = {
    "type": "toolError",
    "failedStep": "refund",
    "error": "timeout",
    "retryable": True,
    "suggestedTool": "refund",
}
STEPS: list[Json] = [{"name": "fetch", "status": "completed"}, {"name": "refund", "status": "failed"}]
MISMATCH = Pause(
    "schemaMismatch", {"blockedStep": "lend", "missingFields": ["reader"], "invalidFields": [], "suggestedTool": "lend"}
)


def test_the_fields_of_a_pause_are_attributes_in_snake_case() -> None:
    assert (MISMATCH.type, MISMATCH.step) == ("schemaMismatch", "lend")
    assert (MISMATCH.missing_fields, MISMATCH.invalid_fields, MISMATCH.suggested_tool) == (["reader"], [], "lend")
    assert MISMATCH.blocked_step == "lend"


@pytest.mark.parametrize("name", ["error", "failed_step", "_fields", "__wrapped__"])
def test_an_unknown_field_of_a_pause_is_an_error_that_lists_the_fields(name: str) -> None:
    with pytest.raises(AttributeError, match="has type, step, blocked_step, missing_fields, invalid_fields"):
        getattr(MISMATCH, name)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (MISMATCH, "schemaMismatch at 'lend': missingFields [\"reader\"]"),
        (Pause("deadlineExceeded", {"blockedStep": "a", "suggestedTool": "b"}), "deadlineExceeded at 'a'"),
        (
            Run((), {"task_id": "t", "task_status": "working", "steps": STEPS, "pause_reason": REASON}),
            "Run(paused: toolError at 'refund': \"timeout\"; fetch=completed refund=failed)",
        ),
        (Run((), {"task_status": "working", "persisted": False}), "Run(working, not persisted)"),
        (Run((Message("user", {}),), {}), "Run(no task)"),
        (Result({"a": 1}, "", False, None, (), {}), 'Result(value {"a": 1})'),
        (Result(None, "no", True, None, (), {}), 'Result(error "no")'),
        (
            Result(30, "", False, None, (), {"recorded": True, "steps": STEPS}),
            "Result(value 30, recorded; fetch=completed refund=failed)",
        ),
        (
            Result(30, "", False, None, (), {"recorded": "unknown", "record_error": "lost"}),
            "Result(value 30, recorded unknown: lost)",
        ),
        (
            Task("t", "working", {"_workflow.progress": {"steps": STEPS}, "_workflow.pause_reason": REASON}),
            "Task(working: toolError at 'refund': \"timeout\"; fetch=completed refund=failed)",
        ),
        (Task("t", "completed", {}), "Task(completed)"),
        (Client(cast("Any", None), "sam", "2026"), "Client(owner='sam', era='2026', claims={})"),
        (Kill("PutItem", lambda: None), "Kill(after PutItem: pending)"),
        (Result("x" * 200, "", False, None, (), {}), f'Result(value "{"x" * 119}…)'),
    ],
)
def test_the_repr_of_a_value_is_one_short_line(value: object, text: str) -> None:
    assert repr(value) == text


def test_an_error_has_its_code_message_and_data() -> None:
    assert str(JsonRpcError({"code": -1, "message": "no", "data": {"a": 1}}, 400)) == '-1: no {"a":1}'
    assert str(JsonRpcError({"code": -1, "message": "no"}, 400)) == "-1: no"


def test_the_text_of_a_message_comes_from_its_content() -> None:
    resource: JsonObject = {"type": "resource", "resource": {"uri": "docs://a", "text": "about a"}}
    image: JsonObject = {"type": "image", "data": "", "mimeType": "image/png"}
    assert [Message("user", content).text for content in (resource, image)] == ["about a", ""]

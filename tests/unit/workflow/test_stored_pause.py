"""A stored pause reason is read as what it was written from."""

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
)
from mcp_baton.workflow.stored_pause import pause_in

REASONS: list[PauseReason] = [
    ToolFailed("one", "no", retryable=True, suggested_tool="t"),
    ToolFailed("one", "", retryable=False, suggested_tool="t"),
    UnresolvableParams("one", "amount", "t"),
    SchemaMismatch("one", ("a", "b"), (InvalidField("c.d", "is no number"),), "t"),
    UnresolvedDependency("one", "order", "fetch", "t"),
    DeadlineExceeded("one", "t"),
    Interrupted("one", ""),
]


@pytest.mark.parametrize("reason", REASONS, ids=lambda reason: reason.type)
def test_what_was_stored_is_read_again(reason: PauseReason) -> None:
    assert pause_in(json.loads(json.dumps(reason.to_json()))) == reason


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

"""What remains to be done of a task."""

import pytest

from mcp_baton.protocol.json import JsonObject
from mcp_baton.tasks.dynamodb.values import ValuePointer, Variables
from mcp_baton.tasks.record import APPROVAL_PREFIX
from mcp_baton.workflow.remaining import is_denied

NOTE = f"{APPROVAL_PREFIX}pay"


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, False),
        ({NOTE: {"digest": "d", "repeat": 0}}, False),
        ({NOTE: {"digest": "d", "repeat": 0, "denied": {}}}, True),
        # A value outside the task's item, while DynamoDB does not answer.
        (Variables({NOTE: ValuePointer("b", 300, 300, 300).attribute()}), False),
    ],
    ids=["no approval", "not denied", "denied", "unreadable"],
)
def test_a_step_is_denied_if_the_note_of_its_approval_says_so(variables: JsonObject, expected: bool) -> None:
    assert is_denied(variables, "pay") is expected

"""A result too large for an item is stored in items of its own and read back."""

import json
from typing import Any

from mcp_types import TextResourceContents

from tests.deployed.conversation import Session, in_session
from tests.deployed.deployment import Stack


def test_a_result_too_large_for_an_item_is_stored_and_read_back(probe: Stack) -> None:
    async def run_drawing(session: Session) -> tuple[Any, Any, Any]:
        _, meta = await session.prompt("drawing")
        task = await session.task("get", meta["task_id"])
        resource = await session.client.read_resource(task["_meta"]["_workflow.result.draw"]["uri"])
        [contents] = resource.contents
        assert isinstance(contents, TextResourceContents)
        return meta, task, json.loads(contents.text)

    meta, task, value = in_session(probe, run_drawing)
    assert (meta["task_status"], task["status"]) == ("completed", "completed")
    assert "oversized" not in meta
    assert task["_meta"]["omitted"] == ["_workflow.result.draw"]
    assert len(value) == 900_000

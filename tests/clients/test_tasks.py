"""Background tools with the clients that support tasks: FastMCP's in the 2026 era, and ext-tasks in both eras. The
workers run in their own processes, as on Lambda.
"""

import re
from dataclasses import dataclass
from typing import Any

import pytest

from tests.clients.conftest import Seen

type JsonDict = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Driven:
    """What one client saw.

    Attributes:
        client: `fastmcp`, `auto` or `legacy`: the latter two are ext-tasks, in the 2026 and the 2025 era.
    """

    client: str
    seen: JsonDict

    def result(self, call: str) -> JsonDict:
        """Return a call's result, in the same form for all clients."""
        came: JsonDict = self.seen[call]
        if self.client == "fastmcp":
            return came
        assert (came["kind"], came["status"], came["error"]) == ("task", "completed", None)
        result = came["result"]
        return {
            "error": result.get("isError", False),
            "text": result["content"][0]["text"],
            "structured": result.get("structuredContent"),
        }


@pytest.fixture(params=["fastmcp", "auto", "legacy"])
def driven(request: pytest.FixtureRequest, seen: Seen) -> Driven:
    """Each client."""
    client: str = request.param
    return Driven(client, seen("fastmcp-tasks" if client == "fastmcp" else f"ext-tasks-{client}"))


def test_each_client_uses_its_revision(driven: Driven) -> None:
    assert driven.seen["revision"] == ("2025-11-25" if driven.client == "legacy" else "2026-07-28")


def test_a_tools_task_is_followed_to_its_result(driven: Driven) -> None:
    assert driven.result("added") == {"error": False, "text": "6", "structured": {"result": 6}}


def test_fastmcp_also_has_the_result_in_its_task_handle(seen: Seen) -> None:
    assert seen("fastmcp-tasks")["handled"] == {"result": 9}


def test_a_tools_error_is_its_result(driven: Driven) -> None:
    assert driven.result("lost") == {"error": True, "text": "the order is lost", "structured": None}


def test_an_answer_before_the_task_starts_is_available_in_the_task(driven: Driven) -> None:
    assert driven.result("packed")["text"] == "Packed by Kim 1"


def test_a_tool_that_asks_in_its_task_gets_every_answer_once(driven: Driven) -> None:
    assert driven.result("booked")["text"] == "Kim 2, Kim 3, Kim 4"
    asked = driven.seen["asked"]
    messages = asked if driven.client == "fastmcp" else [message for _kind, message, _delivery in asked]
    assert messages == ["Who packs?", "Who travels?", "Where to?", "Which room?"]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_waiting_workflow_stays_working_and_its_message_names_the_callback(seen: Seen, mode: str) -> None:
    released = seen(f"ext-tasks-{mode}")["released"]
    tasks, text = released["tasks"], "runs in the background as task"
    assert (released["kind"], released["sent"]) == ("task", 200)
    assert {status for status, _ in tasks[:-1]} == {"working"}
    assert any(re.fullmatch(r"waits for a callback until \S+ \(step build\)", message or "") for _, message in tasks)
    assert (released["status"], released["result"]["task_status"]) == ("completed", "completed")
    if mode == "auto":
        assert tasks[0][1] == f"release {text} {released['task']}. You may do other work meanwhile."


def test_questions_are_sent_in_the_form_of_the_era(driven: Driven) -> None:
    """The server sends requests in the 2025 era. In 2026 the client retries the call, or sends `tasks/update` to a
    task.
    """
    if driven.client != "fastmcp":
        expected = {"legacy": ["peer-request"] * 4, "auto": ["request-retry", *["task-update"] * 3]}
        assert [delivery for *_, delivery in driven.seen["asked"]] == expected[driven.client]

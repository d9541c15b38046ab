"""Tools that run in the background, driven to their end by the clients that know how: FastMCP's, for the 2026 era, and
ext-tasks in both eras. The workers run in processes of their own, as under Lambda."""

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
        """A call's result, in one form for all clients."""
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


def test_each_client_speaks_the_revision_that_it_is_here_for(driven: Driven) -> None:
    assert driven.seen["revision"] == ("2025-11-25" if driven.client == "legacy" else "2026-07-28")


def test_a_tool_is_driven_to_its_result(driven: Driven) -> None:
    assert driven.result("added") == {"error": False, "text": "6", "structured": {"result": 6}}


def test_fastmcp_has_the_result_by_its_handle_of_the_task_too(seen: Seen) -> None:
    assert seen("fastmcp-tasks")["handled"] == {"result": 9}


def test_a_tools_error_is_its_result(driven: Driven) -> None:
    assert driven.result("lost") == {"error": True, "text": "the order is lost", "structured": None}


def test_a_tool_that_asks_before_its_task_begins_has_the_answer_in_it(driven: Driven) -> None:
    assert driven.result("packed")["text"] == "Packed by Kim 1"


def test_a_tool_that_asks_in_its_task_gets_every_answer_and_asks_each_person_once(driven: Driven) -> None:
    assert driven.result("booked")["text"] == "Kim 2, Kim 3, Kim 4"
    asked = driven.seen["asked"]
    messages = asked if driven.client == "fastmcp" else [message for _kind, message, _delivery in asked]
    assert messages == ["Who packs?", "Who travels?", "Where to?", "Which room?"]


def test_questions_travel_as_their_era_has_them(driven: Driven) -> None:
    """By requests of the server in the 2025 era; in the 2026 era by a retry, and by `tasks/update` in the task."""
    if driven.client != "fastmcp":
        expected = {"legacy": ["peer-request"] * 4, "auto": ["request-retry", *["task-update"] * 3]}
        assert [delivery for *_, delivery in driven.seen["asked"]] == expected[driven.client]

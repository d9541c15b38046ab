"""Background tools with the clients that support tasks: FastMCP's in the 2026 era, and ext-tasks in both eras. The
workers run at the same time, as on Lambda.
"""

import re
from dataclasses import dataclass
from typing import Any

import pytest

from tests.clients.conftest import ReportOf

type JsonDict = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ClientReport:
    """What one client received.

    Attributes:
        client: `fastmcp`, `auto` or `legacy`: the latter two are ext-tasks, in the 2026 and the 2025 era.
    """

    client: str
    report: JsonDict

    def result(self, call: str) -> JsonDict:
        """Return a call's result, in the same form for all clients."""
        call_result: JsonDict = self.report[call]
        if self.client == "fastmcp":
            return call_result
        assert (call_result["kind"], call_result["status"], call_result["error"]) == ("task", "completed", None)
        result = call_result["result"]
        return {
            "error": result.get("isError", False),
            "text": result["content"][0]["text"],
            "structured": result.get("structuredContent"),
        }


@pytest.fixture(params=["fastmcp", "auto", "legacy"])
def client_report(request: pytest.FixtureRequest, report_of: ReportOf) -> ClientReport:
    client: str = request.param
    return ClientReport(client, report_of("fastmcp-tasks" if client == "fastmcp" else f"ext-tasks-{client}"))


def test_each_client_uses_its_revision(client_report: ClientReport) -> None:
    assert client_report.report["revision"] == ("2025-11-25" if client_report.client == "legacy" else "2026-07-28")


def test_a_tools_task_is_followed_to_its_result(client_report: ClientReport) -> None:
    assert client_report.result("added") == {"error": False, "text": "6", "structured": {"result": 6}}


def test_fastmcp_also_has_the_result_in_its_task_handle(report_of: ReportOf) -> None:
    assert report_of("fastmcp-tasks")["handled"] == {"result": 9}


def test_a_tools_error_is_its_result(client_report: ClientReport) -> None:
    assert client_report.result("lost") == {"error": True, "text": "the order is lost", "structured": None}


def test_an_answer_before_the_task_starts_is_available_in_the_task(client_report: ClientReport) -> None:
    assert client_report.result("packed")["text"] == "Packed by Kim 1"


def test_a_tool_that_asks_in_its_task_gets_every_answer_once(client_report: ClientReport) -> None:
    assert client_report.result("booked")["text"] == "Kim 2, Kim 3, Kim 4"
    questions = client_report.report["asked"]
    messages = questions if client_report.client == "fastmcp" else [message for _kind, message, _delivery in questions]
    assert messages == ["Who packs?", "Who travels?", "Where to?", "Which room?"]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_waiting_workflow_stays_working_and_its_message_names_the_callback(report_of: ReportOf, mode: str) -> None:
    release = report_of(f"ext-tasks-{mode}")["released"]
    tasks, text = release["tasks"], "runs in the background as task"
    assert (release["kind"], release["sent"]) == ("task", 200)
    assert {status for status, _ in tasks[:-1]} == {"working"}
    assert any(re.fullmatch(r"waits for a callback until \S+ \(step build\)", message or "") for _, message in tasks)
    assert (release["status"], release["result"]["task_status"]) == ("completed", "completed")
    if mode == "auto":
        assert tasks[0][1] == f"release {text} {release['task']}. You may do other work meanwhile."


def test_questions_are_sent_in_the_form_of_the_era(client_report: ClientReport) -> None:
    """The server sends requests in the 2025 era. In 2026 the client retries the call, or sends `tasks/update` to a
    task.
    """
    if client_report.client != "fastmcp":
        expected = {"legacy": ["peer-request"] * 4, "auto": ["request-retry", *["task-update"] * 3]}
        assert [delivery for *_, delivery in client_report.report["asked"]] == expected[client_report.client]

"""Whole sessions of third-party clients over HTTP with `baton serve`, in both eras.

Scripts print what each client received. No client supports everything; separate tests cover the rest.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tests.clients.conftest import ReportOf

METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602

CLIENTS = ("python-sdk", "fastmcp", "typescript")
COMPLETION = {"resultType": "complete", "content": [{"type": "text", "text": "Refunded"}]}

type JsonDict = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Session:
    """What one client received: `python-sdk`, `fastmcp` or `typescript`, which is `stateless` in the 2026 era."""

    client: str
    stateless: bool
    report: JsonDict

    @property
    def tasks(self) -> JsonDict:
        """What the client received about the task that it completed and of the one that it cancelled."""
        tasks: JsonDict = self.report["tasks"]
        return tasks

    @property
    def task_id(self) -> str:
        task_id: str = self.report["paused"]["_meta"]["task_id"]
        return task_id


@pytest.fixture(params=[(client, era) for client in CLIENTS for era in ("legacy", "auto")], ids="-".join)
def session(request: pytest.FixtureRequest, report_of: ReportOf) -> Session:
    """Each client in each era."""
    client, era = request.param
    return Session(client, era == "auto", report_of(f"{client}-{era}"))


def steps_in(meta: Mapping[str, Any]) -> list[str]:
    return [step["status"] for step in meta["steps"]]


def test_client_and_server_agree_on_the_newest_revision_of_each_era(session: Session) -> None:
    assert session.report["revision"] == ("2026-07-28" if session.stateless else "2025-11-25")


def test_the_client_knows_the_server_except_fastmcp_in_the_2026_era(session: Session) -> None:
    is_known = not (session.client == "fastmcp" and session.stateless)
    assert session.report["server"] == (["clients", "1.2.3"] if is_known else None)
    assert session.report["instructions"] == ("Refund orders." if is_known else None)


def test_the_client_lists_everything_that_is_published(session: Session) -> None:
    assert {"fetch_order", "refund", "count", "interview"} <= set(session.report["tools"])
    assert session.report["prompts"] == ["apology", "release", "refund_order"]
    assert session.report["resources"] == ["terms://refunds"]
    assert session.report["templates"] == ["orders://{order_id}"]


def test_the_client_reads_completes_and_calls(session: Session) -> None:
    assert session.report["resource"] == "Order A-17"
    assert session.report["completion"] == ["A-17", "A-18"]
    assert session.report["call"] == {"order_id": "A-17", "total": 240.0}


def test_the_client_recognizes_a_tools_error(session: Session) -> None:
    assert session.report["failed"] is True


def test_the_client_reads_progress_and_logs_before_the_result(session: Session) -> None:
    assert session.report["progress"] == [[1, 3, "at 1"], [2, 3, "at 2"], [3, 3, "at 3"]]
    assert session.report["logs"] == ["counted 1", "counted 2", "counted 3"]


def test_the_client_answers_a_form_a_sampling_and_a_roots_request_of_one_call(session: Session) -> None:
    assert session.report["interview"] == "Kim: Hello in file:///home/kim/shop"


def test_the_client_gets_a_paused_prompt_with_its_handoff_and_its_task(session: Session) -> None:
    prompt = session.report["paused"]
    assert steps_in(prompt["_meta"]) == ["completed", "failed"]
    assert prompt["_meta"]["pause_reason"]["type"] == "toolError"
    handoff, request = prompt["messages"][-2:]
    assert [handoff["role"], request["role"]] == ["assistant", "user"]
    assert "1. Call refund with" in handoff["content"]["text"]
    assert session.task_id not in json.dumps(prompt["messages"])


def test_the_client_continues_the_workflow_by_naming_its_task_in_meta(session: Session) -> None:
    result = session.report["continued"]
    assert result["structuredContent"] == {"result": "Refunded EUR 240.00 of A-17"}
    assert result["_meta"]["task_id"] == session.task_id
    assert result["_meta"]["recorded"] is True
    assert steps_in(result["_meta"]) == ["completed", "completed"]


def test_the_client_finishes_a_paused_workflow_with_tool_calls_only(session: Session) -> None:
    """Each client has also validated the structured content against the listed schemas."""
    start, refund, end = session.report["hosted"]
    task_id = start["structuredContent"]["task_id"]
    assert start["structuredContent"]["message"] == start["content"][0]["text"]
    [call] = [line for line in start["content"][0]["text"].splitlines() if line.startswith("1. Call refund with")]
    arguments = {"order_id": "A-17", "amount": 240.0, "task_id": f"{task_id}/refund"}
    assert json.loads(call.partition(" with ")[2]) == arguments
    instruction = f'All 2 steps are done. Call refund_order with {{"task_id": "{task_id}"}} to finish.'
    assert [block["text"] for block in refund["content"]] == ["Refunded EUR 240.00 of A-17", instruction]
    assert refund["structuredContent"] == {"result": "Refunded EUR 240.00 of A-17", "baton_next": instruction}
    assert end["content"][0]["text"].startswith("Done: 2 of 2 steps.")
    assert end["structuredContent"]["task_status"] == "completed"


def test_the_client_sees_its_task_with_the_task_variables(session: Session) -> None:
    task = session.tasks["task"]
    assert (task["taskId"], task["status"]) == (session.task_id, "working")
    assert task["_meta"]["_workflow.result.refund"] == "Refunded EUR 240.00 of A-17"
    assert task["ttlMs" if session.stateless else "ttl"] == 3_600_000


def test_the_client_completes_its_task_with_a_cancel_that_has_a_result(session: Session) -> None:
    """No client supports `tasks/cancel` with a result (docs/http.md), so each sends it as a custom request."""
    task = session.tasks["after"]
    assert (task["taskId"], task["status"]) == (session.task_id, "completed")
    assert task.get("result") == (COMPLETION if session.stateless else None)


def test_the_client_cancels_a_task(session: Session) -> None:
    assert session.tasks["gone"]["status"] == "cancelled"
    assert session.tasks["gone"]["taskId"] != session.task_id


def test_the_client_gets_an_error_for_an_unknown_task(session: Session) -> None:
    assert session.tasks["unknown"] == {"error": INVALID_PARAMS}


def test_the_client_lists_its_tasks_in_the_2025_era_and_cannot_in_the_2026_era(session: Session) -> None:
    """The extension has no `tasks/list`. The TypeScript client refuses to send it; the others get an error."""
    task_list = session.tasks["listed"]
    if not session.stateless:
        newest_ids = [task["taskId"] for task in task_list["tasks"][:2]]
        assert newest_ids == [session.tasks["gone"]["taskId"], session.task_id]
    elif session.client == "typescript":
        assert "not supported by this session" in task_list["error"]
    else:
        assert task_list == {"error": METHOD_NOT_FOUND}


def test_the_client_gets_the_result_of_its_task(session: Session) -> None:
    """The result comes from `tasks/result` in the 2025 era; 2026 inlines it into `tasks/get`.

    A workflow's result is `{"result": ...}` (docs/http.md). The TypeScript package treats every task as a tool's, so it
    fails on that. In the 2026 era it accepts a result in the shape of a tool's, including `resultType`.
    """
    result = session.tasks["result"]
    if session.client != "typescript":
        assert result.get("result") == (None if session.stateless else COMPLETION)
        assert result.get("error") == (METHOD_NOT_FOUND if session.stateless else None)
    elif session.stateless:
        assert result == {"status": "completed", "error": None, "content": COMPLETION["content"]}
    else:
        assert result == {"status": "failed", "error": "Protocol value failed schema validation", "content": None}

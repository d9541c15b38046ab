"""A worker that lets its job wait, if the store fails after the claim is released."""

from types import SimpleNamespace
from typing import Any

import pytest

from mcp_baton.background.waiting import SUSPENDED, Waits, suspend
from mcp_baton.exceptions import StoreUnavailable
from mcp_baton.workflow.pause import ApprovalRequired


def unavailable(*_: object) -> set[str]:
    raise StoreUnavailable("DynamoDB does not answer")


def write_now(outcome: str, write: Any) -> str:
    write()
    return outcome


@pytest.mark.parametrize(("waiting_approvals", "woken"), [(unavailable, True), (lambda *_: {"a1"}, False)])
def test_a_worker_that_cannot_read_the_decision_wakes_the_job_for_another(waiting_approvals: Any, woken: bool) -> None:
    calls: list[str] = []
    jobs = SimpleNamespace(suspend=lambda *_: calls.append("suspend"), wake=lambda *_: calls.append("wake"))
    services = SimpleNamespace(features=SimpleNamespace(waiting_approvals=waiting_approvals))
    execution: Any = SimpleNamespace(
        store=SimpleNamespace(jobs=jobs),
        services=services,
        now_ms=lambda: 0,
        notify=lambda: None,
        waits_for={"a1"},
        job_id="job",
    )
    lease: Any = SimpleNamespace(task=SimpleNamespace(owner="kim", task_id="job"), claim=lambda: None)
    approval = ApprovalRequired(
        step="pay", approval_id="a1", audience="refunds", message="Pay?", expires_at="2030-01-01T00:00:00Z"
    )

    outcome = suspend(execution, lease, Waits((approval,)), write_now)

    assert outcome == SUSPENDED
    assert calls == (["suspend", "wake"] if woken else ["suspend"])

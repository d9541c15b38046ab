"""The number of requests that approvals add (docs/storage.md, Requests)."""

from mcp_baton import Approval
from tests.e2e.approvals.bank import ORDER, Bank
from tests.e2e.approvals_support import approvals_of, approver, decide
from tests.e2e.conftest import MakeClient
from tests.sent import Requests


def test_an_approval_adds_one_request_to_the_run_that_asks_and_one_to_the_run_that_uses_it(
    make_client: MakeClient, requests: Requests
) -> None:
    client = make_client(Bank().server)
    run = client.get_prompt("refund", ORDER)
    run_requests = requests.take()
    [approval] = approvals_of(approver(client))
    requests.take()
    decide(approver(client), approval)
    decision_requests = requests.take()
    client.get_prompt("refund", task=run.task_id)
    resume_requests = requests.take()

    # These create the task, request the approval, and store the results.
    assert run_requests == ["PutItem", "PutItem", "UpdateItem"]
    assert decision_requests == ["GetItem", "GetItem", "UpdateItem"]
    # These claim the task, use the approval, and store the results.
    assert resume_requests == ["UpdateItem", "UpdateItem", "UpdateItem"]


def test_a_call_that_needs_no_approval_adds_no_request(make_client: MakeClient, requests: Requests) -> None:
    make_client(Bank(Approval("refunds", when=lambda **_: False)).server).get_prompt("refund", ORDER)

    assert requests.take() == ["PutItem", "UpdateItem"]

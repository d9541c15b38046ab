"""The number of requests that approvals add (docs/storage.md, Requests)."""

from mcp_baton import Approval
from tests.e2e.approvals.bank import ORDER, Bank
from tests.e2e.approvals_support import approver, decide, waiting
from tests.e2e.conftest import MakeClient
from tests.sent import Requests


def test_an_approval_adds_one_request_to_the_run_that_asks_and_one_to_the_run_that_uses_it(
    make_client: MakeClient, requests: Requests
) -> None:
    client = make_client(Bank().server)
    run = client.get_prompt("refund", ORDER)
    asking = requests.take()
    [approval] = waiting(approver(client))
    requests.take()
    decide(approver(client), approval)
    deciding = requests.take()
    client.get_prompt("refund", task=run.task_id)
    using = requests.take()

    # These create the task, request the approval, and store the results.
    assert asking == ["PutItem", "PutItem", "UpdateItem"]
    assert deciding == ["GetItem", "GetItem", "UpdateItem"]
    # These claim the task, use the approval, and store the results.
    assert using == ["UpdateItem", "UpdateItem", "UpdateItem"]


def test_a_call_that_needs_no_approval_adds_no_request(make_client: MakeClient, requests: Requests) -> None:
    client = make_client(Bank(Approval("refunds", when=lambda **_: False)).server)
    client.get_prompt("refund", ORDER)

    assert requests.take() == ["PutItem", "UpdateItem"]

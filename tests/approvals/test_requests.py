"""The number of requests that approvals add (ARCHITECTURE.md, Requests)."""

from mcp_baton import Approval
from tests.approvals.bank import CALL, ORDER, Bank
from tests.sent import Requests
from tests.support.approvals import approvals_of, approver, decide
from tests.support.handler import MakeClient


def test_an_approval_adds_two_requests_to_the_run_that_asks_and_one_to_the_run_that_uses_it(
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

    # These create the task, count the approval, request it, and store the results.
    assert run_requests == ["PutItem", "UpdateItem", "PutItem", "UpdateItem"]
    # These read the approval and its task, decide, and count it no longer.
    assert decision_requests == ["GetItem", "GetItem", "UpdateItem", "UpdateItem"]
    # These claim the task, use the approval, and store the results.
    assert resume_requests == ["UpdateItem", "UpdateItem", "UpdateItem"]


def test_the_hundredth_equal_call_makes_the_requests_of_the_first(make_client: MakeClient, requests: Requests) -> None:
    client = make_client(Bank().server)
    rounds: list[tuple[list[str], list[str]]] = []
    for _ in range(100):
        client.call_tool("pay", CALL)
        ask_requests = requests.take()
        [approval] = approvals_of(approver(client))
        decide(approver(client), approval)
        requests.take()
        client.call_tool("pay", CALL)
        rounds.append((ask_requests, requests.take()))

    assert rounds[0] == rounds[99] == (["Query", "UpdateItem", "PutItem"], ["Query", "UpdateItem"])


def test_a_call_that_needs_no_approval_adds_no_request(make_client: MakeClient, requests: Requests) -> None:
    make_client(Bank(Approval("refunds", when=lambda **_: False)).server).get_prompt("refund", ORDER)

    assert requests.take() == ["PutItem", "UpdateItem"]

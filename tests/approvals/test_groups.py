"""Groups of a Cognito user pool decide approvals like scopes, and do nothing else (docs/approvals.md)."""

import json

import pytest

from mcp_baton import Server
from tests.approvals.bank import ORDER, Bank
from tests.support.approvals import approvals_of, decide
from tests.support.client import Client
from tests.support.handler import MakeClient


def in_groups(client: Client, groups: object) -> Client:
    return client.as_owner("kim").with_claims(scope="baton/use", **{"cognito:groups": groups})


# REST APIs write the list of a token as one text.
@pytest.mark.parametrize("groups", ["refunds", "staff,refunds", ["staff", "refunds"]])
def test_a_person_in_the_group_decides(make_client: MakeClient, groups: object) -> None:
    bank = Bank()
    client = make_client(bank.server)
    run = client.call_tool("refund", ORDER)
    person = in_groups(client, groups)
    [approval] = approvals_of(person)

    assert decide(person, approval).status == 200
    client.call_tool("refund", {"task_id": run.result["structuredContent"]["task_id"]})
    assert bank.amounts == [250.0]


@pytest.mark.parametrize("groups", ["staff", "refunds-readers,myrefunds", [], None, {"refunds": True}])
def test_a_person_in_other_groups_sees_nothing_and_decides_nothing(make_client: MakeClient, groups: object) -> None:
    bank = Bank()
    client = make_client(bank.server)
    client.call_tool("refund", ORDER)
    [approval] = approvals_of(in_groups(client, "refunds"))

    assert approvals_of(in_groups(client, groups)) == []
    assert decide(in_groups(client, groups), approval).status == 404


def test_the_requester_cannot_decide_through_a_group(make_client: MakeClient) -> None:
    bank = Bank()
    client = make_client(bank.server)
    client.call_tool("refund", ORDER)
    requester = client.with_claims(**{"cognito:groups": "refunds"})
    [approval] = approvals_of(requester)

    assert decide(requester, approval).status == 403


def test_a_group_is_no_scope_for_tools(make_client: MakeClient) -> None:
    server = Server("shop")

    @server.tool(requires=["refunds"])
    def refund() -> str:
        return "refunded"

    answer = in_groups(make_client(server), "refunds").call_tool("refund")
    assert "refunded" not in json.dumps(answer.body)

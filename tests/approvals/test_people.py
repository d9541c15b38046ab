"""Permissions to see and decide an approval, by scopes and by groups (docs/approvals.md, Who may decide)."""

import json
from typing import Any

import pytest

from mcp_baton import Server
from mcp_baton.approvals.decisions import Person, person
from mcp_baton.approvals.record import ApprovalRecord, ApprovalState
from mcp_baton.settings import Settings
from tests.approvals.bank import ORDER, Bank
from tests.support.approvals import approvals_of, decide
from tests.support.client import Client
from tests.support.handler import MakeClient

LISTED = Settings(approvers={"refunds": frozenset({"kim", "anonymous"})})


def record(*, by_requester: bool = False, owner: str = "ann") -> ApprovalRecord:
    return ApprovalRecord(
        "id", "digest", ApprovalState.WAITING, "pay", {}, "Pay?", "refunds", owner, 0, 1, by_requester=by_requester
    )


def caller(owner: str | None, scope: str = "", settings: Settings = LISTED) -> Person:
    class Services:
        pass

    services: Any = Services()
    services.settings = settings
    return person(services, owner, {"scope": scope} if scope else {})


@pytest.mark.parametrize(
    ("owner", "scope", "by_requester", "sees", "decides"),
    [
        ("kim", "", False, True, True),  # listed by the operator
        ("lee", "refunds", False, True, True),  # has the scope
        ("lee", "refund refundss", False, False, False),
        ("lee", "", False, False, False),
        ("anonymous", "", False, False, False),  # not a person, even if listed
        (None, "", False, False, False),
        ("ann", "refunds", False, True, False),  # the requester
        ("ann", "", False, True, False),
        ("ann", "", True, True, True),
        ("kim", "", True, True, True),
        ("lee", "", True, False, False),
    ],
)
def test_a_member_of_the_group_can_decide_but_the_requester_cannot(
    owner: str | None, scope: str, by_requester: bool, sees: bool, decides: bool
) -> None:
    caller_person, approval = caller(owner, scope), record(by_requester=by_requester)

    assert (caller_person.may_see(approval), caller_person.may_decide(approval)) == (sees, decides)


def test_unauthenticated_callers_cannot_approve_their_own_calls() -> None:
    approval = record(owner="anonymous", by_requester=True)

    assert not caller("anonymous").may_decide(approval)
    assert caller("kim").may_decide(approval)


def test_scopes_are_compared_as_a_whole() -> None:
    assert caller("lee", "refunds:read").audiences == {"refunds:read"}
    assert caller("lee", "a b").audiences == {"a", "b"}


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

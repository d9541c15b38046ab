"""Permissions to see and decide an approval (docs/approvals.md, Who may decide)."""

from typing import Any

import pytest

from mcp_baton.approvals.decisions import Person, person
from mcp_baton.approvals.record import ApprovalRecord, ApprovalState
from mcp_baton.settings import Settings

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

"""Approvals through the real handler: the list, and decisions by other people."""

import json
from dataclasses import replace
from typing import Any

from tests.e2e.support import Answer, Client, JsonDict


def approver(client: Client, owner: str = "kim", scopes: str = "refunds") -> Client:
    """A person who may decide, in front of the same function."""
    return replace(client, owner=owner, claims={"scope": scopes})


def waiting(person: Client, state: str = "waiting") -> list[JsonDict]:
    """The approvals that a person sees in this state."""
    answer = person.post(
        None, resource="/approvals", path="/approvals", httpMethod="GET", queryStringParameters={"state": state}
    )
    assert answer.status == 200, answer.body
    found: list[JsonDict] = json.loads(answer.body)["approvals"]
    return found


def decide(person: Client, approval: JsonDict, decision: str = "approve", **members: Any) -> Answer:
    """Send a decision of an approval; `members` replaces members of the body."""
    approval_id = approval["approvalId"]
    body = {"decision": decision, "digest": approval.get("digest"), **members}
    return person.post(
        json.dumps(body),
        resource="/approvals/{id}",
        path=f"/approvals/{approval_id}",
        pathParameters={"id": approval_id},
    )

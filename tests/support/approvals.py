"""Helpers for the approvals API behind the real handler: list approvals and decide them."""

import json
from dataclasses import replace
from typing import Any

from tests.support.client import Answer, Client, JsonDict


def approver(client: Client, owner: str = "kim", scopes: str = "refunds") -> Client:
    """Return a client of the same function for a person who may decide."""
    return replace(client, owner=owner, claims={"scope": scopes})


def approvals_of(person: Client, state: str = "waiting") -> list[JsonDict]:
    answer = person.post(
        None, resource="/approvals", path="/approvals", httpMethod="GET", queryStringParameters={"state": state}
    )
    assert answer.status == 200, answer.body
    approvals: list[JsonDict] = json.loads(answer.body)["approvals"]
    return approvals


def decide(person: Client, approval: JsonDict, decision: str = "approve", **members: Any) -> Answer:
    """Send the decision of an approval. `members` replaces members of the body."""
    approval_id = approval["approvalId"]
    body = {"decision": decision, "digest": approval.get("digest"), **members}
    return person.post(
        json.dumps(body),
        resource="/approvals/{id}",
        path=f"/approvals/{approval_id}",
        pathParameters={"id": approval_id},
    )

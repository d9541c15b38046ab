"""The approvals API: `GET /approvals`, `GET /approvals/<id>` and `POST /approvals/<id>` (docs/approvals.md)."""

import logging
from collections.abc import Callable, Mapping
from typing import Final

from mcp_baton.approvals.decisions import Approvals, Person, person
from mcp_baton.approvals.record import (
    CLAIMED_CLIENTS,
    MAX_REASON_CHARS,
    ApprovalRecord,
    ApprovalState,
    Decision,
    NotDecided,
)
from mcp_baton.exceptions import StoreError
from mcp_baton.protocol.http import APPROVALS_PATH, HttpRequest, HttpResponse
from mcp_baton.protocol.json import Json
from mcp_baton.transport.exchange import Exchange
from mcp_baton.transport.json_api import Refused, json_in, reply
from mcp_baton.workflow.services import Services

logger = logging.getLogger(__name__)

MAX_DECISION_BYTES: Final = 10_000
ORIGINS: Final = ("api", *CLAIMED_CLIENTS)
"""The values of `from`: what the client says of itself."""


def answer(services: Services, request: HttpRequest, exchange: Exchange) -> HttpResponse:
    """Answer a request to the approvals API. The caller has been authenticated, and its origin was checked."""
    caller = person(services, request.owner, request.claims)
    return answer_safely(services, exchange, lambda approvals: _answer(approvals, request, caller))


def answer_safely(services: Services, exchange: Exchange, answer: Callable[[Approvals], HttpResponse]) -> HttpResponse:
    """Answer a request about approvals. Refusals and failures of the store become responses, too."""
    try:
        if services.store is None:
            raise Refused(404, "This server has no task store, so it has no approvals. Set BATON_TABLE.")
        return answer(Approvals(services, services.store.within(exchange.remaining_ms)))
    except Refused as error:
        return error.response
    except StoreError:
        logger.exception("request %s: the approvals are not available", exchange.request_id)
        return reply(503, {"error": "The task store does not answer. Try again.", "requestId": exchange.request_id})


def _answer(approvals: Approvals, request: HttpRequest, caller: Person) -> HttpResponse:
    approval_id = request.path.removeprefix(APPROVALS_PATH).strip("/")
    if request.method == "GET":
        if not approval_id:
            return _list(approvals, caller, request.query)
        record = _find_visible(approvals, caller, approval_id)
        return reply(200, record.to_json(for_requester=caller.is_requester(record)))
    if request.method == "POST" and approval_id:
        return _decide(approvals, caller, approval_id, request)
    allowed = "GET, POST" if approval_id else "GET"
    return reply(405, {"error": f"Method not allowed: use {allowed}"}).allowing(allowed)


def _list(approvals: Approvals, caller: Person, query: Mapping[str, str]) -> HttpResponse:
    states = [state.value for state in ApprovalState]
    state = query.get("state", ApprovalState.WAITING.value)
    if state not in states:
        raise Refused(400, f"state={state!r} is not a state: use one of {', '.join(states)}")
    try:
        page = approvals.waiting(caller, ApprovalState(state), query.get("cursor"))
    except ValueError as error:
        raise Refused(400, "cursor is not one that this list has returned: leave it out") from error
    shown = [record.to_json(for_requester=caller.is_requester(record)) for record in page.approvals]
    body: dict[str, Json] = {"approvals": shown}
    return reply(200, body if page.cursor is None else {**body, "nextCursor": page.cursor})


def _find_visible(approvals: Approvals, caller: Person, approval_id: str) -> ApprovalRecord:
    record = approvals.find(approval_id)
    if record is None or not caller.may_see(record):
        if record is not None:
            logger.info("approval %s: the caller %r is not in %r", approval_id, caller.owner, record.audience)
        raise Refused(404, "There is no such approval in your groups.")
    return record


def _decide(approvals: Approvals, caller: Person, approval_id: str, request: HttpRequest) -> HttpResponse:
    body = body_of(request)
    origin = body.get("from", "api")
    if origin not in ORIGINS:
        raise Refused(400, f"from={origin!r} is not possible: use one of {', '.join(ORIGINS)}")
    decision = decision_in(body, caller.owner or "", str(origin), request.source)
    record = _find_visible(approvals, caller, approval_id)
    if not caller.may_decide(record):
        logger.info("approval %s: the requester %r must not decide it", approval_id, caller.owner)
        raise Refused(403, "The requester cannot decide an approval: another person has to.")
    return answer_decision(approvals, record, decision, for_requester=caller.is_requester(record))


def answer_decision(
    approvals: Approvals, record: ApprovalRecord, decision: Decision, *, for_requester: bool = False
) -> HttpResponse:
    """Decide an approval. 200 with the record; 409 or 410 with the current record and an `error` if it cannot be
    decided."""
    try:
        return reply(200, approvals.decide(record, decision).to_json(for_requester=for_requester))
    except NotDecided as error:
        current = error.current
        if current.state is not ApprovalState.WAITING:
            status, reason = 409, f"It is {current.state.value} already."
        elif current.expired_at(approvals.store.now_ms()):
            status, reason = 410, "It has expired."
        else:
            status, reason = 409, "digest is not that of the call: read the approval again."
        return reply(status, {**current.to_json(for_requester=for_requester), "error": reason})


def decision_in(body: Mapping[str, Json], by: str, origin: str, source: str | None) -> Decision:
    """Read the decision in the body of a request. Raises `Refused`, which names the field."""
    choice, digest, reason = body.get("decision"), body.get("digest"), body.get("reason")
    if choice not in ("approve", "deny"):
        raise Refused(400, 'decision is neither "approve" nor "deny": set it to one of them')
    if not isinstance(digest, str) or not digest:
        raise Refused(400, "digest must be a text: send that of the approval that you saw")
    if not (reason is None or isinstance(reason, str)):
        raise Refused(400, "reason must be a text")
    if reason is not None and len(reason) > MAX_REASON_CHARS:
        raise Refused(400, f"reason has {len(reason)} characters: shorten it to {MAX_REASON_CHARS}")
    return Decision(choice == "approve", digest, by, origin, source, reason or None)


def body_of(request: HttpRequest) -> Mapping[str, Json]:
    if request.media_problem:
        raise Refused(415, request.media_problem)
    body = json_in(request, MAX_DECISION_BYTES)
    if not isinstance(body, Mapping):
        raise Refused(400, "The body is not a JSON object")
    return body

"""Links that decide one approval without further credentials: `/approve/<token>` (docs/approvals.md, Links).

`GET` shows a page and changes nothing, because mail scanners open links. The page reads the approval from the same
address, and a button posts the decision.
"""

from functools import cache
from pathlib import Path
from typing import Final

from mcp_baton.approvals.api import answer_decision, answer_safely, body_of, decision_in
from mcp_baton.approvals.decisions import Approvals
from mcp_baton.approvals.items import approvals_of
from mcp_baton.approvals.record import ApprovalRecord
from mcp_baton.protocol.http import APPROVAL_LINKS_PATH, HttpRequest, HttpResponse
from mcp_baton.tasks.ids import text_digest
from mcp_baton.transport.exchange import Exchange
from mcp_baton.transport.json_api import Refused, reply
from mcp_baton.transport.page_policy import policy
from mcp_baton.workflow.services import Services

APPROVAL_PAGE: Final = Path(__file__).with_name("approve.html")
LINK_GONE: Final = "This link is not valid: it was used, it has expired, or it does not exist."


def answer(services: Services, request: HttpRequest, exchange: Exchange) -> HttpResponse:
    """Answer a request to a link. The token in it is the only credential."""
    wants_page = request.method in ("GET", "HEAD") and "application/json" not in request.headers.get("accept", "")
    if wants_page:
        html = page()
        return HttpResponse(200, {**_headers(html), "Content-Type": "text/html; charset=utf-8"}, html.encode())
    return answer_safely(services, exchange, lambda approvals: _answer(approvals, request))


def _answer(approvals: Approvals, request: HttpRequest) -> HttpResponse:
    record = _record(approvals, request.path.removeprefix(APPROVAL_LINKS_PATH))
    if request.method == "GET":
        return reply(200, record.to_json())
    if request.method != "POST":
        raise Refused(405, "Method not allowed: use GET, POST")
    return answer_decision(approvals, record, decision_in(body_of(request), "link", "link", request.source))


def _record(approvals: Approvals, token: str) -> ApprovalRecord:
    """Return the approval that a token decides. Unknown, used and expired tokens get the same answer."""
    linked = approvals_of(approvals.store).linked(text_digest(token))
    record = None if linked is None else approvals.current(linked)
    if record is None or not record.waits_at(approvals.store.now_ms()):
        raise Refused(404, LINK_GONE)
    return record


@cache
def page() -> str:
    return APPROVAL_PAGE.read_text(encoding="utf-8")


def _headers(html: str) -> dict[str, str]:
    return {
        "Content-Security-Policy": policy(html),
        "Cache-Control": "no-store",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Cross-Origin-Opener-Policy": "same-origin",
    }

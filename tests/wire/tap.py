"""Intercepts all messages that the server writes, and validates each against the official definitions."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import pytest

from mcp_baton.protocol.envelope import STATELESS_REVISIONS
from mcp_baton.protocol.http import HttpRequest, HttpResponse
from mcp_baton.protocol.json import Json, dumps
from mcp_baton.protocol.jsonrpc import RequestMessage
from mcp_baton.server.endpoint import Endpoint
from mcp_baton.transport import exchange as exchange_module
from mcp_baton.transport.exchange import Exchange
from mcp_baton.workflow.request import Request as McpRequest
from tests.wire import schemas
from tests.wire.message import TASKS_REVISION, JsonDict, ServerMessage

ENOUGH = 5
"""The maximum number of wrong messages that are reported for a test."""

UNREAD = RequestMessage("unread", "", {})
"""Stands for a request that is rejected before it is read."""

_current_request: ContextVar[tuple[RequestMessage, str] | None] = ContextVar("_answered", default=None)


@dataclass(slots=True)
class Tap:
    """The errors that were found since the last `take`."""

    judged: int = 0
    _wrong: list[str] = field(default_factory=list)

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Intercept messages until the patch is undone."""
        serve_exchange, serve_request = Endpoint.__call__, Endpoint.__dict__["_serve"]

        def calling(endpoint: Endpoint, request: HttpRequest, exchange: Exchange) -> HttpResponse | None:
            with answering(UNREAD, STATELESS_REVISIONS[-1]):
                return serve_exchange(endpoint, request, exchange)

        def serving(endpoint: Endpoint, request: McpRequest) -> Any:
            with answering(request.message, request.envelope.revision):
                return serve_request(endpoint, request)

        def writing(message: Mapping[str, Json]) -> str:
            text = dumps(message)
            current_request = _current_request.get()
            # Tests of the writer itself write anything. Only answers to requests must be MCP messages.
            if current_request is not None:
                self.judge(paired(json.loads(text), *current_request))
            return text

        patch.setattr(Endpoint, "__call__", calling)
        patch.setattr(Endpoint, "_serve", serving)
        patch.setattr(exchange_module, "dumps", writing)

    def judge(self, message: ServerMessage) -> None:
        self.judged += 1
        complaints = schemas.complaints(message)
        if complaints and len(self._wrong) < ENOUGH:
            body = json.dumps(message.body, indent=1)[:4000]
            self._wrong.append(f"answer to {message.method}:\n  " + "\n  ".join(complaints) + f"\n{body}")

    def take(self) -> list[str]:
        """Return the errors, and forget them."""
        wrong, self._wrong = self._wrong, []
        return wrong


TAP = Tap()
"""The tap that is active while tests run."""


@contextmanager
def answering(request: RequestMessage, revision: str) -> Iterator[None]:
    """Within this context, messages that this thread writes belong to the request."""
    token = _current_request.set((request, revision))
    try:
        yield
    finally:
        _current_request.reset(token)


def paired(message: JsonDict, request: RequestMessage, revision: str) -> ServerMessage:
    """Pair a message with the request that it belongs to, as a client would."""
    if request is UNREAD:
        return ServerMessage(message, revision, None, {})
    params = json.loads(dumps(request.params))
    if request.method == "initialize" and "result" in message:
        revision = message["result"]["protocolVersion"]
    elif request.method.startswith("tasks/") and revision < TASKS_REVISION:
        # `tasks/*` are answered in every handshake revision, in the shape of the only one that defines them.
        revision = TASKS_REVISION
    return ServerMessage(message, revision, request.method, params)

"""Intercepts all messages that the server writes, and validates each against the official definitions."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import pytest

from mcp_baton.protocol.envelope import STATELESS_REVISIONS
from mcp_baton.protocol.http import Exchange, HttpRequest, HttpResponse
from mcp_baton.protocol.json import Json, dumps
from mcp_baton.protocol.jsonrpc import Request
from mcp_baton.server import reply
from mcp_baton.server.endpoint import Endpoint
from mcp_baton.server.request import Request as McpRequest
from tests.wire import schemas
from tests.wire.message import TASKS_REVISION, JsonDict, Sent

ENOUGH = 5
"""The maximum number of wrong messages that are reported for a test."""

UNREAD = Request("unread", "", {})
"""Stands for a request that is rejected before it is read."""

_answered: ContextVar[tuple[Request, str] | None] = ContextVar("_answered", default=None)


@dataclass(slots=True)
class Tap:
    """The errors that were found since the last `take`.

    Attributes:
        judged: The number of validated messages.
    """

    judged: int = 0
    _wrong: list[str] = field(default_factory=list)

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Intercept messages until the patch is undone."""
        called, serve = Endpoint.__call__, Endpoint.__dict__["_serve"]

        def calling(endpoint: Endpoint, request: HttpRequest, exchange: Exchange) -> HttpResponse | None:
            with answering(UNREAD, STATELESS_REVISIONS[-1]):
                return called(endpoint, request, exchange)

        def serving(endpoint: Endpoint, asked: McpRequest) -> Any:
            with answering(asked.message, asked.envelope.revision):
                return serve(endpoint, asked)

        def writing(message: Mapping[str, Json]) -> str:
            text = dumps(message)
            answered = _answered.get()
            # Tests of the writer itself write anything. Only answers to requests must be MCP messages.
            if answered is not None:
                self.judge(paired(json.loads(text), *answered))
            return text

        patch.setattr(Endpoint, "__call__", calling)
        patch.setattr(Endpoint, "_serve", serving)
        patch.setattr(reply, "dumps", writing)

    def judge(self, sent: Sent) -> None:
        self.judged += 1
        found = schemas.complaints(sent)
        if found and len(self._wrong) < ENOUGH:
            reported = json.dumps(sent.message, indent=1)[:4000]
            self._wrong.append(f"answer to {sent.method}:\n  " + "\n  ".join(found) + f"\n{reported}")

    def take(self) -> list[str]:
        """Return the errors, and forget them."""
        taken, self._wrong = self._wrong, []
        return taken


TAP = Tap()
"""The tap that is active while tests run."""


@contextmanager
def answering(request: Request, revision: str) -> Iterator[None]:
    """Within this context, messages that this thread writes belong to the request."""
    before = _answered.set((request, revision))
    try:
        yield
    finally:
        _answered.reset(before)


def paired(message: JsonDict, request: Request, revision: str) -> Sent:
    """Pair a message with the request that it belongs to, as a client would."""
    if request is UNREAD:
        return Sent(message, revision, None, {})
    params = json.loads(dumps(request.params))
    if request.method == "initialize" and "result" in message:
        revision = message["result"]["protocolVersion"]
    elif request.method.startswith("tasks/") and revision < TASKS_REVISION:
        # `tasks/*` are answered in every handshake revision, in the shape of the only one that defines them.
        revision = TASKS_REVISION
    return Sent(message, revision, request.method, params)

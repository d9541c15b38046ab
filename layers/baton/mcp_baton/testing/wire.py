"""Sends requests to the function as API Gateway does, and reads its answers."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from types import MappingProxyType
from typing import Any, cast, override

from mcp_baton import BatonError, Server
from mcp_baton.local.gateway import proxy_event
from mcp_baton.protocol.envelope import (
    APPS,
    CAPABILITIES,
    CAPABILITIES_KEY,
    RANDOM_BYTES,
    SESSION_HEADER,
    TASKS_EXTENSION,
    VERSION_HEADER,
    session_id,
)
from mcp_baton.protocol.json import Json, JsonObject, dumps
from mcp_baton.testing.answers import Answers, Unanswered
from mcp_baton.testing.function import Clock, Function, Invocation, Invocations
from mcp_baton.testing.mcp_client import ERA_REVISIONS, Era, EventReader, McpClient
from mcp_baton.testing.overrides import Overrides
from mcp_baton.testing.script import Script
from mcp_baton.testing.store import Store
from mcp_baton.testing.workers import Worker
from mcp_baton.transport.exchange import StreamOpener

OWNER_HEADER = "Baton-Testing-Owner"
"""Its value becomes the claim `sub`, which an authorizer would set."""

_QUESTION_CAPABILITIES = [capability for capability in CAPABILITIES if capability != APPS]
_CLIENT_CAPABILITIES: dict[str, Json] = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}
_http_ids = count(1)
OK_STATUS = 200


@dataclass(frozen=True, slots=True)
class Stage:
    """The parts that the clients of one `connect` share.

    `workflow_of_task` has the workflow of each task that a client has started, by task id.
    """

    server: Server
    function: Function
    worker: Worker
    invocations: Invocations
    store: Store
    clock: Clock
    script: Script
    answers: Answers
    workflow_of_task: dict[str, str]
    overrides: Overrides
    sweep: Callable[[], None]
    deploy: Callable[[Server], "Stage"]


@dataclass(frozen=True, slots=True)
class Wire(McpClient):
    """The connection of one client to the function.

    `can_ask` is whether the server may ask on the stream of a request. With `lenient`, questions without an answer stay
    open instead of raising `Unanswered`. `invocations` has those of its requests.
    """

    stage: Stage
    owner: str | None
    era: Era
    claims: Mapping[str, Json]
    answers: Answers
    can_ask: bool = True
    lenient: bool = False
    invocations: list[Invocation] = field(default_factory=list)

    @property
    @override
    def declared(self) -> JsonObject:
        capabilities = _CLIENT_CAPABILITIES if self.answers.can_answer else {}
        return {CAPABILITIES_KEY: {"extensions": {TASKS_EXTENSION: {}}, **capabilities}}

    @override
    def input_schema(self, tool: str) -> JsonObject:
        tools = self.stage.server.tools
        return tools[tool].input_schema if tool in tools else {}

    @override
    def answer(self, question: JsonObject, key: str) -> JsonObject:
        return self.answers.result(question, key)

    @override
    def exchange(self, message: JsonObject, headers: Mapping[str, str], *, is_repeat: bool) -> tuple[JsonObject, int]:
        if self.era == "2025":
            capabilities = _QUESTION_CAPABILITIES if self.answers.can_answer else ()
            headers = {**headers, SESSION_HEADER: session_id(capabilities, bytes(RANDOM_BYTES))}
        messages: list[JsonObject] = []
        unanswered: list[Unanswered | None] = []

        def receive(received: JsonObject) -> None:
            messages.append(received)
            if "method" in received and "id" in received:
                unanswered.append(self.respond(received))

        opener = Stream(receive).open if self.era == "2025" and self.can_ask and self.answers.can_answer else None
        # A tool that asked runs again from its start. A workflow goes on, so what it calls then are new calls.
        params = cast("dict[str, Any]", message["params"])
        is_repeat = is_repeat and message["method"] == "tools/call" and params["name"] in self.stage.server.tools
        response = self._invoke(self.event(message, headers), opener, is_repeat=is_repeat)
        if (first := next(filter(None, unanswered), None)) is not None:
            raise first
        return response_in(messages or messages_in(response)), response.get("statusCode", OK_STATUS)

    def respond(self, question: JsonObject) -> Unanswered | None:
        """Answer a question of the handshake era with a separate request. A question without an answer is answered with
        an error, or stays open if `lenient`."""
        message: dict[str, Json] = {"jsonrpc": "2.0", "id": question["id"]}
        unanswered = None
        try:
            message["result"] = self.answers.result(question)
        except Unanswered as error:
            if self.lenient and not error.wrong:
                self.answers.open[str(question["id"])] = question
                return None
            unanswered = error
            message["error"] = {"code": -1, "message": str(error)}
        self.answers.open.pop(str(question["id"]), None)
        self._invoke(self.event(message, {}))
        return unanswered

    def _invoke(
        self, event: Mapping[str, Any], opener: StreamOpener | None = None, *, is_repeat: bool = False
    ) -> dict[str, Any]:
        response, invocation = self.stage.function.invoke(event, opener, is_repeat=is_repeat)
        self.invocations.append(invocation)
        self.stage.worker.process_due()
        return response

    def http(
        self, method: str, target: str, body: Json = None, headers: Mapping[str, str] = MappingProxyType({})
    ) -> dict[str, Any]:
        """Send a request to the HTTP API beside the MCP endpoint, and return its JSON. Raises `BatonError` if the
        server refuses it."""
        content = b"" if method == "GET" else dumps(body).encode()
        sent_headers = {"Content-Type": "application/json", **headers}
        response = self._invoke(self._request(method, target, sent_headers, content, f"test-{next(_http_ids)}"))
        reply: dict[str, Any] = json.loads(response["body"])
        if response["statusCode"] != OK_STATUS:
            raise BatonError(f"{method} {target}: HTTP {response['statusCode']}: {reply['error']}")
        return reply

    def event(self, message: JsonObject, headers: Mapping[str, str]) -> dict[str, Any]:
        all_headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            VERSION_HEADER: ERA_REVISIONS[self.era],
            **headers,
        }
        return self._request("POST", "/mcp", all_headers, dumps(message).encode(), f"test-{message['id']}")

    def _request(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes, request_id: str
    ) -> dict[str, Any]:
        all_headers = [*headers.items(), *([] if self.owner is None else [(OWNER_HEADER, self.owner)])]
        names: Any = {"request_id": request_id, "owner_header": OWNER_HEADER}
        event = proxy_event(method, target, all_headers, body, at_ms=self.stage.clock.now_ms(), **names)
        if self.claims:
            context = event["requestContext"]
            owner_claims = context.get("authorizer", {}).get("claims", {})
            context["authorizer"] = {"claims": {**self.claims, **owner_claims}}
        return event


class Stream:
    """A streamed answer. `take` gets each message."""

    def __init__(self, take: Callable[[dict[str, Any]], object]) -> None:
        self._take = take
        self._events = EventReader()

    def open(self, _status: int, _headers: Mapping[str, str]) -> "Stream":
        return self

    def write(self, data: bytes) -> None:
        for text in self._events.read(data):
            self._take(json.loads(text))


def messages_in(response: Mapping[str, Any]) -> list[JsonObject]:
    headers, body = response["headers"], response.get("body") or ""
    if headers.get("Content-Type") == "text/event-stream":
        return [json.loads(text) for text in EventReader().read(body.encode())]
    return [json.loads(body)] if body else []


def response_in(messages: list[JsonObject]) -> JsonObject:
    """Return the response among the messages of an answer: it is the last one."""
    return messages[-1] if messages else {}

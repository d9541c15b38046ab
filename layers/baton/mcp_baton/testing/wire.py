"""Sends requests to the function as API Gateway does, and reads its answers."""

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from types import MappingProxyType
from typing import Any, Literal, cast

from mcp_baton import BatonError, Server
from mcp_baton.local.gateway import proxy_event
from mcp_baton.protocol.envelope import (
    APPS,
    CAPABILITIES,
    CAPABILITIES_KEY,
    METHOD_HEADER,
    NAME_HEADER,
    RANDOM_BYTES,
    SESSION_HEADER,
    TASKS_EXTENSION,
    VERSION_HEADER,
    VERSION_KEY,
    session_id,
)
from mcp_baton.protocol.json import Json, JsonObject, dumps
from mcp_baton.testing.answers import Answers, Unanswered
from mcp_baton.testing.function import Function, Invocation
from mcp_baton.tools.param_headers import KEYWORD

type Era = Literal["2025", "2026"]
"""The era of a client: MCP 2025-11-25, with a handshake, or 2026-07-28, without one (docs/http.md, Eras)."""

REVISIONS: Mapping[str, str] = {"2025": "2025-11-25", "2026": "2026-07-28"}
OWNER_HEADER = "Baton-Testing-Owner"
"""Its value becomes the claim `sub`, which an authorizer would set."""

ROUNDS = 50
"""The maximum number of times that a call may ask questions."""

_QUESTION_CAPABILITIES = [capability for capability in CAPABILITIES if capability != APPS]
_CLIENT_CAPABILITIES: dict[str, Json] = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}
_NAME_PARAMS = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_ids = count(1)
OK = 200


class JsonRpcError(BatonError):
    """The server answered a request with an error.

    Attributes:
        code: The JSON-RPC or MCP error code, e.g. `-32602`.
        message: The message of the server.
        data: The error's `data`; `None` for none.
        status: The HTTP status.
    """

    def __init__(self, error: Mapping[str, Any], status: int) -> None:
        self.code: int = error["code"]
        self.message: str = error["message"]
        self.data: Any = error.get("data")
        self.status = status
        super().__init__(f"{self.code}: {self.message}" + ("" if self.data is None else f" {dumps(self.data)}"))


@dataclass(frozen=True, slots=True)
class Wire:
    """The connection of one client to the function.

    `can_ask` is whether the server may ask on the stream of a request. With `lenient`, questions without an answer stay
    open instead of raising `Unanswered`.
    """

    function: Function
    server: Server
    answers: Answers
    owner: str | None
    era: Era
    claims: Mapping[str, Json] = field(default_factory=dict)
    after: Callable[[], None] = lambda: None
    can_ask: bool = True
    lenient: bool = False

    def with_answers(self, answers: Answers | None = None, *, can_ask: bool = True, lenient: bool = False) -> "Wire":
        return replace(self, answers=answers or self.answers, can_ask=can_ask, lenient=lenient)

    def request(self, method: str, params: JsonObject, meta: JsonObject) -> tuple[JsonObject, Invocation]:
        """Send a request and answer the server's questions. Return the result and the invocation."""
        result, invocation = self._send(method, params, meta)
        for _ in range(ROUNDS):
            if result.get("resultType") != "input_required":
                return result, invocation
            questions = cast("Mapping[str, JsonObject]", result["inputRequests"])
            responses = {key: self.answers.result(question, key) for key, question in questions.items()}
            next_params = {**params, "inputResponses": responses, "requestState": result["requestState"]}
            result, invocation = self._send(method, next_params, meta, is_repeat=True)
        raise AssertionError(f"{method}: the server has asked {ROUNDS} times and asks again")

    def _send(
        self, method: str, params: JsonObject, meta: JsonObject, *, is_repeat: bool = False
    ) -> tuple[JsonObject, Invocation]:
        sent_params = {**params, "_meta": {**self._era_meta(), **meta}}
        message: dict[str, Json] = {"jsonrpc": "2.0", "id": next(_ids), "method": method, "params": sent_params}
        messages: list[JsonObject] = []
        unanswered: list[Unanswered | None] = []

        def receive(received: JsonObject) -> None:
            messages.append(received)
            if "method" in received and "id" in received:
                unanswered.append(self.respond(received))

        opener = Stream(receive).open if self.era == "2025" and self.can_ask and self.answers.can_answer else None
        response, invocation = self.function.invoke(
            self.event(message, self._headers(method, sent_params)), opener, is_repeat=is_repeat
        )
        self.after()
        if (first := next(filter(None, unanswered), None)) is not None:
            raise first
        status = response.get("statusCode", 200)
        return result_in(messages or messages_in(response), status), invocation

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
        self.function.invoke(self.event(message, {}), None)
        self.after()
        return unanswered

    def http(
        self, method: str, target: str, body: Json = None, headers: Mapping[str, str] = MappingProxyType({})
    ) -> dict[str, Any]:
        """Send a request to the HTTP API beside the MCP endpoint, and return its JSON. Raises `BatonError` if the
        server refuses it."""
        content = b"" if method == "GET" else dumps(body).encode()
        sent_headers = {"Content-Type": "application/json", **headers}
        event = self._request(method, target, sent_headers, content, f"test-{next(_ids)}")
        response, _ = self.function.invoke(event, None)
        self.after()
        reply: dict[str, Any] = json.loads(response["body"])
        if response["statusCode"] != OK:
            raise BatonError(f"{method} {target}: HTTP {response['statusCode']}: {reply['error']}")
        return reply

    def event(self, message: JsonObject, headers: Mapping[str, str]) -> dict[str, Any]:
        all_headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            VERSION_HEADER: REVISIONS[self.era],
            **headers,
        }
        return self._request("POST", "/mcp", all_headers, dumps(message).encode(), f"test-{message['id']}")

    def _request(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes, request_id: str
    ) -> dict[str, Any]:
        all_headers = [*headers.items(), *([] if self.owner is None else [(OWNER_HEADER, self.owner)])]
        event = proxy_event(
            method,
            target,
            all_headers,
            body,
            request_id=request_id,
            owner_header=OWNER_HEADER,
            at_ms=self.function.now_ms(),
        )
        if self.claims:
            context = event["requestContext"]
            owner_claims = context.get("authorizer", {}).get("claims", {})
            context["authorizer"] = {"claims": {**self.claims, **owner_claims}}
        return event

    def _era_meta(self) -> dict[str, Json]:
        if self.era == "2025":
            return {}
        capabilities = _CLIENT_CAPABILITIES if self.answers.can_answer else {}
        return {VERSION_KEY: REVISIONS["2026"], CAPABILITIES_KEY: {"extensions": {TASKS_EXTENSION: {}}, **capabilities}}

    def _headers(self, method: str, params: JsonObject) -> dict[str, str]:
        """Return the 2026 era's headers, or the 2025 era's session id."""
        if self.era == "2025":
            capabilities = _QUESTION_CAPABILITIES if self.answers.can_answer else ()
            return {SESSION_HEADER: session_id(capabilities, bytes(RANDOM_BYTES))}
        tool = self.server.tools.get(str(params.get("name"))) if method == "tools/call" else None
        from_arguments = parameter_headers(tool.input_schema, params.get("arguments")) if tool else {}
        return standard_headers(method, params) | from_arguments


class EventReader:
    """Reads server-sent events that arrive in pieces (https://html.spec.whatwg.org/multipage/server-sent-events.html)."""

    def __init__(self) -> None:
        self._line: list[bytes] = []
        self._data: list[str] = []

    def read(self, piece: bytes) -> Iterator[str]:
        """Yield the data of each event that ends in this piece."""
        *ends, rest = piece.split(b"\n")
        for end in ends:
            line = b"".join((*self._line, end)).removesuffix(b"\r").decode(errors="replace")
            self._line = []
            if line.startswith("data:"):
                self._data.append(line.removeprefix("data:").removeprefix(" "))
            elif not line and self._data:
                yield "\n".join(self._data)
                self._data = []
        self._line.append(rest)


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


def result_in(messages: list[JsonObject], status: int) -> JsonObject:
    last: Mapping[str, Any] = messages[-1] if messages else {}
    if isinstance(last.get("error"), Mapping):
        raise JsonRpcError(last["error"], status)
    if "result" not in last:
        raise RuntimeError(f"the server answered HTTP {status} without a result: {dumps(messages)}")
    result: JsonObject = last["result"]
    return result


def standard_headers(method: str, params: Mapping[str, Any]) -> dict[str, str]:
    """Return a request's headers (MCP 2026-07-28, basic/transports/streamable-http, Standard Request Headers)."""
    name = params.get(_NAME_PARAMS.get(method, "taskId"))
    return {METHOD_HEADER: method} | ({} if name is None else {NAME_HEADER: _header_value(name)})


def parameter_headers(schema: Mapping[str, Any], arguments: Any) -> dict[str, str]:
    """Return the arguments that are also sent as headers (the same page, Custom Headers from Tool Parameters)."""
    headers: dict[str, str] = {}
    for name, node in schema.get("properties", {}).items():
        value = arguments.get(name) if isinstance(arguments, Mapping) else None
        if value is None or not isinstance(node, Mapping):
            continue
        if KEYWORD in node:
            headers[f"Mcp-Param-{node[KEYWORD]}"] = _header_value(value)
        headers |= parameter_headers(node, value)
    return headers


def _header_value(value: Any) -> str:
    """Return a value for a header, in base64 if it contains characters that a header cannot."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if text.isascii() and text.isprintable() and text == text.strip() and not text.startswith("=?"):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="

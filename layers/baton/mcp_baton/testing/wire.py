"""Sends requests to the function as API Gateway does, and reads its answers."""

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Literal, cast

from mcp_baton import BatonError, Server
from mcp_baton.local.gateway import proxy_event
from mcp_baton.protocol.envelope import (
    APPS,
    CAPABILITIES,
    CAPABILITIES_KEY,
    RANDOM_BYTES,
    SESSION_HEADER,
    TASKS_EXTENSION,
    VERSION_KEY,
    session_id,
)
from mcp_baton.protocol.json import Json, JsonObject, dumps
from mcp_baton.testing.answers import Answers, Unanswered
from mcp_baton.testing.function import Function, Invocation

type Era = Literal["2025", "2026"]
"""The era of a client: MCP 2025-11-25, with a handshake, or 2026-07-28, without one (docs/http.md, Eras)."""

REVISIONS: Mapping[str, str] = {"2025": "2025-11-25", "2026": "2026-07-28"}
OWNER_HEADER = "Baton-Testing-Owner"
"""Its value becomes the claim `sub`, which an authorizer would set."""

ROUNDS = 50
"""The maximum number of times that a call may ask questions."""

_ASKED = [capability for capability in CAPABILITIES if capability != APPS]
_ASKABLE: dict[str, Json] = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}
_NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
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

    `asked` is whether the server may ask on the stream of a request, `lenient` whether questions without an answer stay
    open instead of raising `Unanswered`.
    """

    function: Function
    server: Server
    answers: Answers
    owner: str | None
    era: Era
    claims: Mapping[str, Json] = field(default_factory=dict)
    after: Callable[[], None] = lambda: None
    asked: bool = True
    lenient: bool = False

    def listening(self, answers: Answers | None = None, *, asked: bool = True, lenient: bool = False) -> "Wire":
        return replace(self, answers=answers or self.answers, asked=asked, lenient=lenient)

    def request(self, method: str, params: JsonObject, meta: JsonObject) -> tuple[JsonObject, Invocation]:
        """Send a request and answer the server's questions. Return the result and the invocation."""
        result, invocation = self._once(method, params, meta)
        for _ in range(ROUNDS):
            if result.get("resultType") != "input_required":
                return result, invocation
            asked = cast("Mapping[str, JsonObject]", result["inputRequests"])
            responses = {key: self.answers.result(question, key) for key, question in asked.items()}
            following = {**params, "inputResponses": responses, "requestState": result["requestState"]}
            result, invocation = self._once(method, following, meta, again=True)
        raise AssertionError(f"{method}: the server has asked {ROUNDS} times and asks again")

    def _once(
        self, method: str, params: JsonObject, meta: JsonObject, *, again: bool = False
    ) -> tuple[JsonObject, Invocation]:
        sent = {**params, "_meta": {**self._own_meta(), **meta}}
        message: dict[str, Json] = {"jsonrpc": "2.0", "id": next(_ids), "method": method, "params": sent}
        stream = Stream(self.respond)
        opener = stream.open if self.era == "2025" and self.asked and self.answers.able else None
        response, invocation = self.function.invoke(
            self._event(message, self._headers(method, sent)), opener, again=again
        )
        self.after()
        if stream.unanswered:
            raise stream.unanswered
        status = response.get("statusCode", 200)
        return result_in(stream.messages or messages_in(response), status), invocation

    def respond(self, question: JsonObject) -> Unanswered | None:
        """Answer a question of the handshake era, with a request of its own. One without an answer is refused, or,
        where this is lenient, left open."""
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
        self.function.invoke(self._event(message, {}), None)
        self.after()
        return unanswered

    def http(self, method: str, target: str, body: JsonObject | None = None) -> dict[str, Any]:
        """Send a request to the HTTP API beside the MCP endpoint, and return its JSON. Raises `BatonError` if the
        server refuses it."""
        sent = b"" if body is None else dumps(body).encode()
        event = self._request(method, target, {"Content-Type": "application/json"}, sent, f"test-{next(_ids)}")
        response, _ = self.function.invoke(event, None)
        self.after()
        answer: dict[str, Any] = json.loads(response["body"])
        if response["statusCode"] != OK:
            raise BatonError(f"{method} {target}: HTTP {response['statusCode']}: {answer['error']}")
        return answer

    def _event(self, message: JsonObject, headers: Mapping[str, str]) -> dict[str, Any]:
        sent = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": REVISIONS[self.era],
            **headers,
        }
        return self._request("POST", "/mcp", sent, dumps(message).encode(), f"test-{message['id']}")

    def _request(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes, request_id: str
    ) -> dict[str, Any]:
        sent = [*headers.items(), *([] if self.owner is None else [(OWNER_HEADER, self.owner)])]
        event = proxy_event(method, target, sent, body, request_id=request_id, owner_header=OWNER_HEADER)
        if self.claims:
            context = event["requestContext"]
            found = context.get("authorizer", {}).get("claims", {})
            context["authorizer"] = {"claims": {**self.claims, **found}}
        return event

    def _own_meta(self) -> dict[str, Json]:
        if self.era == "2025":
            return {}
        able = _ASKABLE if self.answers.able else {}
        return {VERSION_KEY: REVISIONS["2026"], CAPABILITIES_KEY: {"extensions": {TASKS_EXTENSION: {}}, **able}}

    def _headers(self, method: str, params: JsonObject) -> dict[str, str]:
        """Return the 2026 era's headers (MCP basic/transports/streamable-http, Standard Request Headers), or the 2025
        era's session id."""
        if self.era == "2025":
            return {SESSION_HEADER: session_id(_ASKED if self.answers.able else (), bytes(RANDOM_BYTES))}
        named = params.get(_NAMED_BY.get(method, "taskId"))
        name = {} if named is None else {"Mcp-Name": header_value(named)}
        return {"Mcp-Method": method, **name, **self._mirrored(method, params)}

    def _mirrored(self, method: str, params: JsonObject) -> dict[str, str]:
        tool = self.server.tools.get(str(params.get("name"))) if method == "tools/call" else None
        found: dict[str, str] = {}
        for path, header in tool.mirrored.items() if tool else ():
            value: Json = params.get("arguments")
            for name in path:
                value = value.get(name) if isinstance(value, Mapping) else None
            if value is not None:
                found[header] = header_value(value)
        return found


class Stream:
    """A streamed answer, and the first of its questions that has no answer."""

    def __init__(self, answer: Callable[[JsonObject], Unanswered | None]) -> None:
        self.messages: list[JsonObject] = []
        self.unanswered: Unanswered | None = None
        self._answer = answer
        self._rest = b""

    def open(self, _status: int, _headers: Mapping[str, str]) -> "Stream":
        return self

    def write(self, data: bytes) -> None:
        *events, self._rest = (self._rest + data).split(b"\n\n")
        for message in (found for event in events for found in in_event(event.decode())):
            self.messages.append(message)
            if "method" in message and "id" in message:
                self.unanswered = self._answer(message) or self.unanswered


def messages_in(response: Mapping[str, Any]) -> list[JsonObject]:
    headers, body = response["headers"], response.get("body") or ""
    if headers.get("Content-Type") == "text/event-stream":
        return [message for event in body.split("\n\n") for message in in_event(event)]
    return [json.loads(body)] if body else []


def in_event(event: str) -> Iterator[JsonObject]:
    data = "\n".join(line.removeprefix("data: ") for line in event.split("\n") if line.startswith("data: "))
    if data:
        yield json.loads(data)


def result_in(messages: list[JsonObject], status: int) -> JsonObject:
    last: Mapping[str, Any] = messages[-1] if messages else {}
    if isinstance(last.get("error"), Mapping):
        raise JsonRpcError(last["error"], status)
    if "result" not in last:
        raise RuntimeError(f"the server answered HTTP {status} without a result: {dumps(messages)}")
    result: JsonObject = last["result"]
    return result


def header_value(value: Json) -> str:
    """Return a value for a header, in base64 if it contains characters that a header cannot."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if text.isascii() and text.isprintable() and not text.startswith("=?"):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="

"""An MCP client: requests in both eras, questions of the server, and lists. The command line and the tests use it, over
HTTP and over a handler in this process."""

import base64
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any, Final, Literal, cast

from mcp_baton.exceptions import BatonError
from mcp_baton.protocol.envelope import METHOD_HEADER, NAME_HEADER, VERSION_HEADER, VERSION_KEY
from mcp_baton.protocol.json import Json, JsonObject, dumps
from mcp_baton.tools.param_headers import PARAM_HEADER_KEYWORD

type Era = Literal["2025", "2026"]
"""The era of a client: MCP 2025-11-25, with a handshake, or 2026-07-28, without one (docs/http.md, Eras)."""

ERA_REVISIONS: Final[Mapping[str, str]] = {"2025": "2025-11-25", "2026": "2026-07-28"}

MAX_ROUNDS: Final = 50
"""The maximum number of times that a request may ask questions."""

MAX_PAGES: Final = 1_000
MAX_ENTRIES: Final = 100_000
_NAME_PARAMS: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_ids = count(1)


class JsonRpcError(BatonError):
    """The server answered a request with an error: its `code` (such as `-32602`), its `message`, its `data` (`None` for
    none) and the HTTP `status`."""

    def __init__(self, error: Mapping[str, Any], status: int) -> None:
        self.code: int = error["code"]
        self.message: str = error["message"]
        self.data: Any = error.get("data")
        self.status = status
        super().__init__(f"{self.code}: {self.message}" + ("" if self.data is None else f" {dumps(self.data)}"))


class EndlessAnswer(BatonError):
    """A list does not end, or a request asks questions again and again."""


class McpClient(ABC):
    """Sends requests to a server, and answers its questions."""

    era: Era

    @property
    @abstractmethod
    def declared(self) -> JsonObject:
        """The members of `_meta` with which a 2026 client introduces itself, beside the revision."""

    @abstractmethod
    def exchange(self, message: JsonObject, headers: Mapping[str, str], *, is_repeat: bool) -> tuple[JsonObject, int]:
        """Send a message, and return the response with its HTTP status. `is_repeat` is whether it only adds answers to
        the message before."""

    @abstractmethod
    def input_schema(self, tool: str) -> Mapping[str, Any]:
        """Return the schema of a tool, which says what is also sent as headers."""

    @abstractmethod
    def answer(self, question: JsonObject, key: str) -> JsonObject:
        """Return the client's result for a question of a request."""

    def result(
        self,
        method: str,
        params: JsonObject | None = None,
        meta: JsonObject | None = None,
        *,
        era: Era | None = None,
    ) -> dict[str, Any]:
        """Send a request, answer the server's questions, and return the result. `meta` is added to the era's. Raises
        `JsonRpcError` if the server answers with an error."""
        sent_params = dict(params or {})
        for number in range(MAX_ROUNDS + 1):
            result = self.send(method, sent_params, meta, era=era, is_repeat=number > 0)
            if result.get("resultType") != "input_required":
                return result
            questions = result.get("inputRequests", {})
            sent_params["inputResponses"] = {key: self.answer(question, key) for key, question in questions.items()}
            if "requestState" in result:
                sent_params["requestState"] = result["requestState"]
        raise EndlessAnswer(f"{method}: the server has asked {MAX_ROUNDS} times and asks again")

    def send(
        self,
        method: str,
        params: JsonObject,
        meta: JsonObject | None = None,
        *,
        era: Era | None = None,
        is_repeat: bool = False,
    ) -> dict[str, Any]:
        """As `result`, but questions are returned and not answered."""
        era, declared = era or self.era, dict[str, Json]()
        headers = {VERSION_HEADER: ERA_REVISIONS[era]}
        if era == "2026":
            declared = {VERSION_KEY: ERA_REVISIONS["2026"], **self.declared}
            headers |= standard_headers(method, params)
            if method == "tools/call":
                headers |= parameter_headers(self.input_schema(str(params["name"])), params.get("arguments"))
        members = {**params, "_meta": {**declared, **(meta or {})}}
        message: JsonObject = {"jsonrpc": "2.0", "id": next(_ids), "method": method, "params": members}
        return result_in(*self.exchange(message, headers, is_repeat=is_repeat))

    def pages(self, method: str, key: str, *, era: Era | None = None, limit: int | None = None) -> list[dict[str, Any]]:
        """Return the entries of a list. After `limit` entries, no further page is requested. Raises `EndlessAnswer` if
        the list does not end."""
        entries: list[dict[str, Any]] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = self.result(method, {} if cursor is None else {"cursor": cursor}, era=era)
            entries += page.get(key, [])
            cursor = page.get("nextCursor")
            if cursor is None or (limit is not None and len(entries) >= limit):
                return entries
            if len(entries) > MAX_ENTRIES:
                break
        read = f"{MAX_PAGES:,} pages or {MAX_ENTRIES:,} entries were read"
        raise EndlessAnswer(f"the list of {method} does not end: {read}")


def all_approvals(page_of: Callable[[dict[str, str]], dict[str, Any]], state: str) -> list[dict[str, Any]]:
    """Return the approvals in a state. `page_of` sends `GET /approvals` with a query, and returns the answer."""
    approvals, query = list[dict[str, Any]](), {"state": state}
    while True:
        page = page_of(query)
        approvals += page["approvals"]
        if "nextCursor" not in page:
            return approvals
        query = {"state": state, "cursor": page["nextCursor"]}


def result_in(response: JsonObject, status: int) -> dict[str, Any]:
    """Return the result in a response. Raises `JsonRpcError` for an error, `TypeError` if it has neither."""
    error = response.get("error")
    if isinstance(error, Mapping) and isinstance(error.get("code"), int):
        raise JsonRpcError(error, status)
    if not isinstance(response.get("result"), Mapping):
        raise TypeError(f"the server answered HTTP {status} without a result: {dumps(response)}")
    return cast("dict[str, Any]", response["result"])


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
        if PARAM_HEADER_KEYWORD in node:
            headers[f"Mcp-Param-{node[PARAM_HEADER_KEYWORD]}"] = _header_value(value)
        headers |= parameter_headers(node, value)
    return headers


def _header_value(value: Any) -> str:
    """Return a value for a header, in base64 if it contains characters that a header cannot."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if text.isascii() and text.isprintable() and text == text.strip() and not text.startswith("=?"):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="

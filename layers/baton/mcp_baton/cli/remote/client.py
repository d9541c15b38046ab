"""A client of a server, for the commands: requests, questions of the server, and progress."""

import base64
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import count
from typing import Any, Final, Literal, Protocol

from mcp_baton.cli.remote.errors import Rejected, Unreachable, faulty
from mcp_baton.cli.remote.printing import short
from mcp_baton.exceptions import BatonError
from mcp_baton.protocol.envelope import (
    CAPABILITIES_KEY,
    CLIENT_INFO_KEY,
    METHOD_HEADER,
    NAME_HEADER,
    TASKS_EXTENSION,
    VERSION_HEADER,
    VERSION_KEY,
)

type Era = Literal["2025", "2026"]

REVISIONS: Final = {"2025": "2025-11-25", "2026": "2026-07-28"}
ROUNDS: Final = 100
"""The maximum number of times that one request may ask questions."""

PAGES: Final = 1_000
ENTRIES: Final = 100_000
"""The maximum number of pages and entries of a list."""

SEARCHED: Final = 1_000
"""The number of newest tasks among which a prefix is looked up."""

_TASK_ID: Final = re.compile(r"[0-9a-z]{37}")
_NAMED_BY: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


class Transport(Protocol):
    """Sends messages to a server."""

    def send(self, message: Mapping[str, Any], headers: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        """Yield the messages of the answer as they arrive."""


class Remote:
    """A server.

    Args:
        transport: Sends messages to it.
        ask: Answers a question of the server: takes the request, returns its result.
        on_progress: Gets the params of each `notifications/progress`.
        sleep: Waits for a number of seconds before a task is polled again.
    """

    def __init__(
        self,
        transport: Transport,
        ask: Callable[[Mapping[str, Any]], dict[str, Any]],
        on_progress: Callable[[Mapping[str, Any]], None],
        sleep: Callable[[float], None],
    ) -> None:
        self._transport = transport
        self._on_progress = on_progress
        self._ids = count(1)
        self.ask = ask
        self.sleep = sleep

    def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        meta: Mapping[str, Any] | None = None,
        *,
        era: Era = "2026",
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Send a request, answer the server's questions, and return the result.

        Args:
            method: E.g. `tools/list`.
            params: Its params, without `_meta`.
            meta: Members of `_meta` in addition to those of the era.
            era: The era of the request. Only 2025 has `tasks/list`.
            headers: Headers in addition to those of the era.

        Raises:
            Rejected: the server answers with an error.
            Unreachable, Denied: the server does not answer or rejects the caller.
        """
        sent = dict(params or {})
        for _ in range(ROUNDS):
            result = self._once(method, sent, meta or {}, era, headers or {})
            if result.get("resultType") != "input_required":
                return result
            sent["inputResponses"] = {key: self.ask(asked) for key, asked in result.get("inputRequests", {}).items()}
            if "requestState" in result:
                sent["requestState"] = result["requestState"]
        raise Rejected(0, f"{method} has asked {ROUNDS} times and asks again")

    def pages(self, method: str, key: str, *, era: Era = "2026", most: int | None = None) -> list[dict[str, Any]]:
        """Return the entries of a list. After `most` entries, no further page is requested."""
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        for _ in range(PAGES):
            page = self.request(method, {} if cursor is None else {"cursor": cursor}, era=era)
            found += page.get(key, [])
            cursor = page.get("nextCursor")
            if cursor is None or (most is not None and len(found) >= most):
                return found
            if len(found) > ENTRIES:
                break
        raise faulty(f"the list of {method} does not end: {PAGES:,} pages or {ENTRIES:,} entries were read")

    def find_task(self, prefix: str) -> str:
        """Return the id of the caller's only task with this prefix.

        Raises:
            TaskIdError: no task or several tasks have it.
        """
        if is_task_id(prefix):
            return prefix
        tasks = self.pages("tasks/list", "tasks", era="2025", most=SEARCHED)
        return only_id(prefix, [str(task["taskId"]) for task in tasks])

    def _once(
        self, method: str, params: Mapping[str, Any], meta: Mapping[str, Any], era: Era, headers: Mapping[str, str]
    ) -> dict[str, Any]:
        sent = {**params, "_meta": {**_own_meta(era), **meta}} if era == "2026" or meta else params
        request = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": sent}
        for message in self._transport.send(request, {**_own_headers(era, method, params), **headers}):
            if message.get("method") == "notifications/progress":
                self._on_progress(message.get("params", {}))
            elif "method" not in message and ("result" in message or "error" in message):
                return _result(message)
        raise Unreachable(f"the answer to {method} is incomplete. If the request has a task, look at the task")


def _result(message: Mapping[str, Any]) -> dict[str, Any]:
    if "error" in message:
        error = message["error"]
        code = error.get("code") if isinstance(error, dict) else None
        if not isinstance(code, int):
            raise faulty(f"the server answered with an error whose code is not a number: {short(error)}")
        raise Rejected(code, str(error.get("message", "")), error.get("data"))
    result: dict[str, Any] = message["result"]
    return result


def _own_meta(era: Era) -> dict[str, Any]:
    if era == "2025":
        return {}
    return {
        VERSION_KEY: REVISIONS["2026"],
        CLIENT_INFO_KEY: {"name": "baton", "version": version("mcp-baton")},
        # Declared even without a terminal, where questions are declined: some servers reject other clients.
        CAPABILITIES_KEY: {"extensions": {TASKS_EXTENSION: {}}, "elicitation": {"form": {}}},
    }


def _own_headers(era: Era, method: str, params: Mapping[str, Any]) -> dict[str, str]:
    """Return the era's headers (MCP 2026-07-28, basic/transports/streamable-http, Standard Request Headers)."""
    made = {VERSION_HEADER: REVISIONS[era]}
    if era == "2025":
        return made
    made[METHOD_HEADER] = method
    named = params.get(_NAMED_BY.get(method, "taskId"))
    return made if named is None else {**made, NAME_HEADER: header_value(named)}


def header_value(value: Any) -> str:
    """Return a value for a header, in base64 if it contains characters that a header cannot."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if text.isascii() and text.isprintable() and text == text.strip() and not text.startswith("=?"):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


class TaskIdError(BatonError):
    """No task or several tasks have the prefix."""


def is_task_id(text: str) -> bool:
    """Whether a text is a whole task id, so that no look-up is needed."""
    return _TASK_ID.fullmatch(text) is not None


def only_id(prefix: str, ids: Sequence[str]) -> str:
    """Return the only id with this prefix.

    Raises:
        TaskIdError: no id or several ids have it.
    """
    found = [each for each in ids if each.startswith(prefix)]
    if not prefix or not found:
        raise TaskIdError(f"no task begins with {prefix!r}: `baton tasks` lists them")
    if len(found) > 1:
        some = ", ".join(found[:5]) + (", …" if len(found) > 5 else "")
        raise TaskIdError(f"{len(found)} tasks begin with {prefix!r}: {some}. Write more of the id")
    return found[0]

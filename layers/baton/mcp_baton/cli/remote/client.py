"""A client of a server, for the commands: requests, their rounds of questions, and what arrives meanwhile."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import count
from typing import Any, Final, Literal, Protocol

from mcp_baton.cli.remote.ending import Rejected, Unreachable, faulty
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
type Ask = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Answers one question of the server: the request's `method` and `params` in, its result out."""

REVISIONS: Final = {"2025": "2025-11-25", "2026": "2026-07-28"}
ROUNDS: Final = 100
"""So many times one request may ask; one that asks more often never ends."""

PAGES: Final = 1_000
ENTRIES: Final = 100_000
"""So many pages and entries a list may have."""

_NAMED_BY: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


class Transport(Protocol):
    """The way to a server."""

    def send(self, message: Mapping[str, Any], headers: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        """The messages of the answer, as they arrive."""

    def close(self) -> None:
        """Let go of it."""


class Remote:
    """A server, wherever it runs.

    Args:
        transport: The way to it.
        ask: Answers its questions.
        told: Is given the params of each `notifications/progress`, as it arrives.
        sleep: Lets so many seconds pass, between two looks at a task.
    """

    def __init__(
        self, transport: Transport, ask: Ask, told: Callable[[Mapping[str, Any]], None], sleep: Callable[[float], None]
    ) -> None:
        self._transport = transport
        self._told = told
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
        """A request's result, once its questions are answered.

        Args:
            method: E.g. `tools/list`.
            params: Its params, without `_meta`.
            meta: What `_meta` holds beside what the era wants there.
            era: The era to ask in. `tasks/list` is of 2025 alone.
            headers: What is sent beside the era's own headers.

        Raises:
            Rejected: the server answers with an error.
            Unreachable, Denied: there is no answer, or it lets nobody in.
        """
        given, asked = dict(params or {}), dict(meta or {})
        for _ in range(ROUNDS):
            result = self._once(method, given, asked, era, headers or {})
            if result.get("resultType") != "input_required":
                return result
            responses = {key: self.ask(question) for key, question in result.get("inputRequests", {}).items()}
            given |= {"inputResponses": responses}
            if "requestState" in result:
                given["requestState"] = result["requestState"]
        raise Rejected(0, f"{method} has asked {ROUNDS} times, and asks again")

    def pages(self, method: str, key: str, *, era: Era = "2026", most: int | None = None) -> list[dict[str, Any]]:
        """What a list holds, page by page; from `most` entries on no further page is asked for."""
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
        raise faulty(f"the list of {method} has no end: {PAGES:,} pages or {ENTRIES:,} entries were read")

    def _once(
        self, method: str, params: Mapping[str, Any], meta: Mapping[str, Any], era: Era, headers: Mapping[str, str]
    ) -> dict[str, Any]:
        number = next(self._ids)
        sent = {**params, "_meta": {**_own_meta(era), **meta}} if era == "2026" or meta else params
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": sent}
        for told in self._transport.send(message, {**_own_headers(era, method, params), **headers}):
            if told.get("method") == "notifications/progress":
                self._told(told.get("params", {}))
            elif "method" not in told and ("result" in told or "error" in told):
                return _result(told)
        raise Unreachable(f"the answer to {method} ended before it was whole: look at the task, if there is one")


def _result(told: Mapping[str, Any]) -> dict[str, Any]:
    if "error" in told:
        error = told["error"]
        code = error.get("code") if isinstance(error, dict) else None
        if not isinstance(code, int):
            raise faulty(f"the server answered with an error whose code is not a number: {short(error)}")
        raise Rejected(code, str(error.get("message", "")), error.get("data"))
    result: dict[str, Any] = told["result"]
    return result


def _own_meta(era: Era) -> dict[str, Any]:
    if era == "2025":
        return {}
    return {
        VERSION_KEY: REVISIONS["2026"],
        CLIENT_INFO_KEY: {"name": "baton", "version": version("mcp-baton")},
        # Without a terminal questions are declined: a client that cannot be asked would be refused as a whole.
        CAPABILITIES_KEY: {"extensions": {TASKS_EXTENSION: {}}, "elicitation": {"form": {}}},
    }


def _own_headers(era: Era, method: str, params: Mapping[str, Any]) -> dict[str, str]:
    """What the era repeats in headers (MCP 2026-07-28, basic/transports/streamable-http, Standard Request Headers)."""
    made = {VERSION_HEADER: REVISIONS[era]}
    if era == "2025":
        return made
    made[METHOD_HEADER] = method
    named = params.get(_NAMED_BY.get(method, "taskId"))
    return made if named is None else {**made, NAME_HEADER: header_value(named)}


def header_value(value: Any) -> str:
    """A value as it stands in a header: in base64 where it could not travel as it is."""
    import base64

    text = str(value).lower() if isinstance(value, bool) else str(value)
    if text.isascii() and text.isprintable() and text == text.strip() and not text.startswith("=?"):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


MOST: Final = 1_000
"""So many of the newest tasks are looked through for a beginning."""

WHOLE: Final = re.compile(r"[0-9a-z]{37}")


class TaskIdError(BatonError):
    """No task, or more than one, begins so."""


def is_whole(task_id: str) -> bool:
    """Whether it is as long as an id: then nothing is looked up."""
    return WHOLE.fullmatch(task_id) is not None


def find(remote: Remote, beginning: str) -> str:
    """The id of the one task of the caller's that begins so.

    Raises:
        TaskIdError: there is none, or more than one.
    """
    if is_whole(beginning):
        return beginning
    tasks = remote.pages("tasks/list", "tasks", era="2025", most=MOST)
    return chosen(beginning, [str(task["taskId"]) for task in tasks])


def chosen(beginning: str, ids: Sequence[str]) -> str:
    """The one id that begins so.

    Raises:
        TaskIdError: there is none, or more than one.
    """
    found = [each for each in ids if each.startswith(beginning)]
    if not beginning or not found:
        raise TaskIdError(f"no task begins with {beginning!r}: `baton tasks` lists them")
    if len(found) > 1:
        some = ", ".join(found[:5]) + (", …" if len(found) > 5 else "")
        raise TaskIdError(f"{len(found)} tasks begin with {beginning!r}: {some}. Write more of the id")
    return found[0]

"""What requests of a client under test have in common: how they name a task, and lists of many pages."""

from collections.abc import Callable
from typing import Any, cast

from mcp_baton.protocol.envelope import TASK_ID_KEY
from mcp_baton.protocol.json import Json, JsonObject


def pages(request: Callable[[str, JsonObject], JsonObject], method: str, key: str) -> list[dict[str, Any]]:
    """All that a list holds, page by page."""
    found: list[dict[str, Any]] = []
    params: JsonObject | None = {}
    while params is not None:
        page = request(method, params)
        found += cast("list[dict[str, Any]]", page[key])
        params = {"cursor": page["nextCursor"]} if "nextCursor" in page else None
    return found


def naming(task: str | None) -> JsonObject:
    """The `_meta` that names a task, if one is to be named."""
    return {} if task is None else {TASK_ID_KEY: task}


def without(members: JsonObject, *names: str) -> dict[str, Json]:
    """An object without these members."""
    return {name: value for name, value in members.items() if name not in names}

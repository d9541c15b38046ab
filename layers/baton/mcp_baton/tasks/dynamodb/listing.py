"""Lists an owner's tasks, newest first (ARCHITECTURE.md, Requests).

Cursors are opaque to clients, and useless for the tasks of another owner (docs/http.md).
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Any

from mcp_baton.tasks.dynamodb.attributes import Item
from mcp_baton.tasks.dynamodb.items import (
    AFTER_ALL_KEYS,
    RUN,
    TASK_PREFIX,
    WAITS_FOR,
    Limits,
    in_partition,
    partition,
    task_id_of,
    to_record,
)
from mcp_baton.tasks.dynamodb.table import TaskTable
from mcp_baton.tasks.ids import is_task_id
from mcp_baton.tasks.record import LIVE, PAUSE_REASONS, PROGRESS, TaskPage

LISTED = (
    "sk",
    "status",
    "created_at",
    "updated_at",
    "ttl_ms",
    "version",
    "workflow",
    "definition",
    "status_message",
    "tool",
    "due",
    "dispatches",
    WAITS_FOR,
    RUN,
)

LISTED_VARIABLES = (PROGRESS, PAUSE_REASONS)

MAX_QUERIES_PER_PAGE = 4
"""The most queries for a page. More than one is needed if many tasks have expired."""


def page_of(table: TaskTable, owner: str, cursor: str | None, now_ms: int, limits: Limits) -> TaskPage:
    """A page of an owner's tasks, newest first, without expired ones. Raises `ValueError` if the cursor does not come
    from a list."""
    last_id = None if cursor is None else from_cursor(cursor)
    items: list[Item] = []
    for _ in range(MAX_QUERIES_PER_PAGE):
        page = table.query(_query(owner, now_ms, limits.page_size, last_id))
        items += page["Items"]
        last_key = page.get("LastEvaluatedKey")
        last_id = None if last_key is None else task_id_of(last_key)
        if last_id is None or len(items) >= limits.page_size:
            break
    if len(items) > limits.page_size:
        items = items[: limits.page_size]
        last_id = task_id_of(items[-1])
    tasks = tuple(to_record(owner, item) for item in items)
    return TaskPage(tasks, cursor=None if last_id is None else to_cursor(last_id))


def _query(owner: str, now_ms: int, limit: int, last_id: str | None) -> dict[str, Any]:
    projection, names = _projection(LISTED)
    last = AFTER_ALL_KEYS if last_id is None else text_before(last_id)
    return {
        **in_partition(partition(owner), TASK_PREFIX, TASK_PREFIX + last, now=now_ms // 1000),
        "FilterExpression": "#e>:now",
        "ExpressionAttributeNames": {"#e": "expires_at", **names},
        "ProjectionExpression": projection,
        "ScanIndexForward": False,
        "Limit": limit,
    }


def live_tasks(now_ms: int) -> dict[str, Any]:
    """The filter and the projection of a scan for the tasks of all owners that have not ended: what a list reads, and
    the arguments."""
    projection, names = _projection((*LISTED, "pk", "arguments"))
    statuses = {f":{status.value}": {"S": status.value} for status in sorted(LIVE)}
    return {
        "FilterExpression": f"begins_with(sk,:task) AND #s IN ({','.join(statuses)}) AND #e>:now",
        "ProjectionExpression": projection,
        "ExpressionAttributeNames": {"#s": "status", "#e": "expires_at", **names},
        "ExpressionAttributeValues": {":task": {"S": TASK_PREFIX}, ":now": {"N": str(now_ms // 1000)}, **statuses},
    }


def _projection(attributes: Sequence[str]) -> tuple[str, dict[str, str]]:
    """The expression that reads these attributes and the variables of a list, and the names in it."""
    names = {f"#{number}": name for number, name in enumerate(attributes)}
    variables = {f"#v{number}": name for number, name in enumerate(LISTED_VARIABLES)}
    return ",".join([*names, *(f"#v.{name}" for name in variables)]), {"#v": "variables", **names, **variables}


def text_before(task_id: str) -> str:
    """A text that sorts immediately before this id, among texts of its length."""
    return task_id[:-1] + chr(ord(task_id[-1]) - 1)


def to_cursor(task_id: str) -> str:
    return urlsafe_b64encode(task_id.encode()).decode().rstrip("=")


def from_cursor(cursor: str) -> str:
    """The task in a cursor. It contains no owner: for another owner it is a position in that owner's list."""
    try:
        task_id = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
    except ValueError as error:
        raise ValueError("not a cursor of this list") from error
    if not is_task_id(task_id) or to_cursor(task_id) != cursor:
        raise ValueError("not a cursor of this list")
    return task_id

"""Lists an owner's tasks, newest first, over all shards (docs/storage.md, Shards).

Cursors are opaque to clients, and useless for the tasks of another owner (docs/http.md).
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from msgspec import Struct, field

from mcp_baton.tasks.dynamodb.attributes import Item
from mcp_baton.tasks.dynamodb.items import RUN, TASK_PREFIX, Limits, partition, shard_names, task_id_of, to_record
from mcp_baton.tasks.dynamodb.parallel import results_of
from mcp_baton.tasks.dynamodb.table import TaskTable
from mcp_baton.tasks.ids import is_task_id
from mcp_baton.tasks.record import LIVE, PAUSE_REASON, PROGRESS, TaskPage

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
    RUN,
)

LISTED_VARIABLES = (PROGRESS, PAUSE_REASON)

LAST = "~"

SMALLEST_READ = 8
"""The fewest tasks that are read of a shard at a time."""

MOST_QUERIES_PER_SHARD = 4
"""The most queries of one shard for a page. More than one is needed if many of its tasks have expired."""


class Page(Struct, frozen=True):
    """Items of tasks, newest first, and the last task id that was read; `None` at the end of the list."""

    items: Sequence[Item]
    end: str | None


type Reader = Callable[[str, str | None], Page]
"""Makes one `Query` of a shard, after a task id."""


class _Shard(Struct):
    """The progress of reading one shard: the last task id that was read, whether there are more, and the number of
    queries."""

    name: str
    last_id: str | None
    has_more: bool = True
    reads: int = 0
    items: list[Item] = field(default_factory=list)


def page_of(table: TaskTable, owner: str, cursor: str | None, now_ms: int, limits: Limits) -> TaskPage:
    """A page of an owner's tasks, newest first, without expired ones. Raises `ValueError` if the cursor does not come
    from a list."""
    last_id = None if cursor is None else from_cursor(cursor)
    shards = shard_names(limits.shards)
    # The newest tasks are spread evenly over the shards, so it is enough to read a part of the page from each.
    limit = limits.page_size if len(shards) == 1 else max(limits.page_size * 2 // len(shards), SMALLEST_READ)

    def read_page(shard: str, last_id: str | None) -> Page:
        page = table.query(_query(owner, shard, now_ms, limit, last_id))
        last_key = page.get("LastEvaluatedKey")
        return Page(page["Items"], None if last_key is None else task_id_of(last_key))

    page = merged_page(shards, last_id, limits.page_size, read_page)
    tasks = tuple(to_record(owner, item) for item in page.items)
    return TaskPage(tasks, cursor=None if page.end is None else to_cursor(page.end))


def _query(owner: str, shard: str, now_ms: int, limit: int, last_id: str | None) -> dict[str, Any]:
    projection, names = _projection(LISTED)
    return {
        "ConsistentRead": True,
        "KeyConditionExpression": "pk=:owner AND sk BETWEEN :first AND :last",
        "FilterExpression": "#e>:now",
        "ExpressionAttributeNames": {"#e": "expires_at", **names},
        "ExpressionAttributeValues": {
            ":owner": partition(owner, shard),
            ":first": {"S": TASK_PREFIX},
            ":last": {"S": TASK_PREFIX + (LAST if last_id is None else text_before(last_id))},
            ":now": {"N": str(now_ms // 1000)},
        },
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


def merged_page(shards: Sequence[str], last_id: str | None, page_size: int, read_page: Reader) -> Page:
    """One page over all shards, newest first.

    Each shard that has more was read down to some task id. Below the highest of these ids, tasks may be missing. So the
    page ends there. If it is not full yet, the shards that may have missing tasks are read further, four at once.
    """
    parts = [_Shard(name, last_id) for name in shards]
    pending = parts
    while True:
        results_of([partial(_read_more, part, read_page) for part in pending])
        unfinished = [part for part in parts if part.has_more]
        behind = max(unfinished, key=_read_to, default=None)
        ids = sorted((task_id_of(item) for part in parts for item in part.items), reverse=True)
        lowest_id = ids[page_size - 1] if len(ids) >= page_size else ""
        items = [
            item for part in parts for item in part.items if behind is None or task_id_of(item) >= _read_to(behind)
        ]
        if behind is None or len(items) >= page_size or behind.reads >= MOST_QUERIES_PER_SHARD:
            break
        # The next tasks of these shards may belong on the page.
        pending = [part for part in unfinished if _read_to(part) > lowest_id and part.reads < MOST_QUERIES_PER_SHARD]
    items.sort(key=task_id_of, reverse=True)
    if len(items) > page_size:
        return Page(items[:page_size], task_id_of(items[page_size - 1]))
    return Page(items, None if behind is None else behind.last_id)


def _read_to(part: _Shard) -> str:
    return part.last_id or ""


def _read_more(part: _Shard, read_page: Reader) -> None:
    page = read_page(part.name, part.last_id)
    part.items.extend(page.items)
    part.reads += 1
    part.has_more = page.end is not None
    part.last_id = page.end


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

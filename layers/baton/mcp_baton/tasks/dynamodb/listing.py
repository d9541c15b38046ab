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
    after: str | None
    more: bool = True
    reads: int = 0
    items: list[Item] = field(default_factory=list)


def page_of(table: TaskTable, owner: str, cursor: str | None, now_ms: int, limits: Limits) -> TaskPage:
    """A page of an owner's tasks, newest first, without expired ones. Raises `ValueError` if the cursor does not come
    from a list."""
    after = None if cursor is None else from_cursor(cursor)
    shards = shard_names(limits.shards)
    # The newest tasks are spread evenly over the shards, so it is enough to read a part of the page from each.
    most = limits.page_size if len(shards) == 1 else max(limits.page_size * 2 // len(shards), SMALLEST_READ)

    def read(shard: str, after: str | None) -> Page:
        page = table.query(_query(owner, shard, now_ms, most, after))
        last = page.get("LastEvaluatedKey")
        return Page(page["Items"], None if last is None else task_id_of(last))

    page = merged_page(shards, after, limits.page_size, read)
    tasks = tuple(to_record(owner, item) for item in page.items)
    return TaskPage(tasks, cursor=None if page.end is None else to_cursor(page.end))


def _query(owner: str, shard: str, now_ms: int, most: int, after: str | None) -> dict[str, Any]:
    projection, names = _projection(LISTED)
    return {
        "ConsistentRead": True,
        "KeyConditionExpression": "pk=:owner AND sk BETWEEN :first AND :last",
        "FilterExpression": "#e>:now",
        "ExpressionAttributeNames": {"#e": "expires_at", **names},
        "ExpressionAttributeValues": {
            ":owner": partition(owner, shard),
            ":first": {"S": TASK_PREFIX},
            ":last": {"S": TASK_PREFIX + (LAST if after is None else text_before(after))},
            ":now": {"N": str(now_ms // 1000)},
        },
        "ProjectionExpression": projection,
        "ScanIndexForward": False,
        "Limit": most,
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
    names = {f"#{place}": name for place, name in enumerate(attributes)}
    variables = {f"#v{place}": name for place, name in enumerate(LISTED_VARIABLES)}
    return ",".join([*names, *(f"#v.{name}" for name in variables)]), {"#v": "variables", **names, **variables}


def text_before(task_id: str) -> str:
    """A text that sorts immediately before this id, among texts of its length."""
    return task_id[:-1] + chr(ord(task_id[-1]) - 1)


def merged_page(shards: Sequence[str], after: str | None, wanted: int, read: Reader) -> Page:
    """One page over all shards, newest first.

    Each shard that has more was read down to some task id. Below the highest of these ids, tasks may be missing. So the
    page ends there. If it is not full yet, the shards that may have missing tasks are read further, four at once.
    """
    parts = [_Shard(name, after) for name in shards]
    late = parts
    while True:
        results_of([partial(_read_on, part, read) for part in late])
        behind = max((part for part in parts if part.more), key=_read_to, default=None)
        ids = sorted((task_id_of(item) for part in parts for item in part.items), reverse=True)
        last = ids[wanted - 1] if len(ids) >= wanted else ""
        known = [
            item for part in parts for item in part.items if behind is None or task_id_of(item) >= _read_to(behind)
        ]
        if behind is None or len(known) >= wanted or behind.reads >= MOST_QUERIES_PER_SHARD:
            break
        # The next tasks of these shards may belong on the page.
        late = [part for part in parts if part.more and _read_to(part) > last and part.reads < MOST_QUERIES_PER_SHARD]
    known.sort(key=task_id_of, reverse=True)
    if len(known) > wanted:
        return Page(known[:wanted], task_id_of(known[wanted - 1]))
    return Page(known, None if behind is None else behind.after)


def _read_to(part: _Shard) -> str:
    return part.after or ""


def _read_on(part: _Shard, read: Reader) -> None:
    found = read(part.name, part.after)
    part.items.extend(found.items)
    part.reads += 1
    part.more = found.end is not None
    part.after = found.end


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

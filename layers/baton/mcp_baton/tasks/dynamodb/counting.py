"""Counts the live tasks of an owner if their number is limited, in one item (docs/storage.md, Limits).

Tasks are counted by the time when they expire, in one number for each span of time. So tasks that expire without an end
leave the count by themselves. A creation or an end costs the same for any number of tasks and any rate.

The count is approximate. The items keep no tokens of writes, because they would grow with the rate of tasks. So a write
whose response was lost may be counted twice, or not at all, until the tasks of its span have expired.
"""

import logging
from collections.abc import Mapping

from mcp_baton.exceptions import OutcomeUnknown, StoreError, StoreUnavailable, TooManyTasks
from mcp_baton.tasks.dynamodb.attributes import Item, primary_key
from mcp_baton.tasks.dynamodb.expressions import Update
from mcp_baton.tasks.dynamodb.items import Limits, number, partition
from mcp_baton.tasks.dynamodb.retries import CREATE, RENEW, ConditionFailed, ItemTooLarge
from mcp_baton.tasks.dynamodb.table import TaskTable

logger = logging.getLogger(__name__)

COUNT_KEY = "COUNT"
MIN_SPAN_S = 64
SPANS_PER_LIFETIME = 8
"""The fewest spans in a lifetime. So an expired task stays counted for at most an eighth of its lifetime."""

MAX_COUNTS_REMOVED = 100
"""The most attributes that one write removes. Keeps its expression short."""

_SPAN = "u"
_OTHER_ATTRIBUTES = frozenset({"pk", "sk", "expires_at"})


class LiveTasks:
    """Counts the live tasks of each owner, who may have `allowed`."""

    def __init__(self, table: TaskTable, limits: Limits, allowed: int) -> None:
        self._table = table
        self._limits = limits
        self._allowed = allowed

    def enter(self, owner: str, item: Item) -> None:
        """Count a task that is about to be created: one `GetItem` and one `UpdateItem`. Raises `TooManyTasks`."""
        now_s = self._table.clock_ms() // 1000
        count = self._table.get(count_key(owner), CREATE) or {}
        live_count = sum(tasks for end, tasks in _spans(count).values() if end > now_s)
        if live_count >= self._allowed:
            raise TooManyTasks(f"the owner has {self._allowed} live tasks, which is as many as are allowed")
        expires_s = now_s + self._limits.max_ttl_ms // 500
        if "expires_at" in count:
            # Tasks that were created under a longer maximum lifetime are still counted.
            expires_s = max(expires_s, number(count, "expires_at"))
        update = Update(self._table.clock_ms())
        update.add(span_of(item), 1)
        update.set("expires_at", expires_s)
        live_spans = {name for name, (end, _) in _spans(count).items() if end > now_s} | {span_of(item)}
        update.remove(*sorted(count.keys() - _OTHER_ATTRIBUTES - live_spans)[:MAX_COUNTS_REMOVED])
        try:
            self._table.update(count_key(owner), update, CREATE, complete=False)
        except OutcomeUnknown as error:
            # Only the count may have been written. The task does not exist.
            raise StoreUnavailable(str(error)) from error

    def leave(self, owner: str, task_id: str, item: Item) -> None:
        """Stop counting a task that has ended, in the span of its item: one `UpdateItem`, sent once.

        If it fails, the task stays counted until it expires.
        """
        update = Update(self._table.clock_ms())
        update.require(span_of(item), ">", 0)
        self._add(owner, task_id, update, item, -1)

    def has_same_span(self, old_item: Item, new_item: Item) -> bool:
        return span_of(old_item) == span_of(new_item)

    def prolong(self, owner: str, task_id: str, item: Item) -> None:
        """Count a task in the span of its later end, too: one `UpdateItem`, sent once.

        Nothing is counted if the owner has no `COUNT` item, for example because the limit was set after the task was
        created. The update would create one without `expires_at`, which DynamoDB never deletes.
        """
        update = Update(self._table.clock_ms())
        update.require_exists("expires_at")
        self._add(owner, task_id, update, item, 1)

    def _add(self, owner: str, task_id: str, update: Update, item: Item, tasks: int) -> None:
        update.add(span_of(item), tasks)
        try:
            self._table.update(count_key(owner), update, RENEW, complete=False)
        except (StoreError, ConditionFailed, ItemTooLarge):
            logger.warning("task %s: the owner's live tasks are miscounted until it expires", task_id, exc_info=True)


def span_of(item: Item) -> str:
    """The attribute that counts a task. Its name contains the end of the span, epoch seconds.

    The length of a span depends on the lifetime of the task, not on the maximum, which may change while tasks live.
    """
    length_s = MIN_SPAN_S
    while length_s * 2 * SPANS_PER_LIFETIME * 1000 <= number(item, "ttl_ms"):
        length_s *= 2
    return f"{_SPAN}{-(-number(item, 'expires_at') // length_s) * length_s:x}"


def count_key(owner: str) -> Item:
    return primary_key(partition(owner), COUNT_KEY)


def _spans(item: Item) -> Mapping[str, tuple[int, int]]:
    """For each span, by attribute name: its end (epoch seconds) and how many tasks expire in it."""
    spans = [name for name in item if name.startswith(_SPAN) and "N" in item[name]]
    return {name: (int(name.removeprefix(_SPAN), 16), number(item, name)) for name in spans}

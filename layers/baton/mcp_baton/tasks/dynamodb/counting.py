"""How many live tasks an owner has, where that is limited: counted in one small item a shard (docs/storage.md, Limits).

Tasks are counted by when they expire, in a number for each span of time, so that those which nobody ends leave the
count by themselves. What a creation or an end costs does not depend on how many tasks there are.
"""

import logging
from collections.abc import Callable, Mapping

from mcp_baton.exceptions import OutcomeUnknown, StoreError, StoreUnavailable, TooManyTasks
from mcp_baton.tasks.dynamodb.attributes import Item
from mcp_baton.tasks.dynamodb.expressions import Update
from mcp_baton.tasks.dynamodb.failures import ItemTooLarge
from mcp_baton.tasks.dynamodb.items import Limits, number, partition, shard_names
from mcp_baton.tasks.dynamodb.patience import CREATE, RENEW
from mcp_baton.tasks.dynamodb.table import ConditionFailed, TaskTable
from mcp_baton.tasks.ids import new_token, shard_of

logger = logging.getLogger(__name__)

COUNT_KEY = "COUNT"
SPANS = 96
"""Spans in the longest lifetime: a task that expires is counted for at most one of them more."""

_SPAN = "until "


class LiveTasks:
    """Counts the live tasks of each owner.

    Args:
        table: The table.
        limits: How long a task may live, and how many shards there are.
        allowed: How many live tasks an owner may have.
        now_ms: The clock, epoch milliseconds.
    """

    def __init__(self, table: TaskTable, limits: Limits, allowed: int, now_ms: Callable[[], int]) -> None:
        self._table = table
        self._limits = limits
        self._allowed = allowed
        self._now_ms = now_ms

    def enter(self, owner: str, task_id: str, item: Item) -> None:
        """Count a task that is about to be created: one `GetItem` a shard and one `UpdateItem`.

        Raises:
            TooManyTasks: the owner already has as many as may be.
        """
        own, now_s, live, stale = shard_of(task_id), self._now_ms() // 1000, 0, list[str]()
        for shard in shard_names(self._limits.shards):
            spans = _spans(self._table.get(count_key(owner, shard), CREATE))
            live += sum(count for end, count in spans.values() if end > now_s)
            if shard == own:
                stale = [name for name, (end, _) in spans.items() if end <= now_s]
        if live >= self._allowed:
            raise TooManyTasks(f"the owner has {self._allowed} live tasks, which is as many as are allowed")
        update = Update(new_token(), self._now_ms())
        update.add(update.name(self._span(item)), update.value({"N": "1"}))
        update.set(update.name("expires_at"), update.value({"N": str(now_s + self._limits.max_ttl_ms // 500)}))
        for name in stale[:SPANS]:
            update.remove(update.name(name))
        try:
            self._table.update(count_key(owner, own), update, CREATE, whole=False)
        except OutcomeUnknown as error:
            # What may have been written is the count alone: it is known that there is no task.
            raise StoreUnavailable(str(error)) from error

    def leave(self, owner: str, task_id: str, item: Item) -> None:
        """Count a task no more that has ended: one `UpdateItem`. One that fails leaves it counted until it expires."""
        update = Update(new_token(), self._now_ms())
        span = update.name(self._span(item))
        update.require(f"{span}>{update.value({'N': '0'})}")
        update.add(span, update.value({"N": "-1"}))
        try:
            self._table.update(count_key(owner, shard_of(task_id)), update, RENEW, whole=False)
        except (StoreError, ConditionFailed, ItemTooLarge):
            logger.warning("task %s: it has ended, and is counted as live until it expires", task_id, exc_info=True)

    def move(self, owner: str, task_id: str, before: Item, after: Item) -> None:
        """Count a task by its new end, whose life was made longer: one `UpdateItem`, or none within a span of time.
        One that fails leaves it counted until its old end."""
        old, new = self._span(before), self._span(after)
        if old == new:
            return
        update = Update(new_token(), self._now_ms())
        update.require(f"{update.name(old)}>{update.value({'N': '0'})}")
        update.add(update.name(old), update.value({"N": "-1"}))
        update.add(update.name(new), update.value({"N": "1"}))
        try:
            self._table.update(count_key(owner, shard_of(task_id)), update, RENEW, whole=False)
        except (StoreError, ConditionFailed, ItemTooLarge):
            logger.warning(
                "task %s: it lives longer, and is counted as live until it was to expire", task_id, exc_info=True
            )

    def _span(self, item: Item) -> str:
        length_s = max(self._limits.max_ttl_ms // 1000 // SPANS, 1)
        return f"{_SPAN}{-(-number(item, 'expires_at') // length_s) * length_s}"


def count_key(owner: str, shard: str) -> Item:
    """The primary key of the count of a shard."""
    return {"pk": partition(owner, shard), "sk": {"S": COUNT_KEY}}


def _spans(item: Item | None) -> Mapping[str, tuple[int, int]]:
    """By name, when each span of time ends, epoch seconds, and how many tasks expire in it."""
    if item is None:
        return {}
    spans = [name for name in item if name.startswith(_SPAN)]
    return {name: (int(name.removeprefix(_SPAN)), number(item, name)) for name in spans}

"""How many live tasks an owner has, if that is limited: counted in one small item a shard (docs/storage.md, Limits).

Tasks are counted by the time when they expire, in a number for each span of time. Tasks that nothing ends leave the
count by themselves. A creation or an end costs the same however many tasks there are and however fast they come.

The count is approximate. It keeps no tokens of writes, since those would make the item grow with the rate of tasks: a
write whose answer was lost may be counted twice, or not at all, until the tasks of its span have expired.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial

from mcp_baton.exceptions import OutcomeUnknown, StoreError, StoreUnavailable, TooManyTasks
from mcp_baton.tasks.dynamodb.attributes import Item
from mcp_baton.tasks.dynamodb.expressions import Update, base36
from mcp_baton.tasks.dynamodb.items import Limits, number, partition, shard_names
from mcp_baton.tasks.dynamodb.parallel import all_of
from mcp_baton.tasks.dynamodb.retry_policy import CREATE, RENEW
from mcp_baton.tasks.dynamodb.table import ConditionFailed, ItemTooLarge, TaskTable
from mcp_baton.tasks.ids import shard_of

logger = logging.getLogger(__name__)

COUNT_KEY = "COUNT"
SHORTEST_SPAN_S = 64
SPANS = 8
"""Spans in a task's lifetime, at least: a task that expires is counted for an eighth of its lifetime more, at most."""

MOST_REMOVED = 100
"""How many attributes one write removes at most, so that its expression stays short."""

_SPAN = "t"
_OWN = frozenset({"pk", "sk", "expires_at"})


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
        """Count a task that is about to be created: one `GetItem` a shard, four at once, and one `UpdateItem`.

        Raises:
            TooManyTasks: the owner already has as many as may be.
        """
        shards, now_s = shard_names(self._limits.shards), self._now_ms() // 1000
        counts = dict(zip(shards, all_of([partial(self._count, owner, shard) for shard in shards]), strict=True))
        live = sum(tasks for count in counts.values() for end, tasks in _spans(count).values() if end > now_s)
        if live >= self._allowed:
            raise TooManyTasks(f"the owner has {self._allowed} live tasks, which is as many as are allowed")
        own = counts.get(shard_of(task_id), {})
        expires_s = now_s + self._limits.max_ttl_ms // 500
        if "expires_at" in own:
            # Tasks that were created when the longest lifetime was longer are still counted.
            expires_s = max(expires_s, number(own, "expires_at"))
        update = Update(None, self._now_ms())
        update.add(update.name(span_of(item)), update.value({"N": "1"}))
        update.set(update.name("expires_at"), update.value({"N": str(expires_s)}))
        over = own.keys() - _OWN - {name for name, (end, _) in _spans(own).items() if end > now_s} - {span_of(item)}
        for name in sorted(over)[:MOST_REMOVED]:
            update.remove(update.name(name))
        try:
            self._table.update(count_key(owner, shard_of(task_id)), update, CREATE, whole=False)
        except OutcomeUnknown as error:
            # What may have been written is the count alone: it is known that there is no task.
            raise StoreUnavailable(str(error)) from error

    def leave(self, owner: str, task_id: str, item: Item) -> None:
        """Stop counting a task that has ended, by the end that its item has: one `UpdateItem`, sent once.

        If it fails, the task stays counted until it expires."""
        update = Update(None, self._now_ms())
        span = update.name(span_of(item))
        update.require(f"{span}>{update.value({'N': '0'})}")
        self._add(owner, task_id, update, span, -1)

    def is_counted_alike(self, before: Item, after: Item) -> bool:
        """Whether a task is counted in the same span of time by both its ends."""
        return span_of(before) == span_of(after)

    def prolong(self, owner: str, task_id: str, item: Item) -> None:
        """Count a task by a later end as well: one `UpdateItem`, sent once.

        Nothing is counted if the shard has no `COUNT` item, as when the limit was set after the task was created. The
        update would create one without `expires_at`, which DynamoDB never deletes."""
        update = Update(None, self._now_ms())
        update.require(f"attribute_exists({update.name('expires_at')})")
        self._add(owner, task_id, update, update.name(span_of(item)), 1)

    def _add(self, owner: str, task_id: str, update: Update, span: str, tasks: int) -> None:
        update.add(span, update.value({"N": str(tasks)}))
        try:
            self._table.update(count_key(owner, shard_of(task_id)), update, RENEW, whole=False)
        except (StoreError, ConditionFailed, ItemTooLarge):
            logger.warning("task %s: the owner's live tasks are miscounted until it expires", task_id, exc_info=True)

    def _count(self, owner: str, shard: str) -> Item:
        return self._table.get(count_key(owner, shard), CREATE) or {}


def span_of(item: Item) -> str:
    """The attribute that counts a task, named by when its span ends, epoch seconds.

    A span's length depends on the task's own lifetime, not on the longest one, which may change while tasks live.
    """
    length_s = SHORTEST_SPAN_S
    while length_s * 2 * SPANS * 1000 <= number(item, "ttl_ms"):
        length_s *= 2
    return _SPAN + base36(-(-number(item, "expires_at") // length_s) * length_s)


def count_key(owner: str, shard: str) -> Item:
    """The primary key of the count of a shard."""
    return {"pk": partition(owner, shard), "sk": {"S": COUNT_KEY}}


def _spans(item: Item) -> Mapping[str, tuple[int, int]]:
    """By name, when each span of time ends, epoch seconds, and how many tasks expire in it."""
    spans = [name for name in item if name.startswith(_SPAN) and "N" in item[name]]
    return {name: (int(name.removeprefix(_SPAN), 36), number(item, name)) for name in spans}

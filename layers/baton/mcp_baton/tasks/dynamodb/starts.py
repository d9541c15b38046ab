"""The starts of workflows, one small item for each different call, in the table of the tasks (ARCHITECTURE.md,
Items).

If the task does not exist after `until`, an equal call replaces the item, on condition that it still names the same
task. A run whose creation was so slow that its claim is nearly over cancels its task and runs nothing. The start of an
event also has `call`, the digest of its arguments, and `created`.
"""

from collections.abc import Callable
from contextlib import suppress

from mcp_baton.exceptions import StoreError
from mcp_baton.tasks.dynamodb.attributes import Item
from mcp_baton.tasks.dynamodb.expressions import Update
from mcp_baton.tasks.dynamodb.items import Limits, number
from mcp_baton.tasks.dynamodb.table import CREATE, ConditionFailed, TaskTable
from mcp_baton.tasks.ids import new_token
from mcp_baton.tasks.starts import Start
from mcp_baton.tasks.texts import to_text

START_PREFIX = "START#"
START_SORT_KEY = "START"


class DynamoDBStartStore:
    """A `StartStore`."""

    def __init__(self, table: TaskTable, limits: Limits) -> None:
        self._table = table
        self._limits = limits

    def begin(
        self, owner: str, digest: str, start: Start, instead_of: Start | None, lives_ms: int | None = None
    ) -> Start | None:
        def require(update: Update) -> None:
            task, now_s = update.name("task"), update.number(update.now_ms // 1000)
            # DynamoDB deletes expired items hours later.
            unused = f"attribute_not_exists({task}) OR {update.name('expires_at')}<={now_s}"
            is_same = "" if instead_of is None else f" OR {task}={update.text(instead_of.task_id)}"
            update.require(f"({unused}{is_same})")

        try:
            self._store(owner, digest, start, require, lives_ms)
        except ConditionFailed as failure:
            if failure.item is None:
                raise StoreError("the start of an equal call was removed at this moment") from failure
            return _start_in(failure.item)
        return None

    def replace(self, owner: str, digest: str, start: Start) -> None:
        self._store(owner, digest, start, lambda _: None)

    def _store(
        self,
        owner: str,
        digest: str,
        start: Start,
        require: Callable[[Update], None],
        lives_ms: int | None = None,
    ) -> None:
        now_ms = self._table.clock_ms()
        update = Update(new_token(), now_ms)
        require(update)
        update.set(update.name("owner"), update.value({"S": to_text(owner)}))
        update.set(update.name("task"), update.text(start.task_id))
        update.set(update.name("asked"), update.number(start.asked_ms))
        update.set(update.name("until"), update.number(start.until_ms))
        update.remove(update.name("created"))
        if start.call:
            update.set(update.name("call"), update.text(start.call))
        # The task may be created until the claim ends, and a worker may extend it up to the longest lifetime. The start
        # must not expire before the task does.
        ends_ms = max(now_ms, start.until_ms) + self._limits.max_ttl_ms if lives_ms is None else now_ms + lives_ms
        update.set(update.name("expires_at"), update.number(-(-ends_ms // 1000)))
        self._table.update(start_key(digest), update, CREATE)

    def confirm(self, digest: str, start: Start) -> None:
        update = Update(None, self._table.clock_ms())
        update.require(f"{update.name('task')}={update.text(start.task_id)}")
        update.set(update.name("created"), update.value({"BOOL": True}))
        with suppress(ConditionFailed):
            self._table.update(start_key(digest), update)

    def forget(self, digest: str, start: Start) -> None:
        update = Update(None, self._table.clock_ms())
        update.require(f"{update.name('task')}={update.text(start.task_id)}")
        update.remove(update.name("task"))
        with suppress(ConditionFailed):
            self._table.update(start_key(digest), update)


def start_key(digest: str) -> Item:
    return {"pk": {"S": f"{START_PREFIX}{digest}"}, "sk": {"S": START_SORT_KEY}}


def _start_in(item: Item) -> Start:
    try:
        call = item["call"]["S"] if "call" in item else ""
        return Start(item["task"]["S"], number(item, "asked"), number(item, "until"), call, "created" in item)
    except (KeyError, ValueError) as error:
        raise StoreError(f"the item {item.get('pk')} is damaged: {error}") from error

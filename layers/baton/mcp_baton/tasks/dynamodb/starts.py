"""The starts of workflows, one small item for each different call, in the table of the tasks (ARCHITECTURE.md,
Items).

If the task does not exist after `until`, an equal call replaces the item, on condition that it still names the same
task. A run whose creation was so slow that its claim is nearly over cancels its task and runs nothing. The start of an
event also has `call`, the digest of its arguments, and `created`.
"""

from contextlib import suppress

from mcp_baton.exceptions import StoreError
from mcp_baton.tasks.dynamodb.attributes import Item, primary_key
from mcp_baton.tasks.dynamodb.expressions import Update
from mcp_baton.tasks.dynamodb.items import Limits, number, whole_s
from mcp_baton.tasks.dynamodb.retries import CREATE, ConditionFailed
from mcp_baton.tasks.dynamodb.table import TaskTable
from mcp_baton.tasks.ids import new_token
from mcp_baton.tasks.store import Start
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
        update = self._update(owner, start, lives_ms)
        # DynamoDB deletes expired items hours later.
        free = [update.missing("task"), update.compared("expires_at", "<=", update.now_ms // 1000)]
        if instead_of is not None:
            free.append(update.compared("task", "=", instead_of.task_id))
        update.require_any(*free)
        try:
            self._table.update(start_key(digest), update, CREATE)
        except ConditionFailed as failure:
            if failure.item is None:
                raise StoreError("the start of an equal call was removed at this moment") from failure
            return _start_in(failure.item)
        return None

    def replace(self, owner: str, digest: str, start: Start) -> None:
        self._table.update(start_key(digest), self._update(owner, start), CREATE)

    def _update(self, owner: str, start: Start, lives_ms: int | None = None) -> Update:
        now_ms = self._table.clock_ms()
        update = Update(now_ms, new_token())
        update.set("owner", to_text(owner))
        update.set("task", start.task_id)
        update.set("asked", start.asked_ms)
        update.set("until", start.until_ms)
        update.remove("created")
        if start.call:
            update.set("call", start.call)
        # The task may be created until the claim ends, and a worker may extend it up to the longest lifetime. The start
        # must not expire before the task does.
        ends_ms = max(now_ms, start.until_ms) + self._limits.max_ttl_ms if lives_ms is None else now_ms + lives_ms
        update.set("expires_at", whole_s(ends_ms))
        return update

    def confirm(self, digest: str, start: Start) -> None:
        update = Update(self._table.clock_ms())
        update.set("created", value=True)
        self._change(digest, start, update)

    def forget(self, digest: str, start: Start) -> None:
        update = Update(self._table.clock_ms())
        update.remove("task")
        self._change(digest, start, update)

    def _change(self, digest: str, start: Start, update: Update) -> None:
        """Change a start, unless another call has replaced it."""
        update.require("task", "=", start.task_id)
        with suppress(ConditionFailed):
            self._table.update(start_key(digest), update)


def start_key(digest: str) -> Item:
    return primary_key(START_PREFIX + digest, START_SORT_KEY)


def _start_in(item: Item) -> Start:
    try:
        call = item["call"]["S"] if "call" in item else ""
        return Start(item["task"]["S"], number(item, "asked"), number(item, "until"), call, "created" in item)
    except (KeyError, ValueError) as error:
        raise StoreError(f"the item {item.get('pk')} is damaged: {error}") from error

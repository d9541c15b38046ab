"""The task store in DynamoDB: one item for each task, one conditional write for each change (docs/storage.md)."""

from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mcp_baton.exceptions import (
    ClaimLost,
    Conflict,
    OutcomeUnknown,
    StoreError,
    StoreUnavailable,
    TaskFinished,
    TaskHeld,
    TaskNotFound,
    TooLarge,
)
from mcp_baton.protocol.json import JsonObject
from mcp_baton.tasks.dynamodb.attributes import Item, encode_json, text_bytes
from mcp_baton.tasks.dynamodb.changes import Changes, fits, plan
from mcp_baton.tasks.dynamodb.expressions import (
    Update,
    claim_update,
    finish_update,
    first_token,
    guarded_update,
    renew_claim,
    say,
    write_update,
)
from mcp_baton.tasks.dynamodb.items import (
    HEAD_MS,
    MARGIN_S,
    RUN,
    claim_in,
    expired,
    new_item,
    number,
    stays_whole,
)
from mcp_baton.tasks.dynamodb.table import (
    CHECKPOINT,
    CREATE,
    END,
    RENEW,
    WRITE,
    ConditionFailed,
    ItemTooLarge,
    RetryPolicy,
)
from mcp_baton.tasks.dynamodb.task_items import TaskItems, has_claim, may_claim, stored_item
from mcp_baton.tasks.dynamodb.values import excess, is_large, item_size
from mcp_baton.tasks.ids import new_task_id, new_token
from mcp_baton.tasks.record import Claim, NewTask, TaskPage, TaskRecord, TaskStanding, TaskStatus
from mcp_baton.tasks.store import Batch, Written
from mcp_baton.tasks.texts import VALUE_BYTES, ZipWithin, to_text
from mcp_baton.telemetry import STORE_CONFLICTS

if TYPE_CHECKING:
    from mcp_baton.tasks.dynamodb.answers import DynamoDBAnswerStore
    from mcp_baton.tasks.dynamodb.jobs import DynamoDBJobStore
    from mcp_baton.tasks.dynamodb.outside import Mover

STATUS_ATTRIBUTES = ("status", "expires_at", "version", RUN)

RESULT_TOO_LARGE = "the result does not fit into the task's item"


class DynamoDBTaskStore:
    """A `TaskStore` in one DynamoDB table with `pk`, `sk` and, as its TTL attribute, `expires_at`. `new_id` creates a
    task id from a time (epoch milliseconds) and the number of shards."""

    def __init__(self, items: TaskItems, new_id: Callable[[int, int], str] = new_task_id) -> None:
        self._items = items
        self._table = items.table
        self._limits = items.limits
        self._new_id = new_id

    def within(self, left_ms: Callable[[], int | None]) -> "DynamoDBTaskStore":
        return DynamoDBTaskStore(self._items.within(left_ms), self._new_id)

    def now_ms(self) -> int:
        return self._items.now_ms()

    @property
    def answers(self) -> "DynamoDBAnswerStore":
        from mcp_baton.tasks.dynamodb.answers import DynamoDBAnswerStore

        return DynamoDBAnswerStore(self._table)

    @property
    def jobs(self) -> "DynamoDBJobStore":
        from mcp_baton.tasks.dynamodb.jobs import DynamoDBJobStore

        return DynamoDBJobStore(self._items)

    def create(self, task: NewTask) -> TaskRecord:
        began_s, now_ms, token = self._table.monotonic(), self.now_ms(), new_token()
        task_id = self._new_id(now_ms, self._limits.shards)
        item = new_item(task, task_id, now_ms, self._limits) | first_token(now_ms, token)
        whole = stays_whole(item, self._limits.item_bytes)
        if not whole and text_bytes(item["arguments"]) > VALUE_BYTES:
            raise StoreError(f"the task is too large: its arguments have {text_bytes(item['arguments'])} bytes")
        # Counted before large values are written: an owner at the limit cannot fill the table or the bucket.
        live = self._items.live_tasks()
        if live:
            live.enter(task.owner, task_id, item)
        try:
            if not whole:
                item = self._fitted(task.owner, task_id, item, began_s)
            self._put(item, token)
        except OutcomeUnknown as error:
            raise OutcomeUnknown(str(error), self._items.record(task.owner, item)) from error
        except StoreError:
            if live:
                live.leave(task.owner, task_id, item)
            raise
        return self._items.record(task.owner, item)

    def _fitted(self, owner: str, task_id: str, item: Item, began_s: float) -> Item:
        limit = self._limits.item_bytes
        item = self._mover(owner, task_id, item, began_s).fit_new(item, limit)
        if excess(item, limit) > 0:
            raise StoreError(f"the task is too large: {item_size(item)} bytes")
        return item

    def _put(self, item: Item, token: str) -> None:
        try:
            self._table.put(item, token)
        except ConditionFailed as error:
            raise StoreError("the new task's id is taken") from error
        except ItemTooLarge as error:
            raise StoreError(f"the task is too large: {item_size(item)} bytes") from error

    def get(self, owner: str, task_id: str) -> TaskRecord:
        item = self._table.get(self._items.key(owner, task_id))
        if item is None or expired(item, self.now_ms()):
            raise TaskNotFound
        return self._items.record(owner, item)

    def read_status(self, owner: str, task_id: str) -> TaskStanding:
        key = self._items.key(owner, task_id)
        item = self._table.get(key, attributes=STATUS_ATTRIBUTES, consistent=False)
        standing = self._standing(task_id, item) or self._standing(task_id, self._table.get(key))
        if standing is None:
            raise TaskNotFound
        return standing

    def _standing(self, task_id: str, item: Item | None) -> TaskStanding | None:
        """The status and claim in an item; `None` if there is no item, or the task has expired."""
        if item is None:
            return None
        try:
            over = expired(item, self.now_ms())
            standing = TaskStanding(TaskStatus(item["status"]["S"]), claim_in(item), number(item, "version"))
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(f"the item of the task {task_id} is damaged: {error}") from error
        return None if over else standing

    def list(self, owner: str, cursor: str | None = None) -> TaskPage:
        from mcp_baton.tasks.dynamodb.listing import page_of

        return page_of(self._table, owner, cursor, self.now_ms(), self._limits)

    def take(self, owner: str, task_id: str, workflow: str, claim: Claim) -> TaskRecord:
        now_ms = self.now_ms()
        update = claim_update(to_text(workflow), claim, now_ms, new_token())
        try:
            item = self._table.update(self._items.key(owner, task_id), update, CREATE)
        except ConditionFailed as failure:
            current = self._items.live(owner, failure, workflow)
            if current.claim is not None and not may_claim(current.claim, claim, now_ms):
                raise TaskHeld(current.claim.until_ms, current) from failure
            self._table.telemetry.add(STORE_CONFLICTS)
            raise Conflict(current) from failure
        return self._items.claimed(owner, item, claim) or self.take(owner, task_id, workflow, claim)

    def renew(self, task: TaskRecord, claim: Claim) -> TaskRecord:
        update = guarded_update(self.now_ms(), None)
        renew_claim(update, claim)
        try:
            self._table.update(self._items.key(task.owner, task.task_id), update, RENEW, whole=False)
        except ConditionFailed as failure:
            raise ClaimLost(self._items.live(task.owner, failure)) from failure
        return replace(task, claim=claim)

    def write(self, task: TaskRecord, batch: Batch) -> Written:
        """The size of the item is computed from what was read. If another write has made it larger since, DynamoDB may
        refuse this one. Then values of this batch leave the item, too."""
        began_s, now_ms, stored, limits = self._table.monotonic(), self.now_ms(), stored_item(task), self._limits
        name = batch.token or (new_token(), now_ms)
        zip_within = cache(partial(ZipWithin, limits.zip_ms / 1000, self._table.monotonic))

        def zips(text: bytes) -> bytes:
            return zip_within()(text)  # few writes have anything to zip

        changes = plan(stored, batch, limits.compress_over_bytes, zips)
        stays = fits(stored, changes, limits.item_bytes)
        if stays:
            with suppress(ItemTooLarge):
                return self._write_batch(task, stored, changes, batch, name, now_ms)
        return self._write_moved(task, changes, batch, name, began_s, refused=stays)

    def _write_moved(
        self, task: TaskRecord, planned: Changes, batch: Batch, name: tuple[str, int], began_s: float, *, refused: bool
    ) -> Written:
        """Write a batch after moving values out of the item, or replacing them by notes."""
        stored, limit = stored_item(task), self._limits.item_bytes
        mover = self._mover(task.owner, task.task_id, stored, began_s)
        changes = mover.lighten(planned) if refused else mover.fit(stored, planned, limit)
        while changes is not None:
            try:
                return self._write_batch(task, stored, changes, batch, name, self.now_ms(), moved=True)
            except ItemTooLarge:
                changes = mover.lighten(changes)
        if mover.failed:
            raise StoreUnavailable("the values of this write could not be kept outside the task's item")
        raise TooLarge("the task's item is full: DynamoDB takes 409,600 bytes, and no value is left to replace")

    def _mover(self, owner: str, task_id: str, item: Item, began_s: float) -> "Mover":
        """The mover for a write that began then, on `monotonic`, to the task in an item."""
        from mcp_baton.tasks.dynamodb.outside import Mover

        until_s = began_s + self._limits.values_ms / 1000
        left_ms = self._table.left_ms()
        if left_ms is not None:
            until_s = min(until_s, self._table.monotonic() + (left_ms - HEAD_MS) / 1000)
        return Mover(self._items.places(), owner, task_id, number(item, "expires_at"), until_s)

    def _write_batch(
        self,
        task: TaskRecord,
        stored: Item,
        changes: Changes,
        batch: Batch,
        name: tuple[str, int],
        now_ms: int,
        *,
        moved: bool = False,
    ) -> Written:
        update = write_update(stored, changes, now_ms, name[0])
        update.now_ms = name[1]
        if moved:
            # The moved values are kept for a day longer than the task lived when it was read.
            latest = update.number(number(stored, "expires_at") + MARGIN_S)
            update.require(f"{update.name('expires_at')}<={latest}")
        if batch.message is not None:
            say(update, batch.message)
        key: Item = {"pk": stored["pk"], "sk": stored["sk"]}
        if batch.claim is None:
            item = self._update(task.owner, key, update)
        else:
            renew_claim(update, batch.claim, release=batch.release)
            item = self._update(task.owner, key, update, END if batch.release else CHECKPOINT, batch.claim)
        if changes.result is not None:
            self._items.uncount(task.owner, task.task_id, item)
        return Written(self._items.record(task.owner, item), changes.oversized)

    def cancel(self, owner: str, task_id: str) -> TaskRecord:
        return self._finish(owner, task_id, finish_update(self.now_ms(), new_token(), TaskStatus.CANCELLED))

    def complete(self, owner: str, task_id: str, result: JsonObject, *, by_client: bool = True) -> TaskRecord:
        encoded = encode_json("the result", result, self._limits.compress_over_bytes)
        if text_bytes(encoded) > VALUE_BYTES:
            raise TooLarge(f"the result has {text_bytes(encoded)} bytes; a task keeps {VALUE_BYTES} at most")
        update = finish_update(self.now_ms(), new_token(), TaskStatus.COMPLETED, encoded, by_client=by_client)
        if not is_large(encoded):
            with suppress(ItemTooLarge):
                return self._finish(owner, task_id, update)
        return self._complete_moved(owner, task_id, Batch(result=result, by_client=by_client))

    def _complete_moved(self, owner: str, task_id: str, batch: Batch) -> TaskRecord:
        # The task is read first, so that no values are written for a task that has ended or that has another owner.
        task = self.get(owner, task_id)
        while not task.status.terminal:
            try:
                return self.write(task, batch).task
            except Conflict as prolonged:
                # The task now lives longer than when it was read, so the result must be kept longer, too.
                task = prolonged.current
            except TooLarge as error:
                raise TooLarge(RESULT_TOO_LARGE) from error
        raise TaskFinished(task)

    def _finish(self, owner: str, task_id: str, update: Update) -> TaskRecord:
        item = self._update(owner, self._items.key(owner, task_id), update)
        self._items.uncount(owner, task_id, item)
        return self._items.record(owner, item)

    def _update(
        self, owner: str, key: Item, update: Update, retry_policy: RetryPolicy = WRITE, claim: Claim | None = None
    ) -> Item:
        """Make a write and return the item after it. With a claim, raises `ClaimLost` if the task does not have it any
        more."""
        try:
            return self._table.update(key, update, retry_policy)
        except ConditionFailed as failure:
            if failure.item is None and failure.unsure:
                raise OutcomeUnknown("the task is gone: whether it was written before cannot be read") from failure
            current = self._items.live(owner, failure)
            if claim is not None and not has_claim(current, claim):
                raise ClaimLost(current) from failure
            self._table.telemetry.add(STORE_CONFLICTS)
            raise Conflict(current, (update.token, update.now_ms) if update.token else None) from failure

"""The task store in DynamoDB: one item for each task, one conditional write for each change (docs/storage.md)."""

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mcp_baton.exceptions import (
    Conflict,
    OutcomeUnknown,
    StoreError,
    StoreUnavailable,
    TaskFinished,
    TaskNotFound,
    TooLarge,
    ValueLost,
)
from mcp_baton.protocol.json import JsonObject
from mcp_baton.tasks.dynamodb.attributes import Item, encode_json, text_bytes
from mcp_baton.tasks.dynamodb.expressions import (
    claim_update,
    finish_update,
    guarded_update,
    renew_claim,
    require_claim,
)
from mcp_baton.tasks.dynamodb.heads import RESULT_ROOM_BYTES, exceeds_limits, fit_new, head_room, is_fitting, values_in
from mcp_baton.tasks.dynamodb.items import KEPT_UNTIL, RUN, claim_in, expired, new_item, number
from mcp_baton.tasks.dynamodb.retries import CHECKPOINT, CREATE, END, RENEW, WRITE, ConditionFailed, ItemTooLarge
from mcp_baton.tasks.dynamodb.task_items import ITEM_FULL, TaskItems, held_error, stored_item
from mcp_baton.tasks.dynamodb.values import item_size, size
from mcp_baton.tasks.dynamodb.write import Write
from mcp_baton.tasks.ids import new_token
from mcp_baton.tasks.record import (
    RESULT_PREFIX,
    Claim,
    NewTask,
    TaskPage,
    TaskRecord,
    TaskStanding,
    TaskStatus,
)
from mcp_baton.tasks.store import Batch
from mcp_baton.tasks.texts import MAX_VALUE_BYTES, to_text

if TYPE_CHECKING:
    from mcp_baton.tasks.dynamodb.starts import DynamoDBStartStore

logger = logging.getLogger(__name__)

STATUS_ATTRIBUTES = ("status", "expires_at", "version", RUN)


class DynamoDBTaskStore(TaskItems, frozen=True, eq=False):
    """A `TaskStore` without the parts of the features."""

    @property
    def starts(self) -> "DynamoDBStartStore":
        from mcp_baton.tasks.dynamodb.starts import DynamoDBStartStore

        return DynamoDBStartStore(self.table, self.limits)

    def new_task_id(self) -> str:
        return self.new_id(self.now_ms())

    def create(self, task: NewTask) -> TaskRecord:
        began_s, task_id = self.table.monotonic(), task.task_id or self.new_task_id()
        item = new_item(task, task_id, self.now_ms(), self.limits)
        is_small = is_fitting(item, head_room(item, self.limits), values_in(item), {})
        if not is_small and exceeds_limits(item["arguments"]):
            raise StoreError(f"the task is too large: its arguments have {text_bytes(item['arguments'])} bytes")
        # Counted before large values are written: an owner at the limit cannot fill the table.
        counter = self.live_tasks()
        if counter:
            counter.enter(task.owner, item)
        try:
            if not is_small:
                mover = self.mover(task.owner, task_id, item, began_s)
                item = fit_new(item, self.limits, mover.move) | {KEPT_UNTIL: {"N": str(mover.kept_until_s)}}
                if item_size(item) > self.limits.item_bytes:
                    raise StoreError(f"the task is too large: {item_size(item)} bytes")
            item = self._put(item)
        except OutcomeUnknown as error:
            raise OutcomeUnknown(str(error), self.record(task.owner, item)) from error
        except StoreError:
            if counter:
                counter.leave(task.owner, task_id, item)
            raise
        # The run reads the progress next. It need not be decoded again.
        return replace(self.record(task.owner, item), variables=task.variables)

    def _put(self, item: Item) -> Item:
        try:
            return self.table.create(item, "the new task's id is taken")
        except ItemTooLarge as error:
            raise StoreError(f"the task is too large: {item_size(item)} bytes") from error

    def get(self, owner: str, task_id: str) -> TaskRecord:
        # The time is taken before the read: a worker may extend the task while this process stands still after it.
        now_ms = self.now_ms()
        item = self.table.get(self.key(owner, task_id))
        if item is None or expired(item, now_ms):
            raise TaskNotFound
        return self.record(owner, item)

    def read_status(self, owner: str, task_id: str) -> TaskStanding:
        key = self.key(owner, task_id)
        item = self.table.get(key, attributes=STATUS_ATTRIBUTES, consistent=False)
        standing = self._standing(task_id, item) or self._standing(task_id, self.table.get(key))
        if standing is None:
            raise TaskNotFound
        return standing

    def _standing(self, task_id: str, item: Item | None) -> TaskStanding | None:
        """The status and claim in an item; `None` if there is no item, or the task has expired."""
        if item is None:
            return None
        try:
            is_expired = expired(item, self.now_ms())
            standing = TaskStanding(TaskStatus(item["status"]["S"]), claim_in(item), number(item, "version"))
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(f"the item of the task {task_id} is damaged: {error}") from error
        return None if is_expired else standing

    def list(self, owner: str, cursor: str | None = None) -> TaskPage:
        from mcp_baton.tasks.dynamodb.listing import page_of

        return page_of(self.table, owner, cursor, self.now_ms(), self.limits)

    def take(self, owner: str, task_id: str, workflow: str, claim: Claim) -> TaskRecord:
        now_ms = self.now_ms()
        update = claim_update(to_text(workflow), claim, now_ms, new_token())
        try:
            item = self.table.update(self.key(owner, task_id), update, CREATE)
        except ConditionFailed as failure:
            current = self.live(owner, failure, workflow)
            raise held_error(current, claim, now_ms) or self.conflict(current) from failure
        return self.claimed(owner, item, claim) or self.take(owner, task_id, workflow, claim)

    def renew(self, task: TaskRecord, claim: Claim) -> TaskRecord:
        update = guarded_update(self.now_ms(), None)
        renew_claim(update, claim)
        self.update_item(task.owner, task.task_id, update, RENEW, claim, complete=False)
        return replace(task, claim=claim)

    def write(self, task: TaskRecord, batch: Batch) -> TaskRecord:
        """The size of the head is computed from the head as it was read. Other writes may have made it larger since, so
        it can exceed its bound until the next write."""
        began_s, limits = self.table.monotonic(), self.limits
        token = batch.token or (new_token(), self.now_ms())
        write, mover = Write(stored_item(task), batch, limits, self.table.monotonic), None
        while True:
            is_first = mover is None
            if mover is None and write.fits:
                # Most writes end here. The head may have grown since it was read: then values have to leave it.
                with suppress(ItemTooLarge):
                    return self._send(task, write, token)
            mover = mover or self.mover(task.owner, task.task_id, write.item, began_s)
            write.kept_until_s = mover.kept_until_s
            if is_first and not write.fits:
                write.fit(mover)
            elif not write.shrink(mover.move):
                break  # nothing is left that could leave the head
            with suppress(ItemTooLarge):
                return self._send(task, write, token)
        if mover.failed:
            raise StoreUnavailable("the values of this write could not be kept outside the task's item")
        raise TooLarge(f"{ITEM_FULL}, and no value is left to replace")

    def _send(self, task: TaskRecord, write: Write, token: tuple[str, int]) -> TaskRecord:
        claim, retry_policy = write.batch.claim, WRITE
        if claim is not None:
            retry_policy = END if write.batch.release else CHECKPOINT
        update = write.update(task.task_id, self.now_ms(), token)
        written_task = self.update(task.owner, task.task_id, update, retry_policy, claim)
        if write.batch.result is not None:
            self.ended(written_task)
        for name in write.oversized:
            _log_not_stored(written_task, name)
        return replace(written_task, oversized=write.oversized) if write.oversized else written_task

    def cancel(self, owner: str, task_id: str, claim: Claim | None = None) -> TaskRecord:
        update = finish_update(self.now_ms(), new_token(), TaskStatus.CANCELLED)
        if claim is not None:
            require_claim(update, claim)
        return self.ended(self.update(owner, task_id, update))

    def complete(self, owner: str, task_id: str, result: JsonObject, *, by_client: bool = True) -> TaskRecord:
        encoded = encode_json("the result", result, self.limits.compress_over_bytes)
        if exceeds_limits(encoded):
            raise TooLarge(f"the result has {text_bytes(encoded)} bytes; a task keeps {MAX_VALUE_BYTES} at most")
        update = finish_update(self.now_ms(), new_token(), TaskStatus.COMPLETED, encoded, by_client=by_client)
        if size(encoded) <= RESULT_ROOM_BYTES:
            with suppress(ItemTooLarge):
                return self.ended(self.update(owner, task_id, update))
        # The task is read first, so that no values are written for a task that has ended or that has another owner.
        task = self.get(owner, task_id)
        while not task.status.terminal:
            try:
                return self.write(task, Batch(result=result, by_client=by_client))
            except Conflict as prolonged:
                # The task now lives longer than when it was read, so the result must be kept longer, too.
                task = prolonged.current
            except TooLarge as error:
                raise TooLarge("the result does not fit into the task's item") from error
        raise TaskFinished(task)


def _log_not_stored(task: TaskRecord, name: str) -> None:
    """Tell the operator that a value was not stored: the client's texts reach only the model."""
    step = name.removeprefix(RESULT_PREFIX)
    place = f"variable {name!r}" if step == name else f"step {step!r}"
    workflow = f"workflow {task.workflow!r}, " if task.workflow else ""
    try:
        task.variables.get(name)
    except ValueLost as error:
        logger.warning("task %s: %s%s: the %s", task.task_id, workflow, place, error)

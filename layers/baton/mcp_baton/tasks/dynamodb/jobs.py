"""Jobs in the tasks' table: each change is one conditional write of the task's head (docs/storage.md, Jobs)."""

from collections.abc import Callable, Mapping
from datetime import datetime
from itertools import batched
from typing import TYPE_CHECKING

from mcp_baton.exceptions import ClaimLost, Conflict, NoAttemptLeft, StoreBusy, TaskHeld, TooLarge
from mcp_baton.protocol.json import Json, JsonObject, dumps
from mcp_baton.tasks.dynamodb import heads as writes
from mcp_baton.tasks.dynamodb.attributes import Attribute, Item
from mcp_baton.tasks.dynamodb.claims import claimed, holds
from mcp_baton.tasks.dynamodb.expressions import Update
from mcp_baton.tasks.dynamodb.heads import TaskItems, stored_item
from mcp_baton.tasks.dynamodb.items import Limits, job_text, number
from mcp_baton.tasks.dynamodb.overflow import MARGIN_S, ObjectStore, RecentWrites
from mcp_baton.tasks.dynamodb.retry_policy import CREATE, END, RENEW, WRITE, RetryPolicy
from mcp_baton.tasks.dynamodb.table import ConditionFailed, ItemTooLarge, TaskTable
from mcp_baton.tasks.ids import new_token
from mcp_baton.tasks.record import Claim, TaskRecord, TaskStatus
from mcp_baton.tasks.work import Job
from mcp_baton.telemetry import STORE_CONFLICTS, Telemetry

if TYPE_CHECKING:
    from mcp_baton.tasks.dynamodb.pointers import Pointer
    from mcp_baton.tasks.dynamodb.prolonging import Path

MOST_QUESTIONS = 100
"""How many questions are asked at a time: what one `UpdateExpression` surely holds."""

MOST_POINTERS = 100
"""How many pointers one write replaces: what one `UpdateExpression` surely holds."""

RETRY_AFTER_MS = 1_000


class DynamoDBJobStore(TaskItems):
    """A `JobStore` in the table of a `DynamoDBTaskStore`, which makes it.

    Args:
        table: The table.
        objects: S3, for values outside the heads; `None` where there is no bucket.
        written: Gives what was just written outside.
        limits: How large a task may grow, how long it may live, and how many an owner may have.
        now_ms: The clock, epoch milliseconds.
        telemetry: Takes lost races.
    """

    def __init__(
        self,
        table: TaskTable,
        objects: ObjectStore | None,
        written: Callable[[], RecentWrites],
        limits: Limits,
        now_ms: Callable[[], int],
        telemetry: Telemetry,
    ) -> None:
        self._table = table
        self._objects = objects
        self._written = written
        self._limits = limits
        self.now_ms = now_ms
        self._telemetry = telemetry

    def claim(self, owner: str, task_id: str, claim: Claim, dispatch: int) -> TaskRecord:
        """Begin an attempt: one `UpdateItem`."""
        now_ms = self.now_ms()
        update = writes.claiming(claim, dispatch, now_ms, new_token())
        try:
            item = self._table.update(self._key(owner, task_id), update, CREATE)
            taken = claimed(self._task_in(owner, item), claim, self.now_ms)
            return taken or self.claim(owner, task_id, claim, dispatch)
        except ConditionFailed as failure:
            current = self._live(owner, failure)
            if current.job is not None and current.status is TaskStatus.WORKING:
                held = current.claim
                if held is not None and held.id != claim.id and held.holds_at(now_ms):
                    raise TaskHeld(held.until_ms, current) from failure
                if attempts_left(current) == 0:
                    raise NoAttemptLeft(current) from failure
            self._telemetry.add(STORE_CONFLICTS)
            raise Conflict(current) from failure

    def dispatch_again(self, task: TaskRecord) -> TaskRecord | None:
        """Note one more dispatch: one `UpdateItem`, or none where the task as it was read has no need of it."""
        now_ms = self.now_ms()
        if not is_unclaimed_job(task, now_ms) or attempts_left(task) == 0 or job_of(task).due_ms >= now_ms:
            return None
        update = writes.dispatching_again(job_of(task).dispatches, now_ms, new_token())
        item = self._tried(task, update, CREATE)
        return None if item is None else self._task_in(task.owner, item)

    def give_up(self, task: TaskRecord, error: JsonObject) -> TaskRecord | None:
        """End a task whose attempts are used up: one `UpdateItem`, or none where the task as it was read has some."""
        now_ms = self.now_ms()
        if not is_unclaimed_job(task, now_ms) or attempts_left(task) > 0:
            return None
        item = self._tried(task, writes.giving_up(*self._error(error), now_ms, new_token()), WRITE)
        return None if item is None else self._ended(task, item)

    def fail(self, task: TaskRecord, claim: Claim, error: JsonObject) -> TaskRecord:
        """End a task as failed: one `UpdateItem`."""
        update = writes.failing(claim, *self._error(error), self.now_ms(), new_token())
        return self._ended(task, self._held(task, update, END))

    def ask(self, task: TaskRecord, claim: Claim, questions: Mapping[str, JsonObject]) -> TaskRecord:
        """Let a task wait for the client: one `UpdateItem`.

        Raises:
            ValueError: a key was used for another question before, or no question is without an answer.
        """
        if not holds(task, claim):
            raise ClaimLost(task)
        job = job_of(task)
        for key in sorted(questions.keys() & job.asked.keys()):
            if dumps(job.asked[key], sort_keys=True) != dumps(questions[key], sort_keys=True):
                raise ValueError(f"the key {key!r} was used for another question of this task: give each its own")
        new = {key: question for key, question in questions.items() if key not in job.asked}
        if not questions.keys() - job.answers.keys():
            raise ValueError(f"every question is answered: {', '.join(sorted(questions)) or 'there is none'}")
        if len(new) > MOST_QUESTIONS:
            raise TooLarge(f"there are {len(new)} questions: a job asks {MOST_QUESTIONS} at a time at most")
        texts = self._texts("question", new)
        # A quarter is left for the answers.
        writes.check_room(stored_item(task), texts, self._limits.item_bytes * 3 // 4, "questions")
        update = writes.asking(claim, texts, job.work.attempts, self.now_ms(), new_token())
        return self._task_in(task.owner, self._held(task, update, END))

    def answer(self, owner: str, task_id: str, answers: JsonObject) -> TaskRecord | None:
        """Take answers: one `GetItem` and one `UpdateItem`, and one more after each race that was lost."""
        key, races = self._key(owner, task_id), 0
        item = self._table.get(key)
        while True:
            task = self._live(owner, ConditionFailed(item))
            taken = open_answers(task, answers)
            if not taken:
                return None
            update = self._answering(task, taken)
            try:
                return self._task_in(owner, self._table.update(key, update, WRITE))
            except ConditionFailed as failure:
                item = failure.item
            except ItemTooLarge as error:
                raise TooLarge("the answers do not fit: DynamoDB takes 409,600 bytes") from error
            races += 1
            self._telemetry.add(STORE_CONFLICTS)
            if not self._table.wait_after_race(races):
                raise StoreBusy("other answers to the task came in between until there was no time", RETRY_AFTER_MS)

    def _answering(self, task: TaskRecord, taken: JsonObject) -> Update:
        job, texts = job_of(task), self._texts("answer", taken)
        writes.check_room(stored_item(task), texts, self._limits.item_bytes, "answers")
        last = not job.asked.keys() - job.answers.keys() - taken.keys()
        return writes.answering(task.version, texts, last=last, now_ms=self.now_ms(), token=new_token())

    def report(self, task: TaskRecord, claim: Claim, message: str) -> TaskRecord:
        """Set the status message: one `UpdateItem`, sent once."""
        update = writes.reporting(claim, message, self.now_ms())
        return self._task_in(task.owner, self._held(task, update, RENEW))

    def hand_over(self, task: TaskRecord, claim: Claim, ttl_ms: int) -> TaskRecord:
        """Give the claim up to a fresh worker: one `UpdateItem`."""
        now_ms = self.now_ms()
        expires_s, lives_ms = self._life(task, now_ms, ttl_ms)
        # Not longer than values are kept that others write meanwhile. The next worker prolongs it further.
        expires_s, lives_ms = self._kept(task, min(expires_s, self._safe_s(task)), lives_ms)
        update = writes.handing_over(claim, job_of(task).work.attempts, expires_s, lives_ms, now_ms, new_token())
        item = self._counted(task, expires_s, lives_ms, lambda: self._held(task, update, END))
        return self._task_in(task.owner, item)

    def extend(self, task: TaskRecord, ttl_ms: int) -> TaskRecord:
        """Let a task live longer: one `UpdateItem`, or none where that is not worth one, or may not be."""
        now_ms, before = self.now_ms(), stored_item(task)
        expires_s, lives_ms = self._life(task, now_ms, ttl_ms)
        if number(before, "expires_at") * 1000 >= now_ms + ttl_ms // 2 or lives_ms <= task.ttl_ms:
            return task
        expires_s, lives_ms = self._kept(task, expires_s, lives_ms)
        if lives_ms <= task.ttl_ms:
            return task
        update = writes.extending(task, expires_s, lives_ms, now_ms, new_token())
        if expires_s > self._safe_s(task):
            writes.require_version(update, task.version)
        key = self._key(task.owner, task.task_id)
        try:
            item = self._counted(task, expires_s, lives_ms, lambda: self._table.update(key, update, WRITE))
        except ConditionFailed as failure:
            current = self._live(task.owner, failure)  # perhaps it lives longer still
        else:
            current = self._task_in(task.owner, item)
        if task.claim is not None and not holds(current, task.claim):
            raise ClaimLost(current)
        return current

    def _life(self, task: TaskRecord, now_ms: int, ttl_ms: int) -> tuple[int, int]:
        """When a task is to expire, epoch seconds, and its lifetime then, milliseconds."""
        longest_ms = max(task.ttl_ms, self._limits.max_ttl_ms)
        lives_ms = min(max(task.ttl_ms, now_ms + ttl_ms - _created_ms(task)), longest_ms)
        return max(number(stored_item(task), "expires_at"), -(-(_created_ms(task) + lives_ms) // 1000)), lives_ms

    def _safe_s(self, task: TaskRecord) -> int:
        """Until when all values of a task are kept that others write while it is prolonged, epoch seconds."""
        return number(stored_item(task), "expires_at") + MARGIN_S

    def _kept(self, task: TaskRecord, expires_s: int, lives_ms: int) -> tuple[int, int]:
        """When a task may expire, epoch seconds, and its lifetime then, milliseconds.

        Values outside the head that are not kept as long are written again first. If that fails, the task lives as long
        as they are kept.
        """
        from mcp_baton.tasks.dynamodb.prolonging import expiring

        stored, expires_ms = stored_item(task), expires_s * 1000
        if short := expiring(stored, expires_s):
            expires_ms = self._prolong(task, expires_s, short) * 1000
        expires_s = max(min(expires_s, expires_ms // 1000), number(stored, "expires_at"))
        return expires_s, max(min(lives_ms, expires_s * 1000 - _created_ms(task)), task.ttl_ms)

    def _prolong(self, task: TaskRecord, expires_s: int, short: "Mapping[Path, Pointer]") -> int:
        """Write values again: the requests for values outside, and one `UpdateItem` for 100 pointers.

        Returns:
            Until when all of them are kept, epoch seconds.
        """
        from mcp_baton.tasks.dynamodb.moving import Target
        from mcp_baton.tasks.dynamodb.prolonging import prolonged

        made = prolonged(self._outside(), Target(task.owner, task.task_id, expires_s, self.now_ms()), short)
        for pointers in batched(made.pointers.items(), MOST_POINTERS):
            update = writes.pointing(dict(pointers), task.version, self.now_ms())
            try:
                self._table.update(self._key(task.owner, task.task_id), update, WRITE, whole=False)
            except ConditionFailed:
                # The task has changed, or is over. Its worker prolongs it again before long.
                return min(pointer.until_s for pointer in short.values())
        return made.until_s

    def _tried(self, task: TaskRecord, update: Update, retry_policy: RetryPolicy) -> Item | None:
        """The item after a write that others may come before; `None` where they did."""
        try:
            return self._table.update(self._key(task.owner, task.task_id), update, retry_policy)
        except ConditionFailed as failure:
            self._live(task.owner, failure)
            self._telemetry.add(STORE_CONFLICTS)
            return None

    def _held(self, task: TaskRecord, update: Update, retry_policy: RetryPolicy) -> Item:
        """The item after a write of the worker that holds it."""
        try:
            return self._table.update(self._key(task.owner, task.task_id), update, retry_policy)
        except ConditionFailed as failure:
            raise ClaimLost(self._live(task.owner, failure)) from failure
        except ItemTooLarge as error:
            raise TooLarge("the task's item is full: DynamoDB takes 409,600 bytes") from error

    def _ended(self, task: TaskRecord, item: Item) -> TaskRecord:
        return self._task_in(task.owner, self._left(task.owner, task.task_id, item))

    def _error(self, error: JsonObject) -> tuple[Attribute, str]:
        """An error as it is kept, and what it says."""
        message = writes.shortened(str(error.get("message", "")))
        return job_text("error", {**error, "message": message}, self._limits.compress_over_bytes), message

    def _texts(self, what: str, values: JsonObject) -> dict[str, Attribute]:
        return {key: job_text(what, value, self._limits.compress_over_bytes) for key, value in values.items()}

    def _counted(self, task: TaskRecord, expires_s: int, lives_ms: int, write: Callable[[], Item]) -> Item:
        """Make a write by which a task lives longer, and count the task by its new end.

        Meanwhile it is counted by both ends: whoever ends it takes off the one that its item has then, so none is left.
        """
        live, before = self._live_tasks(), stored_item(task)
        after: Item = {**before, "expires_at": {"N": str(expires_s)}, "ttl_ms": {"N": str(lives_ms)}}
        if live is None or live.is_counted_alike(before, after):
            return write()
        live.prolong(task.owner, task.task_id, after)
        try:
            item = write()
        except Exception:
            live.leave(task.owner, task.task_id, after)
            raise
        live.leave(task.owner, task.task_id, before)
        return item


def _created_ms(task: TaskRecord) -> int:
    return int(datetime.fromisoformat(task.created_at).timestamp() * 1000)


def job_of(task: TaskRecord) -> Job:
    """The job of a task that is one.

    Raises:
        ValueError: it is none.
    """
    if task.job is None:
        raise ValueError(f"the task {task.task_id} is no job")
    return task.job


def attempts_left(task: TaskRecord) -> int:
    """How often a job may still be begun."""
    return max(job_of(task).allowed - (task.claim.number if task.claim else 0), 0)


def is_unclaimed_job(task: TaskRecord, now_ms: int) -> bool:
    """Whether a task is a job to be worked on that nobody works on now."""
    held = task.claim is not None and task.claim.holds_at(now_ms)
    return task.job is not None and task.status is TaskStatus.WORKING and not held


def open_answers(task: TaskRecord, answers: JsonObject) -> dict[str, Json]:
    """Those of some answers that belong to questions which wait for one."""
    if task.job is None or task.status is not TaskStatus.INPUT_REQUIRED:
        return {}
    waiting = task.job.asked.keys() - task.job.answers.keys()
    return {key: answer for key, answer in answers.items() if key in waiting}

"""Jobs in the table of the tasks: each change is one conditional write of the task's item (ARCHITECTURE.md, Jobs)."""

from collections.abc import Iterator, Mapping
from contextlib import suppress

from msgspec import to_builtins
from msgspec.structs import replace

from mcp_baton.exceptions import (
    ClaimLost,
    Conflict,
    NoAttemptLeft,
    StoreBusy,
    TaskFinished,
    TaskNotFound,
    TooLarge,
)
from mcp_baton.protocol.json import Json, JsonObject, dumps
from mcp_baton.tasks.dynamodb.attributes import Attribute, Item, encode_json
from mcp_baton.tasks.dynamodb.expressions import (
    Update,
    enter_outbox,
    finish_update,
    guarded_update,
    live_update,
    note_kept,
    note_named,
    renew_claim,
    set_message,
    shortened_message,
    take_claim,
    unlist,
)
from mcp_baton.tasks.dynamodb.heads import BOOKKEEPING_BYTES, head_room, paths_to_move
from mcp_baton.tasks.dynamodb.items import (
    ANSWERED,
    ASKED,
    LISTED_IN,
    OUTBOX_SHARDS,
    RUN_DISPATCH,
    RUN_NUMBER,
    RUN_UNTIL,
    WAITS_FOR,
    Path,
    expired,
    in_list,
    list_time,
    outbox_name,
    owner_of,
    task_id_of,
)
from mcp_baton.tasks.dynamodb.retries import CREATE, END, RENEW, ConditionFailed, ItemTooLarge, RetryPolicy
from mcp_baton.tasks.dynamodb.task_items import ITEM_FULL, TaskItems, has_claim, held_error, stored_item
from mcp_baton.tasks.dynamodb.values import item_size, size
from mcp_baton.tasks.ids import new_token
from mcp_baton.tasks.record import FIRST_DISPATCH_MS, MAX_DISPATCH_MS, Claim, Job, JobWaits, TaskRecord, TaskStatus
from mcp_baton.tasks.texts import to_text
from mcp_baton.telemetry import SILENT

MAX_QUESTIONS_PER_WRITE = 100
"""They fit into one `UpdateExpression`."""


CLOCK_DIFFERENCE_MS = 600_000
"""How far two clocks can be apart: a job that has expired by one of them may be live by the other."""


class DynamoDBJobStore:
    def __init__(self, tasks: TaskItems) -> None:
        self._tasks = tasks
        self._table = tasks.table
        self._limits = tasks.limits

    def claim(self, owner: str, task_id: str, claim: Claim, dispatch: int) -> TaskRecord:
        now_ms = self._tasks.now_ms()
        update = guarded_update(now_ms, new_token())
        _require_startable(update)
        # A repeated event must not start a job that waits. If its worker died, the job would continue only at the end
        # of its wait, because a job with a claim is not woken.
        update.require_any(
            update.missing(RUN_DISPATCH),
            update.compared(RUN_DISPATCH, "<", dispatch),
            update.compared(RUN_UNTIL, ">", 0),
            update.compared("due", "<", now_ms),
        )
        take_claim(update, claim, now_ms)
        update.set(RUN_DISPATCH, dispatch)
        update.remove(WAITS_FOR)
        try:
            item = self._table.update(self._tasks.key(owner, task_id), update, CREATE)
        except ConditionFailed as failure:
            current = self._tasks.live(owner, failure)
            if current.job is not None and current.status is TaskStatus.WORKING:
                if error := held_error(current, claim, now_ms):
                    raise error from failure
                if attempts_left(current) == 0:
                    raise NoAttemptLeft(current) from failure
            raise self._tasks.conflict(current) from failure
        return self._tasks.claimed(owner, item, claim) or self.claim(owner, task_id, claim, dispatch)

    def dispatch_again(self, task: TaskRecord) -> TaskRecord | None:
        now_ms = self._tasks.now_ms()
        is_waiting = is_unclaimed_job(task, now_ms) or _asks_and_waits(task)
        if not is_waiting or attempts_left(task) == 0 or job_of(task).due_ms >= now_ms:
            return None
        update = guarded_update(now_ms, new_token())
        _require_waiting(update)
        update.require(RUN_UNTIL, "<", now_ms)
        update.require("due", "<", now_ms)
        delay_ms = min(FIRST_DISPATCH_MS << min(job_of(task).dispatches, 16), MAX_DISPATCH_MS)
        _dispatch(update, task.task_id, now_ms + delay_ms, stored_item(task))
        with suppress(Conflict):
            return self._tasks.update(task.owner, task.task_id, update, CREATE)
        return None

    def give_up(self, task: TaskRecord, error: JsonObject) -> TaskRecord | None:
        now_ms = self._tasks.now_ms()
        if not is_unclaimed_job(task, now_ms) or attempts_left(task) > 0:
            return None
        update = self._failure_update(error, now_ms)
        update.require("status", "=", TaskStatus.WORKING)
        update.require(RUN_UNTIL, "<", now_ms)
        update.require_expression(f"{update.path(RUN_NUMBER)}>={update.path('allowed')}")
        with suppress(Conflict):
            return self._tasks.ended(self._tasks.update(task.owner, task.task_id, update))
        return None

    def withdraw(self, task: TaskRecord, message: str) -> TaskRecord:
        update = finish_update(self._tasks.now_ms(), new_token(), TaskStatus.CANCELLED)
        set_message(update, message)
        update.require(RUN_NUMBER, "=", 0)
        return self._tasks.ended(self._tasks.update(task.owner, task.task_id, update))

    def fail(self, task: TaskRecord, claim: Claim, error: JsonObject) -> TaskRecord:
        update = self._failure_update(error, self._tasks.now_ms())
        renew_claim(update, claim, release=True)
        return self._tasks.ended(self._update(task, update, claim, END))

    def ask(
        self, task: TaskRecord, claim: Claim, questions: Mapping[str, JsonObject], due_ms: int | None = None
    ) -> TaskRecord:
        if not has_claim(task, claim):
            raise ClaimLost(task)
        job = job_of(task)
        # If they must stay in the head, a quarter of the item is left for the answers.
        limit = self._limits.item_bytes * 3 // 4
        texts, kept_until_s = self._fitted(task, ASKED, _new_questions(job, questions), limit)
        update = self._release(task, claim)
        if questions.keys() & job.asked.keys():
            # The client may answer them while this is written. The job would wait for answers that have come.
            update.require("version", "=", task.version)
        if questions.keys() <= job.answers.keys():
            _dispatch(update, task.task_id, update.now_ms + FIRST_DISPATCH_MS)
        else:
            update.set("status", TaskStatus.INPUT_REQUIRED)
            if due_ms is None:
                unlist(update)
            else:
                _wait_until(update, task.task_id, due_ms)
        # A job that was woken before the client has answered may ask something else now.
        update.remove(*((ASKED, to_text(key)) for key in sorted(job.open.keys() - questions.keys())))
        for path, question in texts.items():
            update.set(path, question)
        if kept_until_s is not None:
            note_kept(update, kept_until_s)
        try:
            return self._update(task, update, claim, END)
        except Conflict as conflict:  # the questions must be kept longer, or the client has answered
            return self.ask(conflict.current, claim, questions, due_ms)

    def answer(self, owner: str, task_id: str, answers: JsonObject) -> TaskRecord | None:
        item, races = self._table.get(self._tasks.key(owner, task_id)), 0
        task = self._tasks.live(owner, ConditionFailed(item))
        while new_answers := open_answers(task, answers):
            try:
                return self._tasks.update(owner, task_id, self._answer_update(task, new_answers))
            except Conflict as conflict:
                task = conflict.current
            except ItemTooLarge as error:
                raise TooLarge("the answers do not fit: DynamoDB takes 409,600 bytes") from error
            races += 1
            if not self._table.wait_after_race(races):
                raise StoreBusy("other answers to the task were written first until no time was left")
        return None

    def _answer_update(self, task: TaskRecord, new_answers: JsonObject) -> Update:
        job, now_ms = job_of(task), self._tasks.now_ms()
        texts, kept_until_s = self._fitted(task, ANSWERED, new_answers, self._limits.item_bytes)
        update = live_update(now_ms, new_token())
        # Whether these are the last answers was decided on this version. Without the condition, each of two
        # simultaneous writers could leave it to the other to make the task `working`.
        update.require("version", "=", task.version)
        for path, answer in texts.items():
            update.set(path, answer)
        if kept_until_s is not None:
            note_kept(update, kept_until_s)
        # The client has the task's id, so an equal call is not a repetition (docs/workflows.md, Repeated calls).
        note_named(update)
        if not job.asked.keys() - job.answers.keys() - new_answers.keys():
            update.set("status", TaskStatus.WORKING)
            _dispatch(update, task.task_id, now_ms + FIRST_DISPATCH_MS)
        return update

    def report(self, task: TaskRecord, claim: Claim, message: str) -> TaskRecord:
        update = live_update(self._tasks.now_ms(), None)
        renew_claim(update, claim)
        set_message(update, message)
        return self._update(task, update, claim, RENEW)

    def hand_over(self, task: TaskRecord, claim: Claim, ttl_ms: int) -> TaskRecord:
        self.extend(task, ttl_ms)
        update = self._release(task, claim)
        _dispatch(update, task.task_id, update.now_ms + FIRST_DISPATCH_MS, stored_item(task))
        return self._update(task, update, claim, END)

    def suspend(self, task: TaskRecord, claim: Claim, ttl_ms: int, waits: JobWaits, due_ms: int) -> TaskRecord:
        self.extend(task, ttl_ms, ttl_ms)
        update = self._release(task, claim)
        _wait_until(update, task.task_id, due_ms)
        waits = replace(waits, message=shortened_message(waits.message))
        update.set(
            WAITS_FOR, encode_json("what the job waits for", to_builtins(waits), self._limits.compress_over_bytes)
        )
        update.remove("status_message")
        return self._update(task, update, claim, END)

    def wake(self, owner: str, task_id: str) -> TaskRecord | None:
        now_ms = self._tasks.now_ms()
        update = guarded_update(now_ms, new_token())
        _require_waiting(update)
        # An expired claim is not enough: its worker may still run, and hand the job over by the entry that it has read.
        update.require(RUN_UNTIL, "=", 0)
        _dispatch(update, task_id, now_ms + FIRST_DISPATCH_MS)
        with suppress(Conflict, TaskFinished, TaskNotFound):
            return self._tasks.update(owner, task_id, update)
        return None

    def due(self) -> Iterator[tuple[str, str]]:
        # There is a sweep every minute, mostly without an item. Metrics of its queries would cost more than the sweeps.
        table, latest = replace(self._table, telemetry=SILENT), list_time(self._table.clock_ms())
        for shard in sorted(range(OUTBOX_SHARDS), key=lambda _: table.rng()):
            # The order is random, so that a later sweep processes those for which this one has no time.
            for page in table.pages(in_list(outbox_name(shard), latest)):
                for keys in sorted(page["Items"], key=lambda _: table.rng()):
                    yield owner_of(keys), task_id_of(keys)

    def read_listed(self, owner: str, task_id: str) -> TaskRecord | None:
        key, now_ms = self._tasks.key(owner, task_id), self._tasks.now_ms()
        item = self._table.get(key)
        if item is None or LISTED_IN not in item:  # the index is a moment old
            return None
        task = self._tasks.record(owner, item)
        if not task.status.terminal and not expired(item, now_ms - CLOCK_DIFFERENCE_MS):
            return None if expired(item, now_ms) else task
        # The task has expired, or an older release, which knows no outbox, has ended it.
        self.unlist(task)
        return None

    def unlist(self, task: TaskRecord) -> None:
        item, update = stored_item(task), Update(self._tasks.now_ms())
        for name in ("version", "status", "expires_at"):
            update.require(name, "=", item[name])
        unlist(update)
        with suppress(ConditionFailed):
            self._table.update(self._tasks.key(task.owner, task.task_id), update, RENEW)

    def extend(self, task: TaskRecord, ttl_ms: int, least_ms: int | None = None) -> TaskRecord:
        from mcp_baton.tasks.dynamodb.lifetimes import extend

        return extend(self._tasks, task, ttl_ms, ttl_ms // 2 if least_ms is None else least_ms)

    def _release(self, task: TaskRecord, claim: Claim) -> Update:
        """The write by which a worker releases its claim. The job has all its attempts again."""
        update = live_update(self._tasks.now_ms(), new_token())
        renew_claim(update, claim, release=True)
        attempts = update.value(job_of(task).work.attempts)
        update.set_expression("allowed", f"{update.path(RUN_NUMBER)}+{attempts}")
        return update

    def _update(self, task: TaskRecord, update: Update, claim: Claim, retry_policy: RetryPolicy) -> TaskRecord:
        try:
            return self._tasks.update(task.owner, task.task_id, update, retry_policy, claim)
        except ItemTooLarge as error:
            raise TooLarge(ITEM_FULL) from error

    def _failure_update(self, error: JsonObject, now_ms: int) -> Update:
        message = shortened_message(str(error.get("message", "")))
        encoded = encode_json("the job's error", {**error, "message": message}, self._limits.compress_over_bytes)
        update = finish_update(now_ms, new_token(), TaskStatus.FAILED)
        update.set("error", encoded)
        set_message(update, message)
        return update

    def _fitted(
        self, task: TaskRecord, attribute: str, values: JsonObject, limit: int
    ) -> tuple[dict[Path, Attribute], int | None]:
        """Encode questions or answers, and write those outside the head that have no room in it. Returns what the head
        gets, and until when the values are kept, epoch seconds.

        Args:
            limit: The most bytes of the head, if they cannot be written outside.
        """
        head, kind, kept_until_s = stored_item(task), "question" if attribute == ASKED else "answer", None
        compress_over = self._limits.compress_over_bytes
        texts: dict[Path, Attribute] = {
            (attribute, to_text(key)): encode_json(f"the {kind}", value, compress_over) for key, value in values.items()
        }
        if paths := paths_to_move(texts, {}, _size_with(head, texts) - head_room(head, self._limits)):
            mover = self._tasks.mover(task.owner, task.task_id, head, self._table.monotonic())
            texts |= mover.move({path: texts[path] for path in paths})
            kept_until_s = mover.kept_until_s
        if (total := _size_with(head, texts)) > limit:
            raise TooLarge(f"the {kind}s do not fit: the task's item would have {total} of {limit} bytes")
        return texts, kept_until_s


def _size_with(item: Item, texts: Mapping[Path, Attribute]) -> int:
    """The size of an item with more texts, bytes."""
    added = sum(size({"S": path[-1]}) + 1 + size(text) for path, text in texts.items())
    return item_size(item) + added + BOOKKEEPING_BYTES


def job_of(task: TaskRecord) -> Job:
    if task.job is None:
        raise ValueError(f"the task {task.task_id} is not a job")
    return task.job


def attempts_left(task: TaskRecord) -> int:
    return max(job_of(task).allowed - (task.claim.number if task.claim else 0), 0)


def is_unclaimed_job(task: TaskRecord, now_ms: int) -> bool:
    is_claimed = task.claim is not None and task.claim.holds_at(now_ms)
    return task.job is not None and task.status is TaskStatus.WORKING and not is_claimed


def _new_questions(job: Job, questions: Mapping[str, JsonObject]) -> dict[str, JsonObject]:
    """The questions that a job has not asked before. Raises as `JobStore.ask`."""
    for key in sorted(questions.keys() & job.asked.keys()):
        if dumps(job.asked[key], sort_keys=True) != dumps(questions[key], sort_keys=True):
            raise ValueError(f"the key {key!r} was used for another question of this task: give each its own")
    new_questions = {key: question for key, question in questions.items() if key not in job.asked}
    if len(new_questions) > MAX_QUESTIONS_PER_WRITE:
        raise TooLarge(
            f"there are {len(new_questions)} questions: a job asks {MAX_QUESTIONS_PER_WRITE} at a time at most"
        )
    return new_questions


def _asks_and_waits(task: TaskRecord) -> bool:
    """Whether a job asks its client, and waits for something else, too. Its worker has released the claim."""
    return task.status is TaskStatus.INPUT_REQUIRED and LISTED_IN in stored_item(task)


def open_answers(task: TaskRecord, answers: JsonObject) -> dict[str, Json]:
    waiting = task.job.asked.keys() - task.job.answers.keys() if task.job else set[str]()
    return {key: answer for key, answer in answers.items() if key in waiting}


def _require_startable(update: Update) -> None:
    """Require a `working` task with attempts left. This fails for a task without a job, because it has no `allowed`."""
    update.require("status", "=", TaskStatus.WORKING)
    update.require_expression(f"{update.path(RUN_NUMBER)}<{update.path('allowed')}")


def _require_waiting(update: Update) -> None:
    """Require a job with attempts left that is `working`, or that asks its client and waits for something else, too.
    Makes it `working`."""
    asks = update.compared("status", "=", TaskStatus.INPUT_REQUIRED)
    is_working = update.compared("status", "=", TaskStatus.WORKING)
    update.require_any(is_working, f"({asks} AND {update.exists(LISTED_IN)})")
    update.require_expression(f"{update.path(RUN_NUMBER)}<{update.path('allowed')}")
    update.set("status", TaskStatus.WORKING)


def _wait_until(update: Update, task_id: str, due_ms: int) -> None:
    """Let a sweep dispatch a job from a time on."""
    update.set("due", due_ms)
    # The event of an earlier dispatch may have come last: a sweep must see that no wake-up is under way.
    update.set_expression(RUN_DISPATCH, update.path("dispatches"))
    enter_outbox(update, task_id, due_ms)


def _dispatch(update: Update, task_id: str, due_ms: int, item: Item | None = None) -> None:
    """Note one more dispatch. If it is lost, a sweep repeats it from a time on: see `enter_outbox`."""
    update.increment("dispatches")
    update.set("due", due_ms)
    enter_outbox(update, task_id, due_ms, item)

"""What the writes of jobs require and set (docs/storage.md, Jobs). Pure."""

from collections.abc import Mapping

from mcp_baton.exceptions import TooLarge
from mcp_baton.tasks.dynamodb.attributes import Attribute, Item
from mcp_baton.tasks.dynamodb.changes import BOOKKEEPING_BYTES
from mcp_baton.tasks.dynamodb.expressions import Update, finish_update, guarded_update, hold, live_update, require_held
from mcp_baton.tasks.dynamodb.items import RUN
from mcp_baton.tasks.dynamodb.values import item_size, size
from mcp_baton.tasks.record import Claim, TaskRecord, TaskStatus
from mcp_baton.tasks.texts import to_text
from mcp_baton.tasks.work import FIRST_DISPATCH_MS, LONGEST_DISPATCH_MS

MESSAGE_CHARACTERS = 1_000
"""How much of a status message is kept: every later write of the task is paid by all of its item."""


def claiming(claim: Claim, dispatch: int, now_ms: int, token: str) -> Update:
    """A worker begins an attempt, which is counted here and not where it is dispatched."""
    update = guarded_update(now_ms, token)
    _require_working(update)
    _require_attempts(update)
    held_by, number, until, came_by = (update.path(RUN, member) for member in ("i", "n", "u", "d"))
    mine = update.text(claim.id)
    update.require(f"({until}<{_number(update, now_ms)} OR {held_by}={mine})")
    update.set(held_by, mine)
    update.set(number, f"{number}+{_number(update, 1)}")
    update.set(until, _number(update, claim.until_ms))
    update.set(came_by, _number(update, dispatch))
    return update


def dispatching_again(dispatches: int, now_ms: int, token: str) -> Update:
    """A poll dispatches a job that nobody works on; whoever comes later finds that it is not due any more."""
    update = guarded_update(now_ms, token)
    _require_working(update)
    _require_attempts(update)
    _require_free(update, now_ms)
    update.require(f"{update.name('due')}<{_number(update, now_ms)}")
    _dispatch(update, now_ms + again_after_ms(dispatches))
    return update


def again_after_ms(dispatches: int) -> int:
    """How long after one more dispatch than these a poll may dispatch again, milliseconds."""
    return min(FIRST_DISPATCH_MS << min(dispatches, 16), LONGEST_DISPATCH_MS)


def giving_up(error: Attribute, message: str, now_ms: int, token: str) -> Update:
    """A poll or a worker ends a job whose attempts are used up."""
    update = _failing(error, message, now_ms, token)
    _require_working(update)
    _require_free(update, now_ms)
    update.require(f"{update.path(RUN, 'n')}>={update.name('allowed')}")
    return update


def failing(claim: Claim, error: Attribute, message: str, now_ms: int, token: str) -> Update:
    """A worker ends its job as failed."""
    update = _failing(error, message, now_ms, token)
    hold(update, claim, release=True)
    return update


def asking(claim: Claim, questions: Mapping[str, Attribute], attempts: int, now_ms: int, token: str) -> Update:
    """A worker leaves its job to the client, who has questions to answer."""
    update = live_update(now_ms, token)
    hold(update, claim, release=True)
    update.set(update.name("status"), update.text(TaskStatus.INPUT_REQUIRED))
    _count_anew(update, attempts)
    for key, question in questions.items():
        update.set(update.path("asked", to_text(key)), update.value(question))
    return update


def answering(version: int, answers: Mapping[str, Attribute], *, last: bool, now_ms: int, token: str) -> Update:
    """A client answers. Which questions are open, and whether these are the last, was decided on this version of the
    task: two who answer at once must not both leave the last answer to the other."""
    update = live_update(now_ms, token)
    require_version(update, version)
    for key, answer in answers.items():
        update.set(update.path("answers", to_text(key)), update.value(answer))
    if last:
        update.set(update.name("status"), update.text(TaskStatus.WORKING))
        _dispatch(update, now_ms + FIRST_DISPATCH_MS)
    return update


def reporting(claim: Claim, message: str, now_ms: int) -> Update:
    """A worker says how far it is, and holds on to its job. Sent once."""
    update = live_update(now_ms, None)
    hold(update, claim)
    say(update, message)
    return update


def handing_over(claim: Claim, attempts: int, expires_s: int, ttl_ms: int, now_ms: int, token: str) -> Update:
    """A worker leaves its job to a fresh one."""
    update = live_update(now_ms, token)
    hold(update, claim, release=True)
    _count_anew(update, attempts)
    _dispatch(update, now_ms + FIRST_DISPATCH_MS)
    _live_until(update, expires_s, ttl_ms)
    return update


def extending(task: TaskRecord, expires_s: int, ttl_ms: int, now_ms: int, token: str) -> Update:
    """A worker lets a task live longer: its own, or that of the workflow which it runs."""
    update = guarded_update(now_ms, token)
    if task.claim is not None:
        require_held(update, task.claim)
    update.require(f"{update.name('expires_at')}<{_number(update, expires_s)}")
    _live_until(update, expires_s, ttl_ms)
    return update


def pointing(pointers: Mapping[tuple[str, ...], Attribute], version: int, now_ms: int) -> Update:
    """A worker replaces pointers, named by their paths, by others to the same values. A repetition does no harm."""
    update = guarded_update(now_ms, None)
    require_version(update, version)
    for path, pointer in pointers.items():
        update.set(update.path(*path), update.value(pointer))
    return update


def require_version(update: Update, version: int) -> None:
    """The task has not changed since it was read."""
    update.require(f"{update.name('version')}={_number(update, version)}")


def check_room(item: Item, texts: Mapping[str, Attribute], most: int, what: str) -> None:
    """Make sure that these texts fit into an item.

    Raises:
        TooLarge: they do not.
    """
    added = sum(size({"S": to_text(key)}) + 1 + size(text) for key, text in texts.items())
    after = item_size(item) + added + BOOKKEEPING_BYTES
    if after > most:
        raise TooLarge(f"the {what} have {added} bytes and do not fit: the task's item would have {after} of {most}")


def _failing(error: Attribute, message: str, now_ms: int, token: str) -> Update:
    update = finish_update(now_ms, token, TaskStatus.FAILED)
    update.set(update.name("error"), update.value(error))
    say(update, message)
    return update


def _require_working(update: Update) -> None:
    update.require(f"{update.name('status')}={update.text(TaskStatus.WORKING)}")


def _require_attempts(update: Update) -> None:
    """Some are left. A task that is no job has no number of them, and fails this as well."""
    update.require(f"{update.path(RUN, 'n')}<{update.name('allowed')}")


def _require_free(update: Update, now_ms: int) -> None:
    update.require(f"{update.path(RUN, 'u')}<{_number(update, now_ms)}")


def _dispatch(update: Update, due_ms: int) -> None:
    dispatches = update.name("dispatches")
    update.set(dispatches, f"{dispatches}+{_number(update, 1)}")
    update.set(update.name("due"), _number(update, due_ms))


def _count_anew(update: Update, attempts: int) -> None:
    update.set(update.name("allowed"), f"{update.path(RUN, 'n')}+{_number(update, attempts)}")


def say(update: Update, message: str) -> None:
    """Set the status message, as much of it as is kept."""
    update.set(update.name("status_message"), update.value({"S": to_text(shortened(message))}))


def shortened(message: str) -> str:
    """As much of a message as is kept."""
    return message if len(message) <= MESSAGE_CHARACTERS else message[: MESSAGE_CHARACTERS - 1] + "…"


def _live_until(update: Update, expires_s: int, ttl_ms: int) -> None:
    update.set(update.name("expires_at"), _number(update, expires_s))
    update.set(update.name("ttl_ms"), _number(update, ttl_ms))


def _number(update: Update, number: int) -> str:
    return update.value({"N": str(number)})

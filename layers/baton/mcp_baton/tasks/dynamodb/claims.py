"""Claims in tasks' heads: the write by which a run takes a task, and what the answer to it says (docs/storage.md)."""

from collections.abc import Callable

from mcp_baton.exceptions import TaskFinished, TaskHeld
from mcp_baton.tasks.dynamodb.expressions import Update
from mcp_baton.tasks.dynamodb.items import RUN
from mcp_baton.tasks.record import Claim, TaskRecord


def take(update: Update, workflow: str, claim: Claim, now_ms: int) -> None:
    """Add the claim to `update`, on condition that the task has no live claim.

    `run.l` is the sum of the ends of all claims before this one. A claim that was given up ends at 0, so the sum shows
    whether one ran out.
    """
    held_by, number, until, lapsed = (update.path(RUN, member) for member in ("i", "n", "u", "l"))
    mine = update.text(claim.id)
    update.require(f"{update.name('workflow')}={update.text(workflow)}")
    update.require(f"({until}<{update.value({'N': str(now_ms)})} OR {held_by}={mine})")
    update.set(held_by, mine)
    update.set(number, f"{number}+{update.value({'N': '1'})}")
    update.set(lapsed, f"if_not_exists({lapsed},{update.value({'N': '0'})})+{until}")
    update.set(until, update.value({"N": str(claim.until_ms)}))


def claimed(task: TaskRecord, claim: Claim, now_ms: Callable[[], int]) -> TaskRecord | None:
    """The task that was claimed. Where the answer to that was lost, and was asked for again by a function that had
    stood still, another one may have taken it over since.

    Returns:
        The task; `None` where it was taken over, and nobody holds it any more.

    Raises:
        TaskHeld: another one holds it.
        TaskFinished: it is over.
    """
    if task.status.terminal:
        raise TaskFinished(task)
    if task.claim is None or task.claim.id == claim.id:
        return task
    if task.claim.holds_at(now_ms()):
        raise TaskHeld(task.claim.until_ms, task)
    return None


def holds(task: TaskRecord, claim: Claim) -> bool:
    """Whether a run still holds a task."""
    return task.claim is not None and task.claim.id == claim.id and task.claim.until_ms > 0

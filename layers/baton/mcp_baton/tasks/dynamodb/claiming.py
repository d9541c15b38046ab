"""What the writes of a run that holds a task, or takes it, require and set of the head's claim (docs/storage.md,
Claims)."""

from mcp_baton.tasks.dynamodb.claims import RUN
from mcp_baton.tasks.dynamodb.expressions import Update
from mcp_baton.tasks.record import Claim


def require_held(update: Update, claim: Claim, *, job: bool = False) -> None:
    """The write takes place only while this run holds the task.

    A worker may give its job up and never hear of it. Its name stays until another one comes; the end is 0 at once.
    """
    update.require(f"{update.path(RUN, 'i')}={update.text(claim.id)}")
    if job:
        update.require(f"{update.path(RUN, 'u')}>{update.value({'N': '0'})}")


def hold(update: Update, claim: Claim, *, release: bool = False, job: bool = False) -> None:
    """A write of the run that holds the task: it renews the claim, or gives it up."""
    require_held(update, claim, job=job)
    update.set(update.path(RUN, "u"), update.value({"N": "0" if release else str(claim.until_ms)}))


def take(update: Update, workflow: str, claim: Claim, now_ms: int) -> None:
    """The write by which a run takes a task that nobody holds."""
    held_by, number, until = (update.path(RUN, member) for member in ("i", "n", "u"))
    mine = update.text(claim.id)
    update.require(f"{update.name('workflow')}={update.text(workflow)}")
    update.require(f"({until}<{update.value({'N': str(now_ms)})} OR {held_by}={mine})")
    update.set(held_by, mine)
    update.set(number, f"{number}+{update.value({'N': '1'})}")
    update.set(until, update.value({"N": str(claim.until_ms)}))

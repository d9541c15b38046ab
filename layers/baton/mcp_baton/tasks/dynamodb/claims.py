"""The claim in a head: the map attribute `run` of `i` (who), `n` (how many there were) and `u` (until when, epoch
milliseconds; 0 once it was given up). Every head has one, since a write can only set members of a map that is there."""

from typing import TYPE_CHECKING

from mcp_baton.tasks.dynamodb.attributes import Attribute, Item
from mcp_baton.tasks.record import Claim

if TYPE_CHECKING:
    from mcp_baton.tasks.dynamodb.expressions import Update

RUN = "run"
NOBODY = Claim("", 0, 0)


def run_attribute(claim: Claim | None) -> Attribute:
    """A new head's claim; nobody's for a task without a run."""
    claim = claim or NOBODY
    return {"M": {"i": {"S": claim.id}, "n": {"N": str(claim.number)}, "u": {"N": str(claim.until_ms)}}}


def claim_in(item: Item) -> Claim | None:
    """Who runs a task, or ran it last; `None` when nobody ever has."""
    if RUN not in item:
        return None
    run = item[RUN]["M"]
    claim = Claim(run["i"]["S"], int(run["u"]["N"]), int(run["n"]["N"]))
    return claim if claim.number else None


def expires_at(ends_ms: int, claim: Claim | None) -> Attribute:
    """When a new head expires, epoch seconds: when its lifetime ends, but not while it is claimed."""
    return {"N": str(-(-max(ends_ms, claim.until_ms if claim else 0) // 1000))}


def require_held(update: "Update", claim: Claim) -> None:
    """The write takes place only while this run holds the task."""
    update.require(f"{update.path(RUN, 'i')}={update.text(claim.id)}")


def hold(update: "Update", claim: Claim, *, release: bool = False) -> None:
    """A write of the run that holds the task: it renews the claim, or gives it up."""
    require_held(update, claim)
    update.set(update.path(RUN, "u"), update.value({"N": "0" if release else str(claim.until_ms)}))


def take(update: "Update", workflow: str, claim: Claim, now_ms: int) -> None:
    """The write by which a run takes a task that nobody holds."""
    held_by, number, until = (update.path(RUN, member) for member in ("i", "n", "u"))
    mine = update.text(claim.id)
    update.require(f"{update.name('workflow')}={update.text(workflow)}")
    update.require(f"({until}<{update.value({'N': str(now_ms)})} OR {held_by}={mine})")
    update.set(held_by, mine)
    update.set(number, f"{number}+{update.value({'N': '1'})}")
    update.set(until, update.value({"N": str(claim.until_ms)}))

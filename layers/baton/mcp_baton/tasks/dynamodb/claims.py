"""The claim in a head: the map attribute `run` of `i` (who), `n` (how many there were), `u` (until when, epoch
milliseconds; 0 once it was given up) and, of a worker's, `d` (the number of its dispatch). Every head has one, since a
write can only set members of a map that is there."""

from mcp_baton.tasks.dynamodb.attributes import Attribute, Item
from mcp_baton.tasks.record import Claim

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
    dispatch = int(run["d"]["N"]) if "d" in run else 0
    claim = Claim(run["i"]["S"], int(run["u"]["N"]), int(run["n"]["N"]), dispatch)
    return claim if claim.number else None


def expires_at(ends_ms: int, claim: Claim | None) -> Attribute:
    """When a new head expires, epoch seconds: when its lifetime ends, but not while it is claimed."""
    return {"N": str(-(-max(ends_ms, claim.until_ms if claim else 0) // 1000))}

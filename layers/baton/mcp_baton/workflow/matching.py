"""Which step a call is: the ranks of the steps that have its tool (docs/workflows.md, Going on). Pure."""

from collections.abc import Callable, Collection, Sequence
from enum import IntEnum

from msgspec import Struct

from mcp_baton.protocol.json import JsonObject
from mcp_baton.tasks.record import StepProgress, StepStatus
from mcp_baton.workflow.comparing import Comparison
from mcp_baton.workflow.plan import Plan


class Rank(IntEnum):
    """How well a call fits a step; the lowest wins.

    Attributes:
        EQUAL: An open step, and the call has all that is known of its arguments.
        REPEAT: A completed step that was made with equal arguments.
        POSSIBLE: An open step that nothing in the call contradicts.
        FAILED: A failed step that is planned with other arguments.
        PENDING: A pending step that is.
        LAST: A completed step that was made with other arguments.
    """

    EQUAL = 1
    REPEAT = 2
    POSSIBLE = 3
    FAILED = 4
    PENDING = 5
    LAST = 6


class Candidate(Struct, frozen=True):
    """A step that a call may be.

    Attributes:
        index: Its place among the task's steps.
        equal: How many of the call's arguments the plan knows to be its own; decides between `EQUAL` steps.
    """

    index: int
    step: StepProgress
    rank: Rank
    equal: int = 0

    @property
    def name(self) -> str:
        """The step's name."""
        return self.step["name"]

    @property
    def standing(self) -> tuple[int, int]:
        """Candidates of one standing are as good as each other."""
        return self.rank, -self.equal

    @property
    def order(self) -> tuple[int, int, int]:
        """The best one first; of completed ones the last."""
        return *self.standing, -self.index if self.rank in {Rank.REPEAT, Rank.LAST} else self.index


def candidates(plan: Plan, tool: str, arguments: JsonObject, exact: Collection[str] = ()) -> list[Candidate]:
    """The steps that a call may be, the best one first; skipped ones are none. `exact` as in `Comparison`.

    The only step with the tool is not held against the call: whatever the call says, it can be no other.
    """
    steps = [
        (index, step)
        for index, step in enumerate(plan.steps)
        if step.get("tool") == tool and step["status"] != StepStatus.SKIPPED
    ]
    if len(steps) == 1:
        [(index, step)] = steps
        return [Candidate(index, step, Rank.LAST if _is_completed(step) else Rank.PENDING)]
    call = plan.comparison(tool, arguments, exact)
    ranked = [_ranked(plan, tool, call, index, step) for index, step in steps]
    return sorted(ranked, key=lambda candidate: candidate.order)


def choose(ranked: Sequence[Candidate], drawn: Callable[[], float] | None = None) -> Candidate | None:
    """The step that a call is recorded in; `None` where there is none.

    Args:
        ranked: The candidates, the best one first.
        drawn: Gives a number from 0 up to 1. With it one of the open steps that are as good as the best is taken at
            random: many calls at once that have lost a race then spread, and never beyond steps that fit as well.
    """
    if not ranked:
        return None
    best = ranked[0]
    if drawn is None or _is_completed(best.step):
        return best
    equals = [candidate for candidate in ranked if candidate.standing == best.standing]
    return equals[int(drawn() * len(equals))]


def meant(ranked: Sequence[Candidate]) -> str | None:
    """The name of the one step that a call can mean; `None` where it may mean several, or none.

    It can mean the only open step that nothing in it contradicts. Where it contradicts all of them it repeats the one
    call that was equal, or else is the only open step's, or the only step's.
    """
    fitting = _of(ranked, Rank.EQUAL, Rank.POSSIBLE)
    repeated = _of(ranked, Rank.REPEAT)
    if fitting:
        # One that is merely possible may as well be the repeat of a call that was equal.
        sure = len(fitting) == 1 and (fitting[0].rank is Rank.EQUAL or not repeated)
        return fitting[0].name if sure else None
    left = repeated or _of(ranked, Rank.FAILED, Rank.PENDING) or _of(ranked, Rank.LAST)
    return left[0].name if len(left) == 1 else None


def _of(ranked: Sequence[Candidate], *ranks: Rank) -> list[Candidate]:
    return [candidate for candidate in ranked if candidate.rank in ranks]


def _ranked(plan: Plan, tool: str, call: Comparison, index: int, step: StepProgress) -> Candidate:
    name = step["name"]
    if plan.rules_out(name, tool, call.arguments):
        return Candidate(index, step, _other(step))
    if _is_completed(step):
        made_with = plan.made_with(name, call, tool)
        equal = made_with is not None and call.equals(made_with)
        return Candidate(index, step, Rank.REPEAT if equal else _other(step))
    planned = plan.planned(name, tool, call)
    changed = planned.changed | call.changed_by(planned.known)
    if changed & call.arguments.keys():
        return Candidate(index, step, _other(step))
    # Of a step of which nothing is known yet, nothing is equal either.
    if changed or not (planned.known or planned.whole):
        return Candidate(index, step, Rank.POSSIBLE)
    return Candidate(index, step, Rank.EQUAL, len(planned.known))


def _other(step: StepProgress) -> Rank:
    """The rank of a step that has other arguments than the call."""
    if _is_completed(step):
        return Rank.LAST
    return Rank.FAILED if step["status"] == StepStatus.FAILED else Rank.PENDING


def _is_completed(step: StepProgress) -> bool:
    return step["status"] == StepStatus.COMPLETED

"""Continuations: how a `tools/call` that names a task is recorded (docs/workflows.md). Pure.

The plan does not restrict calls: each call is recorded as the step that it matches best, in any order.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import IntEnum

from msgspec import Struct
from msgspec.structs import replace

from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.record import (
    ELEMENTS_PREFIX,
    EXTRA_PREFIX,
    ITEMS_PREFIX,
    StepProgress,
    StepStatus,
)
from mcp_baton.tasks.store import Batch, ListResult, StepWrite, Timing
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.tools.outcomes import Failed, Outcome, Succeeded
from mcp_baton.workflow.host import status_of, stored_result
from mcp_baton.workflow.items import Items, failed_items, item_name
from mcp_baton.workflow.pause import FailedItem, StepFailed, pause_after, pause_at
from mcp_baton.workflow.plan import Comparison, Plan, Planned
from mcp_baton.workflow.sources import Found
from mcp_baton.workflow.stored_calls import stored_call


class Rank(IntEnum):
    """How well a call matches a step. The lowest rank wins.

    Attributes:
        EQUAL: An open step whose known arguments equal those of the call.
        REPEAT: A completed step whose call had equal arguments.
        POSSIBLE: An open step that the call does not contradict.
        FAILED: A failed step whose known arguments differ.
        PENDING: A pending step whose known arguments differ.
        LAST: A completed step whose call had other arguments.
    """

    EQUAL = 1
    REPEAT = 2
    POSSIBLE = 3
    FAILED = 4
    PENDING = 5
    LAST = 6


class Candidate(Struct, frozen=True):
    """A step, or an element of a step's list, that may match a call."""

    index: int
    step: StepProgress
    rank: Rank
    equal: int = 0
    item: int | None = None

    @property
    def name(self) -> str:
        """The step's name, with the index of the element."""
        return self.step["name"] if self.item is None else item_name(self.step["name"], self.item)

    @property
    def match_quality(self) -> tuple[int, int]:
        """Candidates with the same quality match equally well."""
        return self.rank, -self.equal

    @property
    def order(self) -> tuple[int, int, int, int]:
        """Sorts the best candidate first. Of equal completed steps, the last one is the best."""
        position = -self.index if self.rank in {Rank.REPEAT, Rank.LAST} else self.index
        return *self.match_quality, position, self.item or 0


def candidates(plan: Plan, tool: str, arguments: JsonObject, exact: Collection[str] = ()) -> list[Candidate]:
    """The steps that may match a call, the best one first. `exact` as in `Comparison`.

    If only one step uses the tool, its arguments are not compared. An element of a list matches only a call whose
    arguments equal all that is known of its own. If nothing is known, the call gives the arguments of the next element.
    """
    steps = [
        (index, step) for index, step in enumerate(plan.steps) if step.get("tool") == tool and not plan.is_skipped(step)
    ]
    if len(steps) == 1 and not plan.has_list(steps[0][1]["name"]):
        [(index, step)] = steps
        return [Candidate(index, step, Rank.LAST if _is_completed(step) else Rank.PENDING)]
    call = plan.comparison(tool, arguments, exact)
    ranked: list[Candidate] = []
    for index, step in steps:
        if not plan.has_list(step["name"]):
            ranked.append(_ranked(plan, tool, call, index, step))
        elif not _is_completed(step):
            ranked += _ranked_items(plan, tool, call, index, step)
    return sorted(ranked, key=lambda candidate: candidate.order)


def choose(ranked: Sequence[Candidate], rng: Callable[[], float] | None = None) -> Candidate | None:
    """The step as which a call is recorded; `None` if no step matches.

    Args:
        rng: Gives a number from 0 up to 1. If given, an open step is picked at random from the equally good ones, so
            that concurrent calls that lost a race do not collide again.
    """
    if not ranked:
        return None
    best = ranked[0]
    if rng is None or _is_completed(best.step):
        return best
    equals = [candidate for candidate in ranked if candidate.match_quality == best.match_quality]
    return equals[int(rng() * len(equals))]


def workflow_if_ready(plan: Plan, ranked: Sequence[Candidate]) -> str | None:
    """The name of the task's workflow, if the step that a call matches can run now; otherwise `None`."""
    candidate = choose(ranked)
    if candidate is None or plan.workflow is None or plan.known is None:
        return None
    ready_steps = plan.workflow.ready(plan.known.statuses)
    step = next((step for step in ready_steps if step.name == candidate.step["name"]), None)
    return plan.workflow.name if step is not None and plan.known.decide_condition(step) is True else None


def matching_step(ranked: Sequence[Candidate]) -> str | None:
    """The name of the step that a call matches, if exactly one step matches; otherwise `None`.

    Open steps that the call does not contradict come first, then completed steps with equal arguments, then the other
    open steps, then the other completed steps.
    """
    matches = _with_rank(ranked, Rank.EQUAL, Rank.POSSIBLE)
    repeats = _with_rank(ranked, Rank.REPEAT)
    if matches:
        # If the call may be a repeat, a step counts only if its known arguments equal those of the call.
        is_certain = len(matches) == 1 and (matches[0].rank is Rank.EQUAL or not repeats)
        return matches[0].name if is_certain else None
    others = repeats or _with_rank(ranked, Rank.FAILED, Rank.PENDING) or _with_rank(ranked, Rank.LAST)
    return others[0].name if len(others) == 1 else None


def _with_rank(ranked: Sequence[Candidate], *ranks: Rank) -> list[Candidate]:
    return [candidate for candidate in ranked if candidate.rank in ranks]


def _ranked(plan: Plan, tool: str, call: Comparison, index: int, step: StepProgress) -> Candidate:
    name = step["name"]
    if _is_completed(step):
        call_arguments = plan.call_arguments(name, call, tool)
        equal = call_arguments is not None and call.equals(call_arguments)
        return Candidate(index, step, Rank.REPEAT if equal else _mismatch_rank(step))
    planned = plan.planned(name, tool, call)
    changed = planned.changed | call.changed_by(planned.arguments)
    if changed & call.arguments.keys():
        return Candidate(index, step, _mismatch_rank(step))
    if changed or not _is_known(planned, call):
        return Candidate(index, step, Rank.POSSIBLE)
    return Candidate(index, step, Rank.EQUAL, len(planned.arguments))


def _is_known(planned: Planned, call: Comparison) -> bool:
    """Whether there is something that a call can equal. If all arguments were left out, that is a call without them."""
    return bool(planned.arguments) or (planned.is_complete and (not planned.has_sources or call.equals({})))


def _ranked_items(plan: Plan, tool: str, call: Comparison, index: int, step: StepProgress) -> Iterator[Candidate]:
    """The elements of a step's list without a result that a call matches."""
    items = plan.items_of(step["name"])
    if items is None:
        return
    unknown: list[int] = []
    for item_index in items.open:
        planned = plan.planned(step["name"], tool, call, Found(items.elements[item_index]))
        if planned.changed or call.changed_by(planned.arguments):
            continue
        if _is_known(planned, call):
            yield Candidate(index, step, Rank.EQUAL, len(planned.arguments), item_index)
        else:
            unknown.append(item_index)
    if unknown and not any(_is_call_of(plan, tool, call, step, items.elements[done]) for done in items.done):
        yield from (Candidate(index, step, Rank.POSSIBLE, 0, item_index) for item_index in unknown)


def _is_call_of(plan: Plan, tool: str, call: Comparison, step: StepProgress, element: Json) -> bool:
    """Whether a call repeats that of an element which has a result."""
    planned = plan.planned(step["name"], tool, call, Found(element))
    return planned.is_complete and not planned.changed and call.equals(planned.arguments)


def _mismatch_rank(step: StepProgress) -> Rank:
    if _is_completed(step):
        return Rank.LAST
    return Rank.FAILED if step["status"] == StepStatus.FAILED else Rank.PENDING


def _is_completed(step: StepProgress) -> bool:
    return step["status"] == StepStatus.COMPLETED


class ContinuationCall(Struct, frozen=True):
    """A call of a tool that names a task.

    Attributes:
        step: The step whose idempotency key the tool received, if any. The call is recorded as this step or as an extra
            call, and never as another step.
        key: The idempotency key that the tool received, if the call timed out.
    """

    tool: str
    arguments: JsonObject
    step: str | None = None
    exact: tuple[str, ...] = ()
    key: str | None = None


def attempts_for(plan: Plan, tool: str) -> int:
    """How often a continuation tries to write. Other writers change each step of its tool at most twice, and the pause
    reason. The call of an element loses each race with another call of the task."""
    names = [step["name"] for step in plan.steps if step.get("tool") == tool]
    lists = [plan.items_of(name) for name in names if plan.has_list(name)]
    return 2 * len(names) + 8 + sum(len(items.elements) for items in lists if items)


def continuation_batch(
    plan: Plan,
    call: ContinuationCall,
    outcome: Outcome,
    variables: TaskVariables,
    rng: Callable[[], float] | None = None,
    ranked: Sequence[Candidate] | None = None,
    timing: Timing | None = None,
) -> Batch:
    """The batch that records a call, decided on the task's present state.

    A call that matches no step is recorded as an extra call. So is a failure of a completed step: it never replaces a
    result.

    Args:
        rng: As in `choose`; given after a lost race.
    """
    candidate = _matching_candidate(plan, call, rng, ranked)
    if candidate is not None and isinstance(outcome, Failed):
        # The error may quote the call's arguments.
        outcome = replace(outcome, error=plan.without_secrets(candidate.step["name"], call.arguments, outcome.error))
    if candidate is not None and candidate.item is not None:
        return _item_batch(plan, candidate, candidate.item, call.tool, outcome, variables, timing)
    write = _step_write(plan, candidate, call, outcome, timing) if candidate else None
    extra: dict[str, Json] = {} if write else {f"{EXTRA_PREFIX}{call.tool}": stored_result(outcome)}
    return Batch(
        steps=(write,) if write else (),
        pauses=_pauses_after(plan, write, call, outcome) if write else None,
        variables=variables.changed | extra,
        removed=variables.removed,
    )


def _item_batch(
    plan: Plan,
    candidate: Candidate,
    item: int,
    tool: str,
    outcome: Outcome,
    variables: TaskVariables,
    timing: Timing | None,
) -> Batch:
    """The batch that records the call of one element. It requires the task as it was read: other calls write the same
    variable."""
    name, status = candidate.step["name"], StepStatus(candidate.step["status"])
    items = plan.items_of(name) or Items([], {})
    stored_names, errors = {f"{ITEMS_PREFIX}{name}", f"{ELEMENTS_PREFIX}{name}"}, _item_errors(plan, name)
    pause = pause_at(name, plan.pauses)
    unapproved_count = pause.unapproved_count if isinstance(pause, StepFailed) else 0
    if unapproved_count and item not in errors:
        unapproved_count -= 1
    if isinstance(outcome, Succeeded):
        items = replace(items, known={**items.known, item: outcome.value})
        errors.pop(item, None)
    else:
        errors[item] = outcome.error
    steps: tuple[StepWrite, ...] = ()
    is_done = not items.open
    if is_done:
        result = ListResult() if items.stored else items.in_order
        steps = (StepWrite(candidate.index, name, status, StepStatus.COMPLETED, result, timing=timing),)
    return Batch(
        steps=steps,
        pauses=_pauses_after_item(plan, candidate.step, tool, outcome, errors, items, unapproved_count),
        variables=variables.changed,
        lists={name: items.to_write()} if items.stored or not is_done else {},
        removed=variables.removed | (stored_names & plan.task.variables.keys() if is_done else set()),
        same_version=True,
    )


def _item_errors(plan: Plan, name: str) -> dict[int, str]:
    pause = pause_at(name, plan.pauses)
    return {item.index: item.error for item in pause.failed_items} if isinstance(pause, StepFailed) else {}


def _pauses_after_item(
    plan: Plan,
    progress: StepProgress,
    tool: str,
    outcome: Outcome,
    errors: Mapping[int, str],
    items: Items,
    unapproved_count: int,
) -> tuple[JsonObject, ...] | None:
    """The reasons after the call of an element. That of the list names the calls that have failed and not succeeded
    since."""
    name = progress["name"]
    stored_pause = pause_at(name, plan.pauses)
    # A step is failed only when all its calls have been made, except those that a person has not approved.
    count = len(items.open) - unapproved_count if progress["status"] == StepStatus.FAILED else len(errors)
    error = failed_items(errors, count, len(items.elements), unapproved_count)
    if isinstance(outcome, Failed):
        step = plan.workflow.step(name) if plan.workflow else None
        pause = pause_after(replace(outcome, error=error), step, name, tool)
    elif not items.open or (isinstance(stored_pause, StepFailed) and not count):
        return plan.pauses_with(name, None)
    elif isinstance(stored_pause, StepFailed):
        pause = replace(stored_pause, error=error)
    else:
        return None  # the other elements still need what the reason says, if there is one
    failures = tuple(FailedItem(index, error) for index, error in sorted(errors.items()))
    details = replace(pause, failed_items=failures, failed_count=count, unapproved_count=unapproved_count)
    return plan.pauses_with(name, details)


def _matching_candidate(
    plan: Plan, call: ContinuationCall, rng: Callable[[], float] | None, ranked: Sequence[Candidate] | None
) -> Candidate | None:
    if call.step is None:
        return choose(candidates(plan, call.tool, call.arguments, call.exact) if ranked is None else ranked, rng)
    for index, step in enumerate(plan.steps):
        if step["name"] == call.step and not plan.has_list(call.step):
            return Candidate(index, step, Rank.EQUAL)
    matches = candidates(plan, call.tool, call.arguments, call.exact)
    return next((candidate for candidate in matches if candidate.name == call.step), None)


def _step_write(
    plan: Plan, candidate: Candidate, call: ContinuationCall, outcome: Outcome, timing: Timing | None
) -> StepWrite | None:
    index, step = candidate.index, candidate.step
    status = StepStatus(step["status"])
    if status is StepStatus.SKIPPED or (status is StepStatus.COMPLETED and isinstance(outcome, Failed)):
        return None
    arguments = stored_call(call.arguments, plan.hidden(step["name"], call.arguments))
    return StepWrite(index, step["name"], status, status_of(outcome), stored_result(outcome), arguments, timing)


def _pauses_after(
    plan: Plan, write: StepWrite, call: ContinuationCall, outcome: Outcome
) -> tuple[JsonObject, ...] | None:
    if isinstance(outcome, Succeeded):
        return plan.pauses_with(write.name, None)
    step = plan.workflow.step(write.name) if plan.workflow else None
    # The key is a digest, from which a short secret could be guessed.
    key = None if plan.hidden(write.name, call.arguments) else call.key
    return plan.pauses_with(write.name, pause_after(outcome, step, write.name, call.tool, key=key))

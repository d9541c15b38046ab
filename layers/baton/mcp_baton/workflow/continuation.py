"""Continuations: how a `tools/call` that names a task is recorded (docs/workflows.md). Pure.

The plan does not restrict calls: a call is recorded as the step that it names, or that its arguments mean, in any
order.
"""

from collections.abc import Collection

from msgspec import Struct
from msgspec.structs import replace

from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.record import (
    EARLY_PREFIX,
    ELEMENTS_PREFIX,
    EXTRA_PREFIX,
    ITEMS_PREFIX,
    StepProgress,
    StepStatus,
)
from mcp_baton.tasks.step_ids import StepId
from mcp_baton.tasks.store import Batch, ListResult, StepWrite, Timing
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.tools.outcomes import Failed, Outcome, Succeeded
from mcp_baton.workflow.host import status_of, stored_result
from mcp_baton.workflow.list_elements import ListElements, failed_items, item_name
from mcp_baton.workflow.pause import (
    ApprovalRequired,
    FailedItem,
    PauseReason,
    StepFailed,
    UnapprovedItem,
    pause_after,
    pause_at,
)
from mcp_baton.workflow.plan import CallArguments, Plan
from mcp_baton.workflow.stored_calls import stored_call


class MatchedStep(Struct, frozen=True):
    """The step, or the element of its list, as which a call is recorded.

    Attributes:
        index: The step's place in the task.
        item: The element.
        is_certain: Whether the call names it, or has arguments that equal those of its call.
    """

    index: int
    step: StepProgress
    item: int | None = None
    is_certain: bool = True

    @property
    def name(self) -> str:
        """The step's name."""
        return self.step["name"]

    @property
    def call_name(self) -> str:
        """The name of its call, for the idempotency key and approvals: that of the step, with the element's index."""
        return self.name if self.item is None else item_name(self.name, self.item)


def named_step(plan: Plan, tool: str, named: StepId) -> MatchedStep | None:
    """The step, or the element of its list, that a call names; `None` if the task has no such step with this tool."""
    steps = enumerate(plan.steps)
    match = next((MatchedStep(index, step, named.index) for index, step in steps if step["name"] == named.step), None)
    if match is None or match.step.get("tool") != tool or (named.index is not None) is not plan.has_list(match.name):
        return None
    return match if named.index is None or named.index < _count_elements(plan, match) else None


def _count_elements(plan: Plan, match: MatchedStep) -> int:
    """How many elements a step's list has, as far as that is known now."""
    if _is_completed(match.step):
        return len(plan.results_of(match.name) or ())
    items = plan.items_of(match.name)
    return len(items.elements) if items else 0


def matching_step(plan: Plan, tool: str, arguments: JsonObject, exact: Collection[str] = ()) -> MatchedStep | None:
    """The step, or the element of its list, that a call means which names no step; `None` for an extra call.

    The rules are those of docs/reference/workflow-rules.md, Which step a continuation means. `exact` as in
    `CallArguments`.
    """
    steps = [MatchedStep(index, step, is_certain=False) for index, step in enumerate(plan.steps)]
    users = [match for match in steps if match.step.get("tool") == tool]
    steps = [match for match in users if not plan.is_skipped(match.step)]
    plain = [match for match in steps if not plan.has_list(match.name)]
    if len(users) == len(plain) == 1:
        return plain[0]  # without reading the values of its arguments
    call = plan.call_arguments(tool, arguments, exact)
    for match in steps:
        if not _is_completed(match.step) and (fitting := _fitting(plan, match, call)):
            return fitting
    completed = [match for match in reversed(plain) if _is_completed(match.step)]
    for match in completed:
        if plan.was_called_with(match.name, call):
            return replace(match, is_certain=True)
    return next(iter([*(match for match in plain if not _is_completed(match.step)), *completed]), None)


def _fitting(plan: Plan, match: MatchedStep, call: CallArguments) -> MatchedStep | None:
    """The open step, or the first open element of its list, whose known arguments equal those of a call."""
    if not plan.has_list(match.name):
        return replace(match, is_certain=True) if plan.fits(match.name, call) else None
    items = plan.items_of(match.name)
    for item in items.open if items else ():
        if items and plan.fits(match.name, call, items.elements[item], item):
            return replace(match, item=item, is_certain=True)
    return None


def is_turn(plan: Plan, match: MatchedStep) -> bool:
    """Whether a step can run now."""
    if plan.workflow is None or plan.known is None:
        return False
    ready = (step for step in plan.workflow.ready(plan.known.statuses) if step.name == match.name)
    decisions = [plan.known.decide_condition(step) for step in ready]
    # A run has decided a condition that needs a secret, which is not stored.
    was_started = isinstance(pause_at(match.name, plan.pauses), StepFailed)
    return any(decision is True or (was_started and decision is not False) for decision in decisions)


def _is_completed(step: StepProgress) -> bool:
    return step["status"] == StepStatus.COMPLETED


class ContinuationCall(Struct, frozen=True):
    """A call of a tool that names a task.

    Attributes:
        step: The step that it means, whose idempotency key the tool receives; `None` for an extra call.
        is_fixed: Whether it is recorded as this step, or as an extra call, and never as another step.
        ignored: What the caller has named as a step, if it was ignored.
        key: The idempotency key that the tool received, if the call timed out.
    """

    tool: str
    arguments: JsonObject
    step: StepId | None = None
    is_fixed: bool = False
    ignored: str | None = None
    exact: tuple[str, ...] = ()
    key: str | None = None


def match_again(plan: Plan, call: ContinuationCall) -> MatchedStep | None:
    """The step of a call, for a task that has changed since the call began.

    A call keeps its step, and its key, unless another call with other arguments has completed the step meanwhile. Then
    the rules decide again. An element that has a result keeps it.
    """
    match = named_step(plan, call.tool, call.step) if call.step else None
    if call.is_fixed:
        return match
    if match is not None and not plan.is_skipped(match.step):
        items = plan.items_of(match.name)
        is_open = not _is_completed(match.step) and not (items and match.item in items.done)
        arguments = plan.call_arguments(call.tool, call.arguments, call.exact)
        if is_open or (match.item is None and plan.was_called_with(match.name, arguments)):
            return match
        if match.item is not None:
            return None
    return matching_step(plan, call.tool, call.arguments, call.exact)


def attempts_for(plan: Plan, tool: str) -> int:
    """How often a continuation tries to write. Other writers change each step of its tool at most twice, and the pause
    reasons: with parallel steps, those of each step. The call of an element loses each race with another call of the
    task."""
    names = [step["name"] for step in plan.steps if plan.is_parallel or step.get("tool") == tool]
    lists = [plan.items_of(name) for name in names if plan.has_list(name)]
    return 2 * len(names) + 8 + sum(len(items.elements) for items in lists if items)


class MadeCall(Struct, frozen=True):
    """A call that was made, to be recorded in its task as it is now.

    Attributes:
        variables: The task's variables, with what the tool has set.
        match: The step as which the call is recorded; `None` for an extra call.
    """

    plan: Plan
    call: ContinuationCall
    outcome: Outcome
    variables: TaskVariables
    match: MatchedStep | None
    timing: Timing | None = None

    def batch(self) -> Batch:
        """The batch that records the call.

        Without a step, the call is recorded as an extra call. So is a call of a skipped step, and a failure of a
        completed step: it never replaces a result.
        """
        match = None if self.match is None or self.plan.is_skipped(self.match.step) else self.match
        if match is not None and match.item is not None:
            batch = self._item_batch(match, match.item)
            if batch is not None:
                return batch
            match = None
        write = self._step_write(match) if match else None
        extra: dict[str, Json] = {f"{EXTRA_PREFIX}{self.call.tool}": stored_result(self._recorded)}
        return Batch(
            steps=(write,) if write else (),
            pauses=self._pauses_after(write) if write else None,
            variables=self.variables.changed | (_early_note(self.plan, write) if write else extra),
            removed=self.variables.removed,
        )

    @property
    def _recorded(self) -> Outcome:
        """The outcome, without the secret arguments that an error may quote."""
        if isinstance(self.outcome, Succeeded):
            return self.outcome
        name, call = self.match.name if self.match else None, self.call
        error = self.plan.without_secrets(name, call.tool, call.arguments, self.outcome.error)
        return replace(self.outcome, error=error)

    def _step_write(self, match: MatchedStep) -> StepWrite | None:
        call, outcome, status = self.call, self._recorded, StepStatus(match.step["status"])
        if status is StepStatus.COMPLETED and isinstance(outcome, Failed):
            return None
        arguments = stored_call(call.arguments, self.plan.hidden(match.name, call.tool, call.arguments))
        result = stored_result(outcome)
        return StepWrite(match.index, match.name, status, status_of(outcome), result, arguments, self.timing)

    def _pauses_after(self, write: StepWrite) -> tuple[JsonObject, ...] | None:
        plan, call, outcome = self.plan, self.call, self._recorded
        if isinstance(outcome, Succeeded):
            return plan.pauses_with(write.name, None)
        # The key is a digest, from which a short secret could be guessed.
        key = None if plan.hidden(write.name, call.tool, call.arguments) else call.key
        pause, before = self._failure_of(outcome, write.name, key), pause_at(write.name, plan.pauses)
        refused = tuple(sorted(before.refused_arguments)) if before else ()
        return plan.pauses_with(write.name, replace(pause, refused=refused))

    def _failure_of(self, failed: Failed, name: str, key: str | None = None) -> StepFailed:
        step = self.plan.workflow.step(name) if self.plan.workflow else None
        return pause_after(failed, step, name, self.call.tool, key=key)

    def _item_batch(self, match: MatchedStep, item: int) -> Batch | None:
        """The batch that records the call of one element; `None` for a failure of one that has a result. The batch
        requires the task as it was read: other calls write the same variable."""
        plan, outcome, name, status = self.plan, self.outcome, match.name, StepStatus(match.step["status"])
        if status is StepStatus.COMPLETED:
            return self._replaced_item_batch(match, item)
        items = plan.items_of(name) or ListElements([], {})
        stored_names = {f"{ITEMS_PREFIX}{name}", f"{ELEMENTS_PREFIX}{name}"}
        if isinstance(outcome, Succeeded):
            replaced = frozenset({item}) if items.stored and item in items.stored.done else frozenset()
            items = replace(items, known={**items.known, item: outcome.value}, dropped=items.dropped | replaced)
        elif item in items.done:
            return None
        steps: tuple[StepWrite, ...] = ()
        notes: dict[str, Json] = {}
        is_done = not items.open
        if is_done:
            result = ListResult() if items.stored else items.in_order
            steps = (StepWrite(match.index, name, status, StepStatus.COMPLETED, result, timing=self.timing),)
            notes = _early_note(plan, steps[0])
        return Batch(
            steps=steps,
            pauses=self._pauses_after_item(match, item, items),
            variables=self.variables.changed | notes,
            lists={name: items.to_write()} if items.stored or not is_done else {},
            removed=self.variables.removed | (stored_names & plan.task.variables.keys() if is_done else set()),
            same_version=True,
        )

    def _replaced_item_batch(self, match: MatchedStep, item: int) -> Batch | None:
        """The batch that replaces the result of an element of a completed list."""
        results = self.plan.results_of(match.name)
        if not isinstance(self.outcome, Succeeded) or results is None:
            return None
        results = [*results[:item], self.outcome.value, *results[item + 1 :]]
        write = StepWrite(match.index, match.name, StepStatus.COMPLETED, StepStatus.COMPLETED, results)
        changed, removed = self.variables.changed, self.variables.removed
        return Batch((write,), variables=changed, removed=removed, same_version=True)

    def _pauses_after_item(self, match: MatchedStep, item: int, items: ListElements) -> tuple[JsonObject, ...] | None:
        """The reasons after the call of an element, with these results. That of the list names the calls that have
        failed and not succeeded since."""
        plan, outcome, name = self.plan, self._recorded, match.name
        stored_pause = pause_at(name, plan.pauses)
        failed = stored_pause.failed_items if isinstance(stored_pause, StepFailed) else ()
        failures = {other.index: other for other in failed}
        unapproved_count, unapproved = _unapproved_after(stored_pause, item, failures)
        earlier = failures.pop(item, None)
        if isinstance(outcome, Failed):
            # A call with other arguments does not make those of the step valid.
            refused = earlier.refused if earlier else ()
            failures[item] = FailedItem(item, outcome.error, refused, outcome.asks_client)
        errors = {index: failure.error for index, failure in failures.items()}
        asks_client = any(failure.asks_client for failure in failures.values())
        count = len(items.open) - unapproved_count if match.step["status"] == StepStatus.FAILED else len(errors)
        if isinstance(stored_pause, StepFailed):  # some calls may not have been made, for lack of time
            is_untold = len(failed) < stored_pause.failed_count and all(
                other.index != item for other in stored_pause.unapproved
            )
            had_failed = earlier is not None or is_untold
            count = stored_pause.failed_count - had_failed + isinstance(outcome, Failed)
        error = failed_items(errors, count, items, unapproved_count)
        if isinstance(outcome, Failed):
            pause = self._failure_of(replace(outcome, error=error, asks_client=asks_client), name)
        elif not items.open or (isinstance(stored_pause, StepFailed) and not count):
            return plan.pauses_with(name, None)
        elif isinstance(stored_pause, StepFailed):
            pause = replace(stored_pause, error=error)
            # Only the first failures are stored.
            if pause.asks_client and not asks_client and len(failed) == stored_pause.failed_count:
                pause = self._failure_of(Failed(error), name)
        elif isinstance(stored_pause, ApprovalRequired) and unapproved:
            return plan.pauses_with(name, stored_pause.of_items(unapproved_count, unapproved))
        else:
            return None  # the other elements still need what the reason says, if there is one
        known_failures = tuple(failures[index] for index in sorted(failures))
        unknown = pause.outcome_unknown or (isinstance(stored_pause, StepFailed) and stored_pause.outcome_unknown)
        details = replace(pause, failed_items=known_failures, failed_count=count, outcome_unknown=unknown)
        return plan.pauses_with(name, replace(details, unapproved_count=unapproved_count, unapproved=unapproved))


def _early_note(plan: Plan, write: StepWrite) -> dict[str, Json]:
    """The note that the result of a step came before other steps that decide its condition."""
    variable, known = f"{EARLY_PREFIX}{write.name}", plan.known
    step = known.workflow.step(write.name) if known else None
    is_early = (
        known is not None
        and step is not None
        and write.status is StepStatus.COMPLETED
        and not isinstance(known.decide_condition(step), bool)
        and step not in known.workflow.ready(known.statuses)
    )
    return {variable: is_early} if is_early or variable in plan.task.variables else {}


def _unapproved_after(
    pause: PauseReason | None, item: int, failures: Collection[int]
) -> tuple[int, tuple[UnapprovedItem, ...]]:
    """How many calls of a list have no approval after the call of this element, and those of them that are stored."""
    if not isinstance(pause, StepFailed | ApprovalRequired):
        return 0, ()
    count, stored = pause.unapproved_count, pause.unapproved
    others = tuple(other for other in stored if other.index != item)
    was_unapproved = others != stored or (len(stored) < count and item not in failures)
    return count - was_unapproved, others

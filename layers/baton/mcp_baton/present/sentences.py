"""The sentences about each state: pauses, skips, refusals, ends, and calls that are not recorded. Pure.

Each state has one entry here, and all readers use it: the handoff, the results of tools and prompts, `tasks/get`, the
command line, the request log and the console's page. Models trust these texts, so values in them are quoted
(`quoting`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, structs

from mcp_baton.exceptions import (
    Conflict,
    OutcomeUnknown,
    StoreBusy,
    StoreError,
    TaskFinished,
    TaskHeld,
    TaskNotFound,
    ValueLost,
)
from mcp_baton.protocol.envelope import TASK_ID_KEY
from mcp_baton.protocol.json import Json, dumps_spaced
from mcp_baton.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST
from mcp_baton.tasks.record import PROGRESS, WAITS, WAITS_FOR, StepStatus, TaskStatus, steps_of, timestamp
from mcp_baton.tools.approval import NotApproved
from mcp_baton.tools.arguments import TASK_ID
from mcp_baton.tools.quoting import encoded_uri, one_line, quoted_error
from mcp_baton.tools.schema.prompt_arguments import ArgumentRefused
from mcp_baton.tools.templates import fill, placeholders
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.ended_run import Persisted
from mcp_baton.workflow.host import Skip
from mcp_baton.workflow.lease import Over, Superseded
from mcp_baton.workflow.pause import (
    REASONS,
    AnswersRequired,
    ApprovalDenied,
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRequired,
    DeadlineExceeded,
    Interrupted,
    OpenQuestion,
    PauseReason,
    Reason,
    SchemaMismatch,
    StepFailed,
    UnresolvableParams,
    UnresolvedDependency,
    Waiting,
)
from mcp_baton.workflow.refusals import DefinitionChanged, NotResumed, TaskUnreadable, WrongWorkflow
from mcp_baton.workflow.repeats import Repeat
from mcp_baton.workflow.steps.step import Step
from mcp_baton.workflow.steps.wait import Wait
from mcp_baton.workflow.times import duration_text

NOTHING_RUN: Final = "Nothing was run"

# Pauses

WAITS_FOR_MODEL: Final = "waits for the model"

CAN_CONTINUE: Final = "can continue"

WAIT_OVER: Final = "its wait is over; continue it"
"""A task whose callback has arrived, or whose time has come."""

PAUSED_FOR_MODEL: Final = f"paused: {WAITS_FOR_MODEL}"
"""The status message of most paused tasks. Their status is `working`, because MCP has no status for it."""


class PauseSentences(Struct, frozen=True):
    """The sentences about one pause reason.

    Attributes:
        short: The reason in a few words, as templates: `{member}` is replaced by a member of the stored form. The first
            template whose members all have values is used. The last one has no members.
        happened: The reason in one or two sentences, for the handoff.
        waits: What the task does, as in "This task waits for the model".
        brief: The short form with what templates cannot express, such as the error.
        in_status: Whether the status message has the short form; otherwise it says what the task waits for.
    """

    short: tuple[str, ...]
    happened: Callable[[Any], str]
    waits: str = WAITS_FOR_MODEL
    in_status: bool = False
    brief: Callable[[Any], str] | None = None


def _unresolvable(reason: UnresolvableParams) -> str:
    note = f": {reason.problem}" if reason.problem else ""
    if reason.condition:
        return f"Step '{reason.step}' could not start: its condition {one_line(reason.condition)} has no result{note}."
    return f"Step '{reason.step}' could not start: no value was found for its argument '{reason.missing_param}'{note}."


def _mismatch(reason: SchemaMismatch) -> str:
    names = ", ".join(f"'{name}'" for name in reason.missing_fields)
    value, pronoun = ("a value", "it") if len(reason.missing_fields) == 1 else ("values", "them")
    missing_text = f"Step '{reason.step}' needs {value} for {names}. No earlier step provides {pronoun}."
    refused_text = f"Step '{reason.step}' could not start: its tool does not accept its arguments."
    fields = [f"Invalid: {quoted_error(item.field)} ({quoted_error(item.problem)})." for item in reason.shown_fields]
    return " ".join([missing_text if names else refused_text, *fields])


def _failed(reason: StepFailed) -> str:
    error = quoted_error(reason.error)
    if reason.resource is None:
        return f"Step '{reason.step}' failed: {error}. {failure_hint(reason)}"
    call = " Its tool was not called." if reason.suggested_tool else ""
    unread = f"the resource {encoded_uri(reason.resource)} could not be read"
    return f"Step '{reason.step}' failed: {unread}: {error}.{call} {failure_hint(reason)}"


def _failed_briefly(reason: StepFailed) -> str:
    cause = "the step failed" if reason.resource is None else f"cannot read {reason.resource}"
    return f"{cause}: {reason.error}"


def failure_hint(reason: StepFailed) -> str:
    """What to do about a failure."""
    if reason.outcome_unknown:
        key = f" (idempotency key {reason.idempotency_key})" if reason.idempotency_key else ""
        again = "This step is retryable." if reason.retryable else "If it did not, the same call can be made again."
        return f"It may still have happened: check whether it happened{key}. {again}"
    if reason.asks_client:
        return "Its tool asks the client for input. Call it as below: nothing has to be corrected first."
    if reason.is_for_the_operator:
        return (
            "This step is not retryable, and only the server's log says why it failed: tell the user, with the "
            f"error id {reason.error_id}."
        )
    if reason.retryable:
        return "This step is retryable."
    return "This step is not retryable: correct the cause first."


def _dependency(reason: UnresolvedDependency) -> str:
    problem = f"is not available: {reason.reason}" if reason.reason else "does not exist"
    output = f"the output '{reason.missing_output}' of step '{reason.producing_step}'"
    return f"Step '{reason.step}' could not start: it needs {output}, which {problem}."


def _questions(reason: AnswersRequired) -> str:
    return " ".join([f"Step '{reason.step}' needs an answer.", *map(_question, reason.questions)])


def _question(question: OpenQuestion) -> str:
    text = quoted_error(question.question)
    if question.of == "model":
        return f"Question '{question.name}': {text}."
    return f"Question '{question.name}' to the user: {text}. Ask the user, unless the conversation has the answer."


def _not_approved(reason: ApprovalRequired | ApprovalDenied) -> str:
    approval = NotApproved(reason.approval_id, reason.audience, reason.message, reason.expires_at, reason.reason)
    denied = isinstance(reason, ApprovalDenied)
    return f"Step '{reason.step}' did not run: {approval.denied() if denied else approval.waits()}"


def _approved(reason: ApprovalGranted) -> str:
    message = quoted_error(reason.message)
    return f"A person of the group {reason.audience!r} has approved the call of step '{reason.step}': {message}."


def _expired(reason: ApprovalExpired) -> str:
    return (
        f"The approval of the call of step '{reason.step}' expired at {reason.expires_at}: "
        f"{quoted_error(reason.message)}. The next attempt requests another one."
    )


def _waiting(reason: Waiting) -> str:
    callback = "for a callback of another system, " if reason.waits_for == "callback" else ""
    if reason.over:
        cause = "its callback has arrived, or its time has come" if callback else "its time has come"
        return f"The wait of step '{reason.step}' is over: {cause}."
    return f"Step '{reason.step}' waits {callback}until {reason.until}. Until then, nothing needs to be done."


def _waits_briefly(reason: Waiting) -> str:
    if reason.over:
        return WAIT_OVER
    callback = "for a callback " if reason.waits_for == "callback" else ""
    return f"waits {callback}until {reason.until}"


def _out_of_time(reason: DeadlineExceeded) -> str:
    return f"The server ran out of time before step '{reason.step}'. Nothing failed."


def _interrupted(reason: Interrupted) -> str:
    return (
        f"The run was interrupted at step '{reason.step}' or later, and what it did was not recorded: this step and "
        "those after it may have run. Check before you repeat them."
    )


PAUSE_SENTENCES: Final[Mapping[type[Reason], PauseSentences]] = {
    UnresolvableParams: PauseSentences(("missing {missingParam}", "a value is missing"), _unresolvable),
    SchemaMismatch: PauseSentences(
        ("missing {missingFields}", "a value is missing or invalid"), _mismatch, brief=SchemaMismatch.as_error
    ),
    StepFailed: PauseSentences(("cannot read {resource}", "the step failed"), _failed, brief=_failed_briefly),
    UnresolvedDependency: PauseSentences(
        ("needs {missingOutput} of step {producingStep}", "an earlier result is missing"), _dependency
    ),
    AnswersRequired: PauseSentences(("needs an answer",), _questions),
    ApprovalRequired: PauseSentences(
        ("waits for an approval of {audience}", "waits for an approval"),
        _not_approved,
        waits="waits for a person",
        in_status=True,
    ),
    ApprovalDenied: PauseSentences(
        ("denied by {audience}", "denied"), _not_approved, waits="cannot continue", in_status=True
    ),
    ApprovalGranted: PauseSentences(
        ("approved by {audience}", "approved"), _approved, waits=CAN_CONTINUE, in_status=True
    ),
    ApprovalExpired: PauseSentences(
        ("the approval of {audience} has expired", "the approval has expired"),
        _expired,
        waits=CAN_CONTINUE,
        in_status=True,
    ),
    Waiting: PauseSentences(
        ("waits until {until}", "waits"),
        _waiting,
        waits="waits for a {for}",
        in_status=True,
        brief=_waits_briefly,
    ),
    DeadlineExceeded: PauseSentences(("out of time",), _out_of_time),
    Interrupted: PauseSentences(("the run was interrupted",), _interrupted),
}


def what_happened(reasons: Iterable[PauseReason]) -> list[str]:
    """Each reason in one or two sentences, for the handoff. A question of several steps is asked once."""
    texts, asked = list[str](), set[str]()
    for reason in reasons:
        if isinstance(reason, AnswersRequired):
            new_questions = tuple(question for question in reason.questions if question.name not in asked)
            asked |= {question.name for question in reason.questions}
            texts.append(_questions(structs.replace(reason, questions=new_questions)))
        else:
            texts.append(PAUSE_SENTENCES[type(reason)].happened(reason))
    return texts


def short_form(reason: PauseReason) -> str:
    """The reason in a few words, with the error or the invalid fields: `missing reader`."""
    sentences = PAUSE_SENTENCES[type(reason)]
    if sentences.brief is not None:
        return sentences.brief(reason)
    members = {name: _joined(value) for name, value in reason.to_json().items() if value}
    template = next(candidate for candidate in sentences.short if placeholders(candidate) <= members.keys())
    return fill(template, members)


def waits_text(reasons: Iterable[PauseReason]) -> str:
    """What a paused task does: `waits for the model`. Without a reason that this version of Baton knows, too."""
    return " and ".join(dict.fromkeys(map(_waits_for, reasons))) or WAITS_FOR_MODEL


def _waits_for(reason: PauseReason) -> str:
    if not isinstance(reason, Waiting):
        return PAUSE_SENTENCES[type(reason)].waits
    if reason.over:
        return CAN_CONTINUE
    return fill(PAUSE_SENTENCES[Waiting].waits, {"for": "callback" if reason.waits_for == "callback" else "time"})


def status_line(reasons: Sequence[PauseReason]) -> str:
    """The status message of a paused task: what each stopped step waits for. Without reasons as in `waits_text`."""
    if len(reasons) < 2:
        return f"paused: {_state(reasons[0])}" if reasons else PAUSED_FOR_MODEL
    over = [isinstance(reason, Waiting) and reason.over for reason in reasons]
    states = [CAN_CONTINUE if is_over else _state(reason) for reason, is_over in zip(reasons, over, strict=True)]
    return f"paused: {joined_states(states)}"


def suspended_line(reasons: Iterable[PauseReason]) -> str:
    """The status message of a background call that waits: what each stopped step waits for."""
    return joined_states(map(_suspended_state, reasons))


def _suspended_state(reason: PauseReason) -> str:
    match reason:
        case ApprovalRequired():
            return f"{WAITS} of {reason.audience} until {reason.expires_at}"
        case Waiting(over=False):
            return f"{WAITS_FOR[reason.waits_for]} {reason.until} (step {reason.step})"
        case _:
            return short_form(reason)


def _state(reason: PauseReason) -> str:
    return short_form(reason) if PAUSE_SENTENCES[type(reason)].in_status else WAITS_FOR_MODEL


def joined_states(texts: Iterable[str]) -> str:
    """What several steps wait for, each once, as a status message."""
    states = list(dict.fromkeys(texts))
    rest = [f"{len(states) - MAX_STEPS_NAMED} more"] if len(states) > MAX_STEPS_NAMED else []
    return "; ".join([*states[:MAX_STEPS_NAMED], *rest])


def _joined(value: Json) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def reasons_by_type() -> dict[str, dict[str, Json]]:
    """What the console's page needs to know of each reason, by its `type`."""
    return {
        str(kind.__struct_config__.tag): {
            "short": list(PAUSE_SENTENCES[kind].short),
            "waits": PAUSE_SENTENCES[kind].waits,
            "remedy": kind.remedy.value,
            "is_failure": kind.is_failure,
        }
        for kind in REASONS
    }


# Skips

SKIPS: Final[Mapping[Skip, Callable[[Step], str]]] = {
    # The definition may have lost its condition since.
    Skip.CONDITION: lambda step: (
        "its condition is false" if step.when is None else f"its condition {one_line(str(step.when))} is false"
    ),
    Skip.NO_CALLBACK: lambda step: (
        "no callback came in time"
        if not isinstance(step, Wait) or step.callback is None
        else f"no callback came within {duration_text(step.callback.within)}"
    ),
}


def skipped_text(step: Step, skip: Skip) -> str:
    return f"Step '{step.name}' is skipped: {SKIPS[skip](step)}."


# Progress


def is_settled(status: str) -> bool:
    return StepStatus(status).settled


def progress_text(statuses: Sequence[str], verb: str = "") -> str:
    """How many steps are settled: `2 of 3 steps`, and how many of them were skipped.

    Args:
        verb: Comes after the number, such as ` are done`.
    """
    count = sum(map(is_settled, statuses))
    noun = "step" if len(statuses) == 1 else "steps"
    return f"{count} of {len(statuses)} {noun}{verb}{skipped_count(statuses)}"


def skipped_count(statuses: Iterable[str]) -> str:
    """The part of a sentence about the settled steps that says how many of them were skipped; empty for none."""
    count = sum(status == StepStatus.SKIPPED for status in statuses)
    return f", {count} of them skipped" if count else ""


def all_done_text(statuses: Sequence[str]) -> str:
    return f"All {len(statuses)} steps are done{skipped_count(statuses)}"


# Refusals: why a run was not started


class Refusal(Struct, frozen=True):
    """Why a run was not started, for two readers.

    Attributes:
        text: For a model, with what to do: the result of the workflow's tool.
        message: For a client: the error of `prompts/get`, with its `code` and `data`.
    """

    text: str
    message: str
    code: int = INVALID_PARAMS
    data: Json = None


def refusal_of(error: NotResumed | ArgumentRefused, workflow: Workflow, task_id: str, now_ms: int) -> Refusal:
    new_start = f"call {workflow.name} without {TASK_ID} to start anew"
    match error:
        case ArgumentRefused(problem=problem):
            corrected = f"call {workflow.name} again with arguments that its input schema allows"
            return Refusal(f"{sentence(problem)} {NOTHING_RUN}: {corrected}.", error.message, error.code, error.data)
        case StoreBusy(retry_after_ms=after_ms):
            return Refusal(
                f"The server is busy. {NOTHING_RUN}: make the same call again in {-(-after_ms // 1000)} s.",
                "busy; nothing was run",
                INTERNAL_ERROR,
                {"retryAfterMs": after_ms},
            )
        case TaskHeld(until_ms=until_ms, current=task):
            until, seconds = timestamp(until_ms), max((until_ms - now_ms + 999) // 1000, 1)
            count = progress_text([step["status"] for step in steps_of(task)], " are done so far")
            again = f"call {workflow.name} again in {seconds} s with {dumps_spaced({TASK_ID: task_id})}"
            cause = f"Another run holds the task until {until} or longer; nothing was run"
            return Refusal(
                f"Another run holds this task until {until} or longer; {count}. {NOTHING_RUN}: {again}.",
                f"{cause}: read the task, or send the request again then",
                INVALID_REQUEST,
                {"status": task.status.value, "progress": task.variables.get(PROGRESS), "runningUntil": until},
            )
        case TaskUnreadable(error=ValueLost() as lost):
            return Refusal(
                f"The task cannot continue, because its arguments are lost: {lost}. {NOTHING_RUN}: {new_start}.",
                f"The task cannot be resumed, because its arguments are lost: {lost}. {NOTHING_RUN}.",
                INTERNAL_ERROR,
            )
        case TaskUnreadable():
            # Without the stored state, a resume would repeat completed steps.
            return Refusal(
                f"The task's state cannot be read now. {NOTHING_RUN}: make the same call again later.",
                "The task store is not available; nothing was run. Send the same request again.",
                INTERNAL_ERROR,
            )
        case TaskNotFound():
            causes = "it never existed, it has expired, or it belongs to another caller"
            return Refusal(
                f"There is no such task: {causes}. {NOTHING_RUN}: {new_start}, with all its arguments.", UNKNOWN_TASK
            )
        case TaskFinished(current=task):
            count = progress_text([step["status"] for step in steps_of(task)], " were done")
            return Refusal(
                f"This task is {task.status.value}; {count}. {NOTHING_RUN}: {new_start}.",
                f"The task is {task.status.value}; there is nothing to continue",
            )
        case WrongWorkflow():
            return Refusal(
                f"This task is not one of this workflow. {NOTHING_RUN}: {new_start}.",
                f"Invalid params: `_meta.{TASK_ID_KEY}` is not a task of this workflow",
            )
        case DefinitionChanged(steps=steps):
            names = ", ".join(steps)
            change = f"The workflow has changed since this task was started, in steps that it has completed: {names}"
            return Refusal(
                f"{change}. {NOTHING_RUN}: {new_start}, or make the remaining calls yourself.",
                "The workflow has changed since the task was started; these steps are completed and differ now: "
                f"{names}",
            )


UNKNOWN_TASK: Final = "Unknown task"


def sentence(problem: str) -> str:
    """Turn a problem into a sentence."""
    return f"{problem if problem.startswith('task_') else problem[0].upper() + problem[1:]}."


def unchanged_text(status: TaskStatus, subject: str = "This task") -> str:
    """A finished task that a request wanted to change."""
    return f"{subject} is {status.value}: nothing changes it"


# Ends of runs

TASK_ENDS: Final[Mapping[TaskStatus | None, str]] = {
    TaskStatus.CANCELLED: "The task was cancelled",
    TaskStatus.COMPLETED: "Another request completed the task",
    TaskStatus.FAILED: "The task became 'failed'",
    None: "The task expired or was deleted",
}
"""What ended a task while a run of it was under way, by the status of the task; `None` if it is gone."""

SUPERSEDED: Final[Mapping[Persisted, str]] = {
    True: "Its results are recorded; read the task for its state.",
    False: "Some of its results are not recorded, and those steps may have run twice; read the task for its state.",
    "unknown": "Whether its results are recorded is not known; read the task for its state.",
}
"""The sentence about a superseded run, by whether the store has its results."""


def end_text(over: Over, persisted: Persisted) -> str:
    """Why a run cannot write to its task any more."""
    if isinstance(over, Superseded):
        taken = "This run was superseded: its claim expired, and another run has taken over the task."
        return f"{taken} {SUPERSEDED[persisted]}"
    return f"{TASK_ENDS[over.status]} while this run was under way."


# Calls that are not recorded

UNRECORDED: Final[Mapping[type[StoreError], str]] = {
    TaskNotFound: "unknown task",
    Conflict: "the task kept changing; make the call again",
    OutcomeUnknown: "the task store's answer was lost; look at the task before you make the call again",
    StoreError: "the task store is not available",
}
"""Why a continuation was not recorded, or may not have been, by the error of the store."""

NOT_MADE: Final = "nothing was run"


def unrecorded_reason(error: StoreError) -> str:
    if isinstance(error, TaskFinished):
        return str(error)
    return next(text for kind, text in UNRECORDED.items() if isinstance(error, kind))


# Steps that may run more than once

MAX_STEPS_NAMED: Final = 5
"""The most steps that a sentence names."""

WHY_REPEATED: Final[Mapping[bool, str]] = {
    True: "an earlier run ended before it recorded what it did",
    False: "another run of this task has not recorded what it did",
}
"""Why steps may run more than once, by whether an earlier run was interrupted."""


def may_have_run(repeats: Sequence[Repeat], was_interrupted: bool = True) -> list[str]:
    """The sentences that say which open steps may have run; none if there are no such steps."""
    if not repeats:
        return []
    pronoun = "it" if len(repeats) == 1 else "them"
    return [
        f"{_subject(repeats)} may already have run: {WHY_REPEATED[was_interrupted]}. Check before you repeat {pronoun}."
    ]


def may_have_run_twice(repeats: Sequence[Repeat], was_interrupted: bool = True) -> list[str]:
    """The sentence that says which steps a run or a call may have repeated; none if there are no such steps."""
    return [f"{_subject(repeats)} may have run twice: {WHY_REPEATED[was_interrupted]}."] if repeats else []


def repeats_text(repeats: Sequence[Repeat]) -> str:
    """The steps with their keys."""
    names = [
        f"'{call.step}'" + (f" (idempotency key {call.key})" if call.key else "") for call in repeats[:MAX_STEPS_NAMED]
    ]
    remaining = [f"{len(repeats) - MAX_STEPS_NAMED} more"] if len(repeats) > MAX_STEPS_NAMED else []
    *others, last = [*names, *remaining]
    return f"{', '.join(others)} and {last}" if others else last


def _subject(repeats: Sequence[Repeat]) -> str:
    return f"{'Step' if len(repeats) == 1 else 'Steps'} {repeats_text(repeats)}"

"""The sentences about each state: skips, refusals, ends, and calls that are not recorded; `pause_sentences` has those
about pauses. Pure.

Each state has one entry here, and all readers use it: the handoff, the results of tools and prompts, `tasks/get`, the
command line, the request log and the console's page. Models trust these texts, so values in them are quoted
(`quoting`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

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
from mcp_baton.tasks.record import PROGRESS, Job, JobSpec, StepStatus, TaskRecord, TaskStatus, steps_of, timestamp
from mcp_baton.tools.arguments import TASK_ID
from mcp_baton.tools.quoting import one_line
from mcp_baton.tools.schema.prompt_arguments import ArgumentRefused
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.ended_run import Persisted
from mcp_baton.workflow.host import Skip
from mcp_baton.workflow.lease import Over, Superseded
from mcp_baton.workflow.refusals import DefinitionChanged, NotResumed, TaskUnreadable, WrongWorkflow
from mcp_baton.workflow.repeats import Repeat
from mcp_baton.workflow.steps.step import Step
from mcp_baton.workflow.steps.wait import Wait
from mcp_baton.workflow.times import duration_text

NOTHING_RUN: Final = "Nothing was run"

# Skips

SKIPS: Final[Mapping[Skip, Callable[[Step], str]]] = {
    # The definition may have lost its condition since.
    Skip.CONDITION: lambda step: (
        "its condition is false" if step.when is None else f"its condition {one_line(step.when.text)} is false"
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
        verb: Comes after the number, such as ` done`.
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


def refusal_of(
    error: NotResumed | ArgumentRefused, workflow: Workflow, now_ms: int, unnamed_id: str | None = None
) -> Refusal:
    """Return the refusal of a call.

    Args:
        unnamed_id: The task, if the client's call has not named it.
    """
    new_start = f"call {workflow.name} without {TASK_ID} to start anew"
    match error:
        case ArgumentRefused(problem=problem):
            corrected = f"call {workflow.name} again with arguments that its input schema allows"
            return Refusal(f"{sentence(problem)} {NOTHING_RUN}: {corrected}.", error.message, error.code, error.data)
        case StoreBusy(retry_after_ms=after_ms):
            text = f"The server is busy. {NOTHING_RUN}: make the same call again in {-(-after_ms // 1000)} s."
            return Refusal(text, "busy; nothing was run", INTERNAL_ERROR, {"retryAfterMs": after_ms})
        case TaskHeld():
            return _held(error, workflow, now_ms, unnamed_id)
        case TaskUnreadable(error=cause):
            return _unreadable(cause, new_start)
        case TaskNotFound():
            causes = "it never existed, it has expired, or it belongs to another caller"
            return Refusal(
                f"There is no such task: {causes}. {NOTHING_RUN}: {new_start}, with all its arguments.", UNKNOWN_TASK
            )
        case (
            TaskFinished(current=TaskRecord(job=Job(work=JobSpec(workflow_task=str()) as call)))
            | WrongWorkflow(task=TaskRecord(job=Job(work=JobSpec(workflow_task=str()) as call)))
        ):
            return _background_call(call)
        case TaskFinished(current=task):
            count = progress_text([step["status"] for step in steps_of(task)], " done")
            return Refusal(
                f"This task is {task.status.value}; {count}. {NOTHING_RUN}: {new_start}.",
                f"The task is {task.status.value}; there is nothing to continue",
            )
        case WrongWorkflow(task=task):
            other = f"it is one of {task.workflow!r}" if task.workflow else "it is a call of a tool"
            return Refusal(
                f"This task is not one of this workflow. {NOTHING_RUN}: {new_start}.",
                f"Invalid params: `_meta.{TASK_ID_KEY}` is not a task of this workflow; {other}",
            )
        case DefinitionChanged(steps=steps):
            change = "The workflow has changed since this task was started, in steps that it has completed"
            return Refusal(
                f"{change}: {names_text(steps)}. {NOTHING_RUN}: {new_start}, or make the remaining calls yourself.",
                "The workflow has changed since the task was started; these steps are completed and differ now: "
                + ", ".join(steps),
            )


def _background_call(call: JobSpec) -> Refusal:
    # Such a call has its own task in addition to the workflow's. If the model started anew, it would run twice.
    text = f"This task is a call of {call.tool} in the background"
    resume = dumps_spaced({TASK_ID: call.workflow_task})
    return Refusal(
        f"{text}. {NOTHING_RUN}: call {call.tool} with {resume}.",
        f"{text}, and nothing was run: name the workflow's own task, {call.workflow_task}",
    )


def _held(error: TaskHeld, workflow: Workflow, now_ms: int, unnamed_id: str | None) -> Refusal:
    task, until = error.current, timestamp(error.until_ms)
    seconds = max((error.until_ms - now_ms + 999) // 1000, 1)
    count = progress_text([step["status"] for step in steps_of(task)], " done so far")
    # A call that names the task may have answers or other arguments, of which nothing was stored.
    again = f"make the same call again in {seconds} s"
    if unnamed_id is not None:
        again = f"call {workflow.name} again in {seconds} s with {dumps_spaced({TASK_ID: unnamed_id})}"
    cause = f"Another run holds the task until {until} or longer; nothing was run"
    return Refusal(
        f"Another run holds this task until {until} or longer; {count}. {NOTHING_RUN}: {again}.",
        f"{cause}: read the task, or send the request again then",
        INVALID_REQUEST,
        {"status": task.status.value, "progress": task.variables.get(PROGRESS), "runningUntil": until},
    )


def _unreadable(cause: StoreError, new_start: str) -> Refusal:
    if isinstance(cause, ValueLost):
        return Refusal(
            f"The task cannot continue, because its arguments are lost: {cause}. {NOTHING_RUN}: {new_start}.",
            f"The task cannot be resumed, because its arguments are lost: {cause}. {NOTHING_RUN}.",
            INTERNAL_ERROR,
        )
    # Without the stored state, a resume would repeat completed steps.
    return Refusal(
        f"The task's state cannot be read now. {NOTHING_RUN}: make the same call again later.",
        "The task store is not available; nothing was run. Send the same request again.",
        INTERNAL_ERROR,
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
    "unknown": "It is not known whether its results are recorded; read the task for its state.",
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


# Steps

MAX_STEPS_NAMED: Final = 5
"""The most steps that a sentence names with what is said of each."""

MAX_NAMES: Final = 10
"""The most names of steps in a sentence."""


def names_text(names: Sequence[str]) -> str:
    """The names of steps, as far as a sentence has room for them."""
    rest = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + rest


# Steps that may run more than once

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

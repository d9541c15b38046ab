"""What a workflow's tool says, for a model that sees nothing else: under 2 KB (docs/workflows.md, As a tool). Pure.

What comes from outside is quoted in it, as in the handoff: results, too, since here nobody but Baton speaks.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from mcp_baton.protocol.json import Json, dumps_spaced
from mcp_baton.tasks.record import StepStatus, TaskStatus
from mcp_baton.workflow.definition import TASK_ID, Step, Workflow
from mcp_baton.workflow.ended_run import EndedRun, Over, Superseded, TaskOver
from mcp_baton.workflow.handoff import (
    Requirements,
    call_of,
    frame_of,
    lost_results,
    remaining_steps,
    secrets_given,
)
from mcp_baton.workflow.host import Succeeded
from mcp_baton.workflow.pause import PauseReason
from mcp_baton.workflow.quoting import LONGEST as LONG
from mcp_baton.workflow.quoting import one_line
from mcp_baton.workflow.repeats import Repeat, may_have_run, may_have_run_twice
from mcp_baton.workflow.resolve import Known
from mcp_baton.workflow.task_ids import Handle
from mcp_baton.workflow.trace import not_recorded, what_became

LIMIT: Final = 2_000
"""Bytes of a text, as UTF-8."""

LIMIT_OF_EVENT: Final = 700
"""Bytes of the sentences that say what happened."""

SHORT: Final = 80
"""Characters of JSON that a value may have in the first call, where the call does not fit otherwise."""

_ROOM_FOR_COUNT: Final = 40

NO_TASK: Final = "This run has no task, so the server cannot go on with it: make the calls yourself."

type Where = Callable[[str], str | None]
"""Of a step's name: the URI where its result can be read; `None` where it cannot."""


class Value(Struct, frozen=True):
    """A value that a text tells of.

    Attributes:
        name: How the text calls it.
        value: The value; `None` where it is not at hand, for it is long.
        uri: Where it can be read, if it can.
        text_bytes: The length of its JSON text.
    """

    name: str
    value: Json
    uri: str | None = None
    text_bytes: int = 0


def told_of_run(run: EndedRun, known: Known, tools: Requirements, handle: Handle | None, where: Where) -> str:
    """What a run did; paused, the calls that remain.

    Args:
        run: The run.
        known: What is known at its end, and of what continuations did meanwhile.
        tools: Knows what the tools require.
        handle: Names the task; `None` for a run without one.
        where: Where results can be read.
    """
    if isinstance(run.stop, TaskOver | Superseded):
        return cut(" ".join([what_became(run, run.stop), *_going_on(run, run.stop, known, handle)]))
    if run.pause:
        return _paused(run, run.pause, known, tools, handle)
    notes = [*may_have_run_twice(run.twice), *_notes(run)]
    last = [trace for trace in run.traces if trace.step.tool is not None and isinstance(trace.outcome, Succeeded)][-1:]
    values = [
        Value(f"Result of {trace.step.tool}", trace.outcome.value, where(trace.step.name))
        for trace in last
        if isinstance(trace.outcome, Succeeded)
    ]
    return _with_values(_done(list(run.statuses.values())), values, notes)


def open_before(run: EndedRun, known: Known) -> list[Repeat]:
    """The steps that are still open and that an earlier run may have run."""
    return [it for it in run.before if not known.statuses[it.step].settled]


def told_of_held(workflow: Workflow, statuses: Sequence[StepStatus], until: str, seconds: int, task_id: str) -> str:
    """That another run holds the task, and when to ask again."""
    again = f"call {workflow.name} again in {seconds} s with {dumps_spaced({TASK_ID: task_id})}"
    return (
        f"Another run holds this task until {until} or longer; {_done_of(statuses)} are done so far. "
        f"Nothing was run: {again}."
    )


def told_of_over(
    workflow: Workflow, status: TaskStatus, statuses: Sequence[StepStatus], values: Sequence[Value]
) -> str:
    """That the task is over, and with what."""
    if status is TaskStatus.COMPLETED:
        head = f"{_done(statuses)} This task is completed; nothing was run."
    else:
        anew = f"call {workflow.name} without {TASK_ID} to start anew"
        head = f"This task is {status.value}; {_done_of(statuses)} were done. Nothing was run: {anew}."
    return _with_values(head, values, [])


def cut(text: str, most: int = LIMIT) -> str:
    """A text of at most so many bytes."""
    data = text.encode(errors="replace")
    return text if len(data) <= most else f"{data[: most - 4].decode(errors='ignore')} …"


def _going_on(run: EndedRun, over: Over, known: Known, handle: Handle | None) -> list[str]:
    """How to learn what became of a task that others have completed, or go on with."""
    ended = isinstance(over, TaskOver) and over.status is not TaskStatus.COMPLETED
    if handle is None or ended:
        return []
    return [handle.offer(run.workflow.name, secrets_given(run.workflow, known), begin="")]


def _paused(run: EndedRun, pause: PauseReason, known: Known, tools: Requirements, handle: Handle | None) -> str:
    if not remaining_steps(run.workflow, known):
        finish = [f"All {len(known.statuses)} steps are done. {handle.finish()}"] if handle else []
        return "\n\n".join([_event(pause, known), *may_have_run_twice(run.twice), *finish])
    frame = frame_of(pause, run.workflow, known, handle if run.stored else None)
    before = open_before(run, known)
    lost = " ".join(lost_results(known, pause))
    head = [_event(pause, known), *([cut(lost, LIMIT_OF_EVENT)] if lost else [])]
    head += [*may_have_run_twice(run.twice), *may_have_run(before), *frame.before]
    tail = [*_notes(run), *frame.after]
    if not frame.steps:
        return "\n\n".join([*head, *tail])
    room = LIMIT - _size("\n\n".join([*head, *tail])) - _ROOM_FOR_COUNT
    calls: list[str] = []
    for number, step in enumerate(frame.steps, 1):
        wordings = _wordings(step, run.workflow, known, pause, tools, handle)
        fitting = (text for text in wordings if _size(text) + 6 <= room)
        # Of the first call something must stand there; the others can follow with later results.
        text = next(fitting, None) if number == 1 else _if_fits(next(wordings), room)
        if text is None:
            break
        calls.append(f"{number}. {text}")
        room -= _size(calls[-1]) + 2
    left = len(frame.steps) - len(calls)
    more = [f"And {left} more after {'this' if len(calls) == 1 else 'these'}."] if left else []
    return "\n\n".join([*head, *calls, *more, *tail])


def _event(pause: PauseReason, known: Known) -> str:
    if known.statuses[pause.step].settled:
        return cut(f"Another call has completed step '{pause.step}' while this run was under way.", LIMIT_OF_EVENT)
    return cut(pause.what_happened(), LIMIT_OF_EVENT)


def _wordings(
    step: Step, workflow: Workflow, known: Known, pause: PauseReason, tools: Requirements, handle: Handle | None
) -> Iterator[str]:
    """What is left to be done of a step, in fewer and fewer words."""
    yield call_of(step, workflow, known, pause, tools, handle=handle)
    yield call_of(step, workflow, known, pause, tools, handle=handle, longest=SHORT)
    short = call_of(step, workflow, known, pause, tools, handle=handle, longest=SHORT)
    yield short.partition("\n")[0]
    if step.tool is None:
        yield f"Read the resources of step '{cut(step.name, LONG)}'"
    else:
        instead = ": let the server make it" if handle and handle.twin else ""
        yield f"A call of {step.tool}, whose arguments are too long to stand here{instead}"


def _if_fits(text: str, room: int) -> str | None:
    return text if _size(text) + 6 <= room else None


def _notes(run: EndedRun) -> list[str]:
    if run.task is None:
        return [NO_TASK] if run.pause else []
    return not_recorded(run)


def _with_values(head: str, values: Sequence[Value], notes: Sequence[str]) -> str:
    room = LIMIT - _size("\n".join([head, *notes]))
    lines = []
    for value in values:
        lines.append(_line(value, room))
        room -= _size(lines[-1]) + 1
    return "\n".join([head, *lines, *notes])


def _line(value: Value, room: int) -> str:
    """A value as JSON on one line; where that does not fit, where it can be read, or its beginning."""
    if value.text_bytes == 0:
        text = one_line(value.value)
        if _size(text) + _size(value.name) + 3 <= room:
            return f"{value.name}: {text}"
        if value.uri is None:
            return cut(f"{value.name}: {text}", max(room - 1, 0))
    size = value.text_bytes or _size(dumps_spaced(value.value))
    return cut(f"{value.name}: {size} bytes, which can be read as the resource {value.uri}", max(room - 1, 0))


def _done(statuses: Sequence[StepStatus]) -> str:
    return f"Done: {_done_of(statuses)}."


def _done_of(statuses: Sequence[StepStatus]) -> str:
    completed = sum(status is StepStatus.COMPLETED for status in statuses)
    return f"{completed} of {len(statuses)} {'step' if len(statuses) == 1 else 'steps'}"


def _size(text: str) -> int:
    return len(text.encode(errors="replace"))

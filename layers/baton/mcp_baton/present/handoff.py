"""The handoff: what happened in a run, and what to do next, for the model that continues it. Pure.

Models trust the assistant's messages, so all values in the handoff are quoted (`quoting`).
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from mcp_baton.present.fit import MAX_EVENT_BYTES, MAX_TEXT_BYTES, bytes_of, cut, fit
from mcp_baton.present.pause_sentences import what_happened, what_happened_within
from mcp_baton.present.sentences import (
    all_done_text,
    end_text,
    may_have_run,
    may_have_run_twice,
    names_text,
    repeats_text,
)
from mcp_baton.protocol.json import Json, JsonObject, dumps_spaced
from mcp_baton.tasks.record import StepStatus, TaskStatus, is_early
from mcp_baton.tools.arguments import TASK_ID
from mcp_baton.tools.quoting import MAX_QUOTED_CHARS, one_line, quoted_error, quoted_guidance
from mcp_baton.workflow.definition import TASK_ACTION, Workflow
from mcp_baton.workflow.ended_run import EndedRun
from mcp_baton.workflow.handle import Handle
from mcp_baton.workflow.lease import Over, Superseded, TaskOver
from mcp_baton.workflow.pause import (
    WAITING_REMEDIES,
    AnswersRequired,
    PauseReason,
    Remedy,
    StepFailed,
    UnresolvedDependency,
    Waiting,
    pause_at,
)
from mcp_baton.workflow.remaining import RemainingCalls, Requirements, uris_of
from mcp_baton.workflow.repeats import Repeat
from mcp_baton.workflow.resolve import KnownValues
from mcp_baton.workflow.steps.list_step import ListStep
from mcp_baton.workflow.steps.step import Step
from mcp_baton.workflow.steps.wait import Wait

MAKE_THESE_CALLS: Final = "To continue the workflow, make these tool calls:"
CORRECTED_MAKE_THESE_CALLS: Final = "When the cause is corrected, make these tool calls:"
UNKNOWN_MAKE_THESE_CALLS: Final = "If it did not happen, make these tool calls:"

MAX_CALLS_SHOWN: Final = 5
"""The most calls of one list that a text shows."""

SHORT_VALUE_CHARS: Final = 80
"""Characters of JSON that a value may have in the first call, if the call does not fit otherwise."""

NUMBER_BYTES: Final = 6
"""The number before a call, and the empty line after it."""

COUNT_BYTES: Final = 40
"""The sentence that says how many calls are left out."""

NO_TASK: Final = "This run has no task, so the server cannot continue it: make the calls yourself."

RESTART: Final = "Unless the client names the task in _meta, this call starts the workflow again, with all its steps."

NO_TASK_TO_ANSWER: Final = "This run has no task, so this call starts the workflow again."

NO_TASK_TO_WAIT: Final = (
    "This run has no task, so no callback reaches it: do not wait, and start the workflow again later."
)


def call_that_shows(task_id: str, workflow: Workflow | None) -> str:
    """The call that shows a task and changes nothing, as a part of a sentence that begins with the verb."""
    if workflow is None or not workflow.has_workflow_tool:
        return f"send tasks/get with {dumps_spaced({'taskId': task_id})}"
    return f"call {workflow.name} with {dumps_spaced({TASK_ID: task_id, TASK_ACTION: 'show'})}"


def cancel_text(handle: Handle) -> str:
    """The sentence that says how to end the task."""
    if handle.tool is None:
        return f"To end the task, send tasks/cancel with {dumps_spaced({'taskId': handle.task_id})}."
    return f"To end the task, call {handle.tool} with {dumps_spaced(handle.cancel_arguments)}."


def resume_text(handle: Handle, known: KnownValues | None, *, begin: str) -> str:
    """The sentence that says how to let the server continue: by the workflow's tool, otherwise by its prompt.

    Args:
        known: Names the secret arguments that have values in this run; `None` to name none.
    """
    names = (argument.name for argument in handle.workflow.arguments if argument.secret)
    secrets = [name for name in names if known is not None and name in known.texts]
    secrets_text = f" Give {', '.join(secrets)} again with it: secrets are not stored." if secrets else ""
    action = f"get the prompt {handle.workflow.name}" if handle.tool is None else f"call {handle.tool}"
    return capitalized(
        f"{begin}{action} with {dumps_spaced(handle.arguments)} to let the server continue.{secrets_text}"
    )


def complete_text(handle: Handle, arguments: Json = None) -> str:
    """The sentence that says how to complete a task that has no open step."""
    if handle.tool is None:
        return "The client completes the task."
    return f"Call {handle.tool} with {dumps_spaced(arguments or {TASK_ID: handle.task_id})} to finish."


def handoff(remaining: RemainingCalls, notes: Sequence[str] = ()) -> str:
    """What happened, and what to do next: at best one call that lets the server continue."""
    introduction, steps, closing = frame(remaining)
    calls = [f"{number}. {text_of(remaining, step)}" for number, step in enumerate(steps, 1)]
    return "\n\n".join(
        [*what_happened(remaining.pauses), *lost_results(remaining), *notes, *introduction, *calls, *closing]
    )


def lost_results(remaining: RemainingCalls) -> Iterator[str]:
    """A sentence for each result that later calls cannot refer to, except those that a pause is about."""
    told = {pause.producing_step for pause in remaining.pauses if isinstance(pause, UnresolvedDependency)}
    for step, reason in remaining.known.lost_results.items():
        if step not in told:
            yield f"Later calls cannot refer to the result of step '{step}': {reason}."


def frame(remaining: RemainingCalls) -> tuple[list[str], list[Step], list[str]]:
    """The sentences before the calls, the steps whose calls the model has to make, and the sentences after."""
    known, handle, steps = remaining.known, remaining.resume_handle, remaining.steps()
    answer = remaining.answer_call()
    if remaining.remedies == {Remedy.NONE}:
        return [cancel_text(handle)] if handle else [], [], []
    # A step that cannot continue keeps the task from completing.
    ending = [cancel_text(handle)] if handle and Remedy.NONE in map(remaining.remedy_of, remaining.pauses) else []
    if answer is not None and (handle is None or not steps):
        return [answer_text(answer)], [], ending
    if handle is None:
        hidden, waits = _hidden_text(remaining), remaining.remedies and remaining.remedies <= WAITING_REMEDIES
        offer = [*_unasked(remaining), _offer(remaining)] if steps or not (hidden or waits) else []
        return offer, steps, hidden
    if steps:
        last = resume_text(handle, known, begin="Or " if handle.tool is None else "Then ")
        return [_offer(remaining)], steps, [answer_text(answer, begin="Then ") if answer else last, *ending]
    return _resume_texts(remaining, handle), [], ending


def _resume_texts(remaining: RemainingCalls, handle: Handle) -> list[str]:
    """How to let the server continue, and after what. If it can continue one step now, nothing has to come first."""
    begins = [_begin_after(remaining, pause) for pause in remaining.pauses if remaining.remedy_of(pause) != Remedy.NONE]
    if not all(begins):
        return [resume_text(handle, remaining.known, begin="")]
    begin = ", or ".join(dict.fromkeys(begins))
    texts = [resume_text(handle, remaining.known, begin=f"{begin}, " if begin else "")]
    if any(isinstance(pause, Waiting) for pause in remaining.pauses):
        texts.append(f"To check, {call_that_shows(handle.task_id, handle.workflow)}.")
    return texts


def answer_text(answer: JsonObject, *, begin: str = "") -> str:
    return capitalized(f"{begin}{call_text(answer)} to let the server continue.")


def restart_text(remaining: RemainingCalls) -> list[str]:
    """The sentence after a call with answers that cannot name its task, if the call would repeat a step."""
    known = remaining.known
    is_repeated = any(step.tool and known.statuses[step.name] is StepStatus.COMPLETED for step in known.workflow.steps)
    if remaining.handle is not None or not is_repeated or remaining.answer_call() is None:
        return []
    return [RESTART]


def call_text(entry: JsonObject) -> str:
    """An entry of `next` as a part of a sentence that begins with the verb."""
    return f"call {entry['tool']} with {one_line(entry['arguments'])}"


def _begin_after(remaining: RemainingCalls, pause: PauseReason) -> str:
    """What has to happen before the server can continue a step; empty if it can now, or if the model has to act."""
    if pause.is_for_the_operator:
        return "when the cause is corrected"
    match remaining.remedy_of(pause):
        case Remedy.DECISION:
            return "after the decision" if remaining.resume_handle else "after the approval"
        case Remedy.WAIT:
            is_callback = isinstance(pause, Waiting) and pause.waits_for == "callback"
            return "after the callback" if is_callback else "after that"
        case _:
            return ""


def _offer(remaining: RemainingCalls) -> str:
    """The sentence before the calls that the model has to make."""
    pauses, remedies = remaining.pauses, remaining.remedies
    if remedies and remedies <= WAITING_REMEDIES:
        begins = dict.fromkeys(_begin_after(remaining, pause) for pause in pauses)
        return f"{capitalized(', or '.join(filter(None, begins)))}, make these tool calls:"
    failures = [pause for pause in pauses if remaining.remedy_of(pause) is Remedy.CALLS]
    others = [pause for pause in failures if not pause.is_for_the_operator]
    if failures and not others:
        return CORRECTED_MAKE_THESE_CALLS
    is_unknown = all(
        isinstance(pause, StepFailed) and pause.outcome_unknown and not pause.retryable for pause in others
    )
    return UNKNOWN_MAKE_THESE_CALLS if others and is_unknown else MAKE_THESE_CALLS


def _unasked(remaining: RemainingCalls) -> Iterator[str]:
    """The open questions, whose answers the calls need that a model makes without the task."""
    known = remaining.known
    for step in (step for step in known.open_steps if not is_early(known.variables, step.name)):
        if text := known.question_text(step, with_placeholders=True):
            ask = f"{_condition(remaining, step)}ask {one_line(cut(text, MAX_QUOTED_CHARS))}"
            yield f"{capitalized(ask)}, and put the answer in place of <output from {step.name}>."


def _condition(remaining: RemainingCalls, step: Step) -> str:
    """The words before a call, or a question, whose condition is not decided."""
    if step.when is None or not remaining.is_conditional(step):
        return ""
    return f"Only if {one_line(cut(step.when.text, MAX_QUOTED_CHARS))}: "


def _hidden_text(remaining: RemainingCalls) -> list[str]:
    """What remains after the calls that a model can make without the task."""
    steps = [step for step in remaining.known.open_steps if step.client_can_do]
    count = remaining.visible_count(steps)
    if remaining.handle is not None or count == len(steps):
        return []
    use = f"Step '{steps[count].name}' uses the result of a callback, which only the server has."
    prompt = remaining.known.workflow.name
    return [f"{use} After the callback, the client gets the prompt {prompt} again, for the same task."]


def text_of(remaining: RemainingCalls, step: Step, limit: int = MAX_QUOTED_CHARS) -> str:
    """What remains of one step, one line for each action."""
    known, read = remaining.known, remaining.read_resources.get(step.name, frozenset())
    uris = {name: f"read the resource {uri}" for name, uri in uris_of(step, known).items() if name not in read}
    if isinstance(step, Wait):
        lines = [f"Wait: step '{step.name}' {one_line(step.wait_text)}"]
    elif step.tool is None:
        lines = [capitalized(text) for text in uris.values()]
    elif isinstance(step, ListStep):
        lines = _texts_of_list(remaining, step, limit)
    elif remaining.is_too_long(step):
        lines = [f"Let the server call {step.tool}: the values of its arguments are too long for a call of yours"]
    else:
        call = f"call {step.tool} with {one_line(remaining.call_of(step, step.tool, limit))}"
        texts_before = [text for name, text in uris.items() if not step.read_after(name)]
        lines = [capitalized(", then ".join([*texts_before, call]))]
        lines += [f"Then: {capitalized(text)}" for name, text in uris.items() if step.read_after(name)]
    if condition := _condition(remaining, step):
        count = len(lines) if isinstance(step, ListStep) else 1
        lines[:count] = [f"{condition}{line[0].lower()}{line[1:]}" for line in lines[:count]]
    if step.guidance:
        lines.append(f"Note: {quoted_guidance(step.guidance, known.shown_texts)}")
    return "\n   ".join(lines)


def _texts_of_list(remaining: RemainingCalls, step: ListStep, limit: int) -> list[str]:
    """One line for each element that has no result; or one line for all, if the elements are not known."""
    items, tool = remaining.known.items_of(step), step.tool
    if items is None:
        source = remaining.known.placeholder(step.each) or "the list"
        if (cause := remaining.step_to_correct(step)) and cause.tool:
            call = remaining.call_of(cause, cause.tool, limit)
            return [f"To correct {source}, which has to be a list: call {cause.tool} with {one_line(call)}"]
        return [f"For each element of {source}: call {tool} with {one_line(remaining.call_of(step, tool, limit))}"]
    open_elements = remaining.open_elements(step)
    shown = [remaining.at(index, items.elements[index]) for index in open_elements[:MAX_CALLS_SHOWN]]
    count = len(open_elements) - len(shown)
    lines = [f"Call {tool} with {one_line(element.call_of(step, tool, limit))}" for element in shown]
    return [*lines, *([f"And {count} more calls of {tool}, one for each element"] if count else [])]


def why_stopped(run: EndedRun, over: Over) -> str:
    """Why the run stopped, which step ran last, and which steps were not run."""
    names = [trace.step.name for trace in run.traces if not trace.replayed]
    open_steps = [f"'{name}'" for name, status in run.statuses.items() if not status.settled and name not in names]
    uncertain = run.unrecorded if isinstance(over, Superseded) else ()
    notes = [f"It is not certain that these steps were recorded: {repeats_text(uncertain)}."] if uncertain else []
    last_step = f"Step '{names[-1]}' ran last." if names else "The run ran no step."
    not_run = f"These steps were not run: {names_text(open_steps)}." if open_steps else "No step was left to run."
    return " ".join([end_text(over, run.persisted), *notes, last_step, not_run])


def not_recorded(run: EndedRun) -> list[str]:
    """The sentences about steps that are not recorded, and that a resume would repeat."""
    if run.task is None or run.persisted is True:
        return []
    if run.refused:
        names = ", ".join(f"'{name}'" for name in sorted(run.refused))
        return [f"The answer to {names} was not stored: another call has used the earlier answer meanwhile."]
    noun = "step" if len(run.unrecorded) == 1 else "steps"
    steps = f"{noun} {repeats_text(run.unrecorded)}" if run.unrecorded else "its steps"
    if run.persisted is False:
        return [f"The results of this run could not be recorded: if the server went on, it would repeat {steps}."]
    check = f"{call_that_shows(run.task.task_id, run.workflow)} to see what is recorded"
    problem = "It is not known whether this run was recorded: the task store did not answer."
    return [f"{problem} Before you repeat {steps}, {check}."]


def ignored_values(run: EndedRun) -> list[str]:
    """The sentences about values of this call that were not used."""
    rule = "In a resume, null, an empty value or a default replaces no stored value"
    ignored = [f"{rule}, so these were ignored: {', '.join(run.ignored)}."] if run.ignored else []
    wrong = [f"The user's form has a wrong answer: {quoted_error(run.wrong_answer)}."] if run.wrong_answer else []
    return [cut(text, MAX_EVENT_BYTES) for text in (*ignored, *wrong)]


def capitalized(text: str) -> str:
    return text[0].upper() + text[1:]


# In the result of a workflow's tool, as far as it fits


def paused_text(run: EndedRun, known: KnownValues, tools: Requirements, handle: Handle | None) -> str:
    completed = [pause.step for pause in run.pauses if known.statuses[pause.step].settled]
    noun, names = "step" if len(completed) == 1 else "steps", names_text([f"'{step}'" for step in completed])
    events = [f"Another call has completed {noun} {names} while this run was under way."] if completed else []
    pauses = tuple(pause for pause in run.pauses if pause.step not in completed)
    if not known.open_steps:
        done = all_done_text(list(known.statuses.values()))
        finish = [f"{done}. {complete_text(handle)}"] if handle else []
        return "\n\n".join([*events, *may_have_run_twice(run.repeated), *ignored_values(run), *finish])
    remaining = RemainingCalls(known.with_skips(), tools, pauses, handle, handle if run.stored else None)
    introduction, steps, closing = frame(remaining)
    lost_text = " ".join(lost_results(remaining))
    head = [*([cut(lost_text, MAX_EVENT_BYTES)] if lost_text else []), *may_have_run_twice(run.repeated)]
    head += [*may_have_run(open_repeats_before(run, known)), *introduction]
    tail = [*notes_of(run), *closing]
    room = MAX_TEXT_BYTES - bytes_of("\n\n".join([*events, *head, *tail])) - COUNT_BYTES
    first = list(wordings_of(steps[0], remaining)) if steps else []
    for_first_call = min(MAX_EVENT_BYTES, bytes_of(first[0])) if first else 0
    happened = what_happened_within(pauses, room - for_first_call)
    head = [*events, *happened, *head]
    if not steps:
        return "\n\n".join([*head, *tail])
    # The first call must be in the text. Later results show the others.
    wordings = chain([first], ([text_of(remaining, step)] for step in steps[1:]))
    room -= bytes_of("\n\n".join(happened))
    texts = fit(wordings, room, lambda text: bytes_of(text) + NUMBER_BYTES, in_order=True)
    calls = [f"{number}. {text}" for number, text in enumerate(texts, 1)]
    count = len(steps) - len(calls)
    note = [f"And {count} more after {'this' if len(calls) == 1 else 'these'}."] if count else []
    return "\n\n".join([*head, *calls, *note, *tail])


def wordings_of(step: Step, remaining: RemainingCalls) -> Iterator[str]:
    """What remains of a step, from the longest to the shortest text."""
    yield text_of(remaining, step)
    short = text_of(remaining, step, limit=SHORT_VALUE_CHARS)
    yield short
    yield short.partition("\n")[0]
    if step.tool is None:
        yield f"Read the resources of step '{cut(step.name, MAX_QUOTED_CHARS)}'"
    else:
        pause = pause_at(step.name, remaining.pauses)
        is_refused = isinstance(pause, StepFailed) and pause.has_refused
        needs_values = is_refused or (pause is not None and remaining.remedy_of(pause) is Remedy.VALUES)
        by_server = ": let the server make it" if remaining.handle and remaining.handle.tool else ""
        alternative = ": `next` has it, with the values that it needs" if needs_values else by_server
        yield f"A call of {step.tool}, whose arguments are too long to show here{alternative}"


def notes_of(run: EndedRun) -> list[str]:
    if run.task is None:
        if any(isinstance(pause, AnswersRequired) for pause in run.pauses):
            return [NO_TASK_TO_ANSWER]
        if any(isinstance(pause, Waiting) and pause.waits_for == "callback" for pause in run.pauses):
            return [NO_TASK_TO_WAIT]
        return [NO_TASK] if run.pauses else []
    return [*ignored_values(run), *not_recorded(run)]


def open_repeats_before(run: EndedRun, known: KnownValues) -> list[Repeat]:
    """The open steps that an earlier run may have run."""
    return [step for step in run.open_repeats if not known.statuses[step.step].settled]


def how_to_continue(over: Over, known: KnownValues, handle: Handle | None) -> list[str]:
    """How to continue after another run has taken over the task; if it is completed, how to read it."""
    if handle is None or (isinstance(over, TaskOver) and over.status is not TaskStatus.COMPLETED):
        return []
    if isinstance(over, TaskOver):
        return [f"Call {handle.workflow.name} with {dumps_spaced({TASK_ID: handle.task_id})} to see its result."]
    return [resume_text(handle, known, begin="")]

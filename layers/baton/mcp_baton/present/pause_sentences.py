"""The sentences about each pause reason, for the readers that `sentences` names. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, structs

from mcp_baton.present.fit import MAX_EVENT_BYTES, bytes_of, cut, fit
from mcp_baton.present.sentences import MAX_STEPS_NAMED
from mcp_baton.protocol.json import Json
from mcp_baton.tasks.record import APPROVAL_WAIT
from mcp_baton.tools.approval import NotApproved
from mcp_baton.tools.quoting import encoded_uri, one_line, quoted_error
from mcp_baton.tools.templates import fill, placeholders
from mcp_baton.workflow.pause import (
    REASONS,
    AnswersRequired,
    ApprovalDenied,
    ApprovalExpired,
    ApprovalGranted,
    ApprovalReason,
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
from mcp_baton.workflow.stored_pauses import MAX_SHARED_FIELDS, SHARED_TEXTS, shortened

WAITS_FOR_MODEL: Final = "waits for the model"

REASONS_LEFT_BYTES: Final = 80
"""The sentence that says how many reasons are left out."""

CAN_CONTINUE: Final = "can continue"
CANNOT_CONTINUE: Final = "cannot continue"

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
        return f"Step '{reason.step}' failed: {error}. {failure_hint(reason)}{_unapproved(reason)}"
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
    if reason.asks_client and any(not item.asks_client for item in reason.failed_items):
        return (
            "In some of these calls its tool asks the client for input: make them as below. Correct the others first."
        )
    if reason.asks_client:
        return "Its tool asks the client for input. Call it as below: nothing has to be corrected first."
    if reason.is_for_the_operator:
        return (
            "This step is not retryable, and only the server's log says why it failed: tell the user, with the "
            f"error id {reason.error_id}."
        )
    if reason.retryable:
        return "This step is retryable."
    if reason.wait_over:
        return "It cannot be repeated."
    return "This step is not retryable: correct the cause first."


def _dependency(reason: UnresolvedDependency) -> str:
    problem = f"is not available: {reason.reason}" if reason.reason else "does not exist"
    output = f"the output '{reason.missing_output}' of step '{reason.producing_step}'"
    return f"Step '{reason.step}' could not start: it needs {output}, which {problem}."


def _questions(reason: AnswersRequired) -> str:
    return " ".join([f"Step '{reason.step}' needs an answer.", *map(_question, reason.shown_questions)])


def _question(question: OpenQuestion) -> str:
    text = one_line(question.question)
    if question.of == "model":
        return f"Question '{question.name}': {text}."
    return f"Question '{question.name}' to the user: {text}. Ask the user, unless they have already said it."


def _not_approved(reason: ApprovalRequired | ApprovalDenied) -> str:
    approval = NotApproved(**{name: getattr(reason, name) for name in NotApproved.__struct_fields__})
    denied = isinstance(reason, ApprovalDenied)
    return f"Step '{reason.step}' did not run: {approval.denied() if denied else approval.waits()}{_unapproved(reason)}"


def _unapproved(reason: StepFailed | ApprovalReason) -> str:
    """The sentence about the calls of a list that no person had approved, except the one that the reason is about."""
    told = None if isinstance(reason, StepFailed) else reason.approval_id
    count = reason.unapproved_count - (told is not None)
    if count < 1:
        return ""
    calls = "1 more call was" if count == 1 else f"{count} more calls were"
    items = [item for item in reason.unapproved if item.approval_id != told][:MAX_SHARED_FIELDS]
    group = f" of the group {items[0].audience!r}" if items else ""
    texts = [f"{one_line(item.message)}{'' if item.reason is None else ' (denied)'}" for item in items]
    rest = [f"and {count - len(items)} more"] if items and count > len(items) else []
    names = f": {', '.join([*texts, *rest])}" if items else ""
    return f" {calls} not made, because no person{group} had approved {'it' if count == 1 else 'them'}{names}."


def _approved(reason: ApprovalGranted) -> str:
    call = f"the call of step '{reason.step}': {quoted_error(reason.message)}"
    return f"A person of the group {reason.audience!r} has approved {call}.{_unapproved(reason)}"


def _expired(reason: ApprovalExpired) -> str:
    return (
        f"The approval of the call of step '{reason.step}' expired at {reason.expires_at}: "
        f"{quoted_error(reason.message)}. The next attempt requests another one.{_unapproved(reason)}"
    )


def _waiting(reason: Waiting) -> str:
    callback = "for a callback of another system, " if reason.waits_for == "callback" else ""
    if reason.over:
        cause = "its callback has arrived, or its time has come" if callback else "its time has come"
        if reason.waits_for == APPROVAL_WAIT:
            cause = "another approval no longer waits, so it can request its own"
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
        (
            "waits for an approval of {audience} ({unapprovedCount} calls have none)",
            "waits for an approval of {audience}",
            "waits for an approval",
        ),
        _not_approved,
        waits="waits for a person",
        in_status=True,
    ),
    ApprovalDenied: PauseSentences(
        ("denied by {audience}", "denied"), _not_approved, waits=CANNOT_CONTINUE, in_status=True
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


def what_happened_within(reasons: Sequence[PauseReason], room: int) -> list[str]:
    """As `what_happened`, with shorter values in long sentences: the reasons that fit into this many bytes, and at
    least the first one. A sentence counts the others."""
    forms = zip(*(what_happened(shortened(reason, limit) for reason in reasons) for limit in SHARED_TEXTS), strict=True)
    texts = [
        each[0]
        if isinstance(reason, AnswersRequired)
        else next((text for text in each if bytes_of(text) <= MAX_EVENT_BYTES), cut(each[-1], MAX_EVENT_BYTES))
        for reason, each in zip(reasons, forms, strict=True)
    ]
    room -= sum(map(bytes_of, texts[:1])) + REASONS_LEFT_BYTES
    shown = [*texts[:1], *fit(([text] for text in texts[1:]), room, lambda text: bytes_of(text) + 2, in_order=True)]
    count = len(texts) - len(shown)
    steps = "step has" if count == 1 else "steps have"
    return [*shown, *([f"And {count} more {steps} stopped: `pause_reasons` says why."] if count else [])]


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
    texts = list(dict.fromkeys(map(_waits_for, reasons)))
    # A step that a person has denied does not stop the others.
    return " and ".join(text for text in texts if text != CANNOT_CONTINUE or len(texts) == 1) or WAITS_FOR_MODEL


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
            count = f" ({reason.unapproved_count} calls have none)" if reason.unapproved_count else ""
            return f"waits for an approval of {reason.audience} until {reason.expires_at}{count}"
        case Waiting():
            state = "the wait is over" if reason.over else _waits_briefly(reason)
            return f"{state} (step {reason.step})"
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

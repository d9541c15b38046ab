"""Pause reasons: why a run stopped before its last step (docs/workflows.md, Pausing).

One class is one reason: its members, and what lets the workflow continue. `PauseReason` lists the classes, and
`present/pause_sentences.py` has their sentences.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, Final, Self, get_args

from msgspec import Struct, field, structs, to_builtins

from mcp_baton.protocol.json import JsonObject
from mcp_baton.tools.approval import NotApproved
from mcp_baton.tools.outcomes import MAX_INVALID_FIELDS, Failed, Failure, InvalidField
from mcp_baton.workflow.steps.step import Step

MAX_REASON_TEXT_CHARS: Final = 4_000
"""Characters of a text in a stored reason. A reason is always stored, so it must stay small."""

MAX_REASON_FIELD_CHARS: Final = 500
"""Characters of a text in a list of a stored reason."""


class Remedy(StrEnum):
    """What lets a paused workflow continue.

    Attributes:
        CALLS: The model makes the remaining calls, or the server tries the step again.
        VALUES: The model or the user supplies a value. Without it, the server would pause at the same step again.
        SERVER: The server continues. Nothing has to be corrected first.
        ANSWERS: One call of the workflow's tool has the answers, and the server continues.
        DECISION: A person decides. Then the server continues.
        WAIT: Nothing needs to be done. After a time, the server continues.
        NONE: The workflow cannot continue with these arguments. The client can end its task.
    """

    CALLS = "calls"
    VALUES = "values"
    SERVER = "server"
    ANSWERS = "answers"
    DECISION = "decision"
    WAIT = "wait"
    NONE = "none"


WAITING_REMEDIES: Final = frozenset({Remedy.DECISION, Remedy.WAIT})
"""What lets a step continue without a call of the model."""


class Reason(Struct, frozen=True, tag_field="type", rename="camel", omit_defaults=True):
    """The base class of all reasons. A subclass has the field `suggested_tool`.

    Attributes:
        step: The step that has stopped.
        remedy: What lets the workflow continue.
        is_failure: Whether something went wrong. A missing value is not a failure.
    """

    step: str = field(name="blockedStep")

    remedy: ClassVar[Remedy]
    is_failure: ClassVar[bool] = False

    @property
    def type(self) -> str:
        """The `type` of the stored form."""
        return str(self.__struct_config__.tag)

    def to_json(self) -> JsonObject:
        """The stored form, which is also sent to clients. Long texts are cut."""
        members: JsonObject = cut(to_builtins(self), MAX_REASON_TEXT_CHARS)
        return members

    def as_error(self) -> str:
        """The reason as the error of one call of a list, which is stored with the step."""
        return self.type

    @property
    def is_for_the_operator(self) -> bool:
        """Whether neither the model nor the user can correct the cause, nor even read it."""
        return False

    @property
    def server_can_continue(self) -> bool:
        """Whether the server can run the step, if it is called again."""
        return self.remedy is Remedy.SERVER

    @property
    def missing_arguments(self) -> tuple[str, ...]:
        """The arguments that the step lacks, if their values are all that it needs."""
        return ()

    @property
    def refused_arguments(self) -> frozenset[str]:
        """The arguments whose values do not satisfy the tool's input schema."""
        return frozenset()

    def without_secrets(self, _hide: Callable[[str], str]) -> Self:
        """The reason without the secrets that its texts may quote."""
        return self


class UnresolvableParams(Reason, frozen=True, tag="unresolvableParams"):
    """An argument has no value: the output lacks the path, or no tool has set the task variable.

    Attributes:
        condition: The step's condition, if that is what needs the value.
    """

    remedy = Remedy.VALUES

    missing_param: str
    suggested_tool: str
    problem: str = ""
    condition: str = ""

    def as_error(self) -> str:
        return f"no value for '{self.missing_param}'" + (f": {self.problem}" if self.problem else "")

    @property
    def missing_arguments(self) -> tuple[str, ...]:
        return () if self.condition else (self.missing_param,)


class SchemaMismatch(Reason, frozen=True, tag="schemaMismatch"):
    """The resolved arguments do not satisfy the tool's input schema."""

    remedy = Remedy.VALUES

    missing_fields: tuple[str, ...]
    invalid_fields: tuple[InvalidField, ...]
    suggested_tool: str

    def as_error(self) -> str:
        missing, fields = ", ".join(self.missing_fields), self.shown_fields
        invalid = ", ".join(f"{entry.field} ({entry.problem})" for entry in fields)
        return (f"missing {missing}" if missing else "a value is missing or invalid") + (
            f"; invalid {invalid}" if invalid else ""
        )

    @property
    def shown_fields(self) -> tuple[InvalidField, ...]:
        return self.invalid_fields[:MAX_INVALID_FIELDS]

    @property
    def missing_arguments(self) -> tuple[str, ...]:
        return () if self.invalid_fields else self.missing_fields

    @property
    def refused_arguments(self) -> frozenset[str]:
        return frozenset(entry.field.partition(".")[0] for entry in self.invalid_fields)

    def without_secrets(self, hide: Callable[[str], str]) -> Self:
        invalid = tuple(InvalidField(hide(entry.field), hide(entry.problem)) for entry in self.invalid_fields)
        return structs.replace(self, invalid_fields=invalid)


class FailedItem(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The failed call of an element of a list. `refused` and `asks_client` are as in `StepFailed`."""

    index: int
    error: str
    refused: tuple[str, ...] = ()
    asks_client: bool = False


class UnapprovedItem(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The call of an element of a list that a person has not approved. The members are those of `NotApproved`."""

    index: int
    approval_id: str
    audience: str
    message: str
    expires_at: str
    reason: str | None = None


class StepFailed(Reason, frozen=True, tag="toolError"):
    """The tool reported an error, raised or timed out, or a resource could not be read. The step is `failed`.

    Attributes:
        asks_client: The tool asked the client for input. It can do that if the client calls it. Of a list: in one call.
        error_id: Identifies the error in the server's log, if its text is hidden from clients.
        resource: The URI of the resource that could not be read; the tool was not called.
        failed_items: Of a step with `each`: the elements whose calls failed, the first 20 when it is stored.
        failed_count: How many calls failed.
        unapproved_count: How many further calls were not made, because no person has approved them.
        unapproved: These calls, the first 20 when they are stored.
        outcome_unknown: Whether the tool ran out of time, so that it may still have happened.
        idempotency_key: The key of that call, if it is known and no digest of a secret.
        wait_over: Whether the time of a wait is over. A wait until a wrong time has failed, too, and can be corrected.
        refused: The step's arguments whose values do not satisfy the tool's input schema.
    """

    remedy = Remedy.CALLS
    is_failure = True

    step: str = field(name="failedStep")
    error: str
    retryable: bool
    suggested_tool: str
    asks_client: bool = False
    error_id: str | None = None
    resource: str | None = None
    failed_items: tuple[FailedItem, ...] = ()
    failed_count: int = 0
    unapproved_count: int = 0
    unapproved: tuple[UnapprovedItem, ...] = ()
    outcome_unknown: bool = False
    idempotency_key: str | None = None
    wait_over: bool = False
    refused: tuple[str, ...] = ()

    @property
    def fails_again(self) -> bool:
        """Whether the same call would fail again, and is suggested with the same arguments."""
        return not (self.retryable or self.asks_client or self.resource or self.has_refused)

    @property
    def has_refused(self) -> bool:
        """Whether the tool's input schema refused an argument of the step, or of an element."""
        return any((self.refused, *(item.refused for item in self.failed_items)))

    @property
    def refused_arguments(self) -> frozenset[str]:
        return frozenset(self.refused)

    @property
    def server_can_continue(self) -> bool:
        return self.retryable and not self.asks_client

    @property
    def is_for_the_operator(self) -> bool:
        return self.error_id is not None and not self.retryable


class UnresolvedDependency(Reason, frozen=True, tag="unresolvedDependency"):
    """An argument needs the output of a step that was skipped, or whose output is not available.

    Attributes:
        reason: Why the result of a completed step is not available; empty for a step that has no result.
    """

    remedy = Remedy.VALUES

    missing_output: str
    producing_step: str
    suggested_tool: str
    reason: str = ""

    def as_error(self) -> str:
        return f"needs {self.missing_output} of step {self.producing_step}"


class OpenQuestion(Struct, frozen=True):
    """A question of the workflow that has no answer yet."""

    name: str
    question: str
    schema: dict[str, Any]
    of: str


class AnswersRequired(Reason, frozen=True, tag="answersRequired"):
    """Questions to the model or the user have no answers."""

    remedy = Remedy.ANSWERS

    questions: tuple[OpenQuestion, ...]
    suggested_tool: str

    @property
    def asks_user(self) -> bool:
        return any(question.of == "user" for question in self.questions)

    @property
    def shown_questions(self) -> tuple[OpenQuestion, ...]:
        """The questions as models read them: whole, unless they are very long."""
        is_long = sum(len(question.question) for question in self.questions) > 2 * MAX_REASON_TEXT_CHARS
        limit = MAX_REASON_FIELD_CHARS if is_long else MAX_REASON_TEXT_CHARS
        return tuple(structs.replace(question, question=cut(question.question, limit)) for question in self.questions)

    def to_json(self) -> JsonObject:
        return {**super().to_json(), "questions": to_builtins([*self.shown_questions])}


class ApprovalReason(Reason, frozen=True, kw_only=True):
    """The members of all reasons that approvals cause. `expires_at` is ISO 8601 in UTC.

    Attributes:
        unapproved_count: Of a step with `each`: how many calls were not made, because no person has approved them.
        unapproved: These calls, the first 20 when they are stored. The other members are those of the first one.
        of_other: Whether the members are those of another call's approval: this call has none yet (`NotApproved`).
    """

    approval_id: str
    audience: str
    message: str
    expires_at: str
    suggested_tool: str = ""
    reason: str | None = None
    unapproved_count: int = 0
    unapproved: tuple[UnapprovedItem, ...] = ()
    of_other: bool = False


class ApprovalRequired(ApprovalReason, frozen=True, tag="approvalRequired"):
    """A person has to approve the step's call (docs/approvals.md)."""

    remedy = Remedy.DECISION

    def of_items(self, count: int, items: tuple[UnapprovedItem, ...]) -> Self:
        """The reason of a list for so many calls, of which these are known."""
        members = structs.asdict(next((item for item in items if item.reason is None), items[0]))
        del members["index"]
        count, items = (count, items) if count > 1 else (0, ())
        return structs.replace(self, unapproved_count=count, unapproved=items, **members)

    @property
    def server_can_continue(self) -> bool:
        return True


class ApprovalDenied(ApprovalReason, frozen=True, tag="approvalDenied"):
    """A person has denied the step's call. `reason` is in the person's words."""

    remedy = Remedy.NONE


class ApprovalGranted(ApprovalReason, frozen=True, tag="approvalGranted"):
    """A person has approved the step's call since the run paused. This is computed when a task is read, and never
    stored."""

    remedy = Remedy.SERVER


class ApprovalExpired(ApprovalReason, frozen=True, tag="approvalExpired"):
    """Nobody has decided the step's call in time, or it was not made in time. Computed as `ApprovalGranted`."""

    remedy = Remedy.SERVER


def approval_pause(step: str, approval: NotApproved) -> ApprovalRequired | ApprovalDenied:
    """The pause of a step whose call a person has not approved."""
    reason = ApprovalDenied if approval.is_denied else ApprovalRequired
    return reason(step=step, **structs.asdict(approval))


class Waiting(Reason, frozen=True, tag="waiting"):
    """The step waits for a callback or a time. `until` is ISO 8601 in UTC. `over` is computed when a task is read, and
    never stored: the callback has arrived, the time has come, or a step can request its approval (`of_other`)."""

    remedy = Remedy.WAIT

    waits_for: str = field(name="for")
    until: str
    suggested_tool: str
    over: bool = False

    @property
    def until_ms(self) -> int:
        return round(datetime.fromisoformat(self.until).timestamp() * 1000)

    @property
    def server_can_continue(self) -> bool:
        return True


class DeadlineExceeded(Reason, frozen=True, tag="deadlineExceeded"):
    """Too little of the function's time was left to start the step."""

    remedy = Remedy.SERVER

    suggested_tool: str

    def as_error(self) -> str:
        return "out of time"


class Interrupted(Reason, frozen=True, tag="interrupted"):
    """The run was killed: its claim expired. This reason is computed when a task is read, and never stored."""

    remedy = Remedy.SERVER
    is_failure = True

    suggested_tool: str


type PauseReason = (
    UnresolvableParams
    | SchemaMismatch
    | StepFailed
    | UnresolvedDependency
    | AnswersRequired
    | ApprovalRequired
    | ApprovalDenied
    | ApprovalGranted
    | ApprovalExpired
    | Waiting
    | DeadlineExceeded
    | Interrupted
)
"""The registry: every reason that Baton knows."""

REASONS: Final[tuple[type[Reason], ...]] = get_args(PauseReason.__value__)


def suspends(pauses: Sequence[PauseReason]) -> bool:
    """Whether steps have stopped, and all of them only wait: for a person, a callback or a time."""
    return bool(pauses) and all(pause.remedy in WAITING_REMEDIES for pause in pauses)


def waits_or_asks(pauses: Sequence[PauseReason]) -> bool:
    """Whether steps have stopped, and all of them only wait, or need an answer."""
    return bool(pauses) and all(pause.remedy in {*WAITING_REMEDIES, Remedy.ANSWERS} for pause in pauses)


def has_failed_calls(pauses: Iterable[PauseReason]) -> bool:
    """Whether a run would make calls again that have failed, which the model has to decide."""
    failures = (pause for pause in pauses if isinstance(pause, StepFailed))
    return any(failure.suggested_tool and not failure.resource for failure in failures)


def pause_at(step: str, pauses: Iterable[PauseReason]) -> PauseReason | None:
    """Why a step has stopped; `None` if it has not."""
    return next((pause for pause in pauses if pause.step == step), None)


def refused_arguments(step: Step, pauses: Iterable[PauseReason], index: int | None = None) -> frozenset[str]:
    """The arguments of a step, or of an element of its list, whose values do not satisfy the tool's input schema, if
    its reason says so."""
    pause = pause_at(step.name, pauses)
    if pause is None:
        return frozenset()
    items = pause.failed_items if isinstance(pause, StepFailed) else ()
    names = next((frozenset(item.refused) for item in items if item.index == index), pause.refused_arguments)
    return names & step.arguments.keys()


def pause_after(
    failed: Failed, step: Step | None, name: str, tool: str, resource: str | None = None, key: str | None = None
) -> StepFailed:
    """The pause that a failure causes, in a run or in a continuation.

    Args:
        step: The step; `None` if the workflow's definition does not have it any more.
        key: The idempotency key of the call.
    """
    retryable = failed.asks_client or (step is not None and step.retryable and not failed.is_final)
    wait_over = failed.kind is Failure.TIMED_OUT and not tool and resource is None
    unknown = failed.kind is Failure.TIMED_OUT and not wait_over
    return StepFailed(
        name,
        failed.error,
        retryable,
        tool,
        failed.asks_client,
        failed.error_id,
        resource,
        outcome_unknown=unknown,
        idempotency_key=key if unknown else None,
        wait_over=wait_over,
        refused=failed.refused,
    )


def cut(value: Any, limit: int) -> Any:
    """A JSON value with texts of at most this many characters."""
    if isinstance(value, str):
        return value if len(value) <= limit else f"{value[:limit]} …"
    if isinstance(value, dict):
        return {name: cut(item, limit) for name, item in value.items()}
    if isinstance(value, tuple):
        is_of_objects = bool(value) and isinstance(value[0], dict)
        return [cut(item, MAX_REASON_FIELD_CHARS) for item in (value[:MAX_INVALID_FIELDS] if is_of_objects else value)]
    return value

"""The guard of tools with an approval: a call runs only with an approval of exactly this call (docs/approvals.md).

`runner.run` calls `refusal_without_approval` for every function with an approval, whoever calls it.
"""

import logging
import sys
from collections.abc import Mapping
from hmac import digest as keyed_digest
from typing import Any, cast

from msgspec import Struct, convert, to_builtins

from mcp_baton.exceptions import StoreError
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.approvals.audit import audit
from mcp_baton.server.approvals.notifying import NOTIFY_AGAIN_MS
from mcp_baton.server.definitions.tool import Tool
from mcp_baton.server.execution import Execution
from mcp_baton.server.schema.sent_values import without_secrets
from mcp_baton.server.schema.signature import NO_ANNOTATION, Signature, is_field
from mcp_baton.tasks.approvals import MOST_WAITING, ApprovalRecord, ApprovalState, ApprovalStore, TooManyWaiting
from mcp_baton.tasks.ids import new_token
from mcp_baton.tasks.record import APPROVAL_PREFIX, SALT, timestamp
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.telemetry import APPROVAL_AGE
from mcp_baton.workflow.approval import DEFAULT, SECRET, Approval, NotApproved, digest_of
from mcp_baton.workflow.host import Failed, Failure, Place, Prepared
from mcp_baton.workflow.keys import canonical_text
from mcp_baton.workflow.quoting import visible as show
from mcp_baton.workflow.secrets import hidden_in
from mcp_baton.workflow.shortening import shortened_arguments

logger = logging.getLogger(__name__)

RUN, JOB = "run:", "job"
"""How the names of attempts begin in runs of workflows and in background tasks. In calls by clients, they begin with
`call:`."""


def refusal_without_approval(
    execution: Execution,
    tool: str,
    approval: Approval,
    prepared: Prepared,
    place: Place,
    variables: TaskVariables | None,
) -> Failed | None:
    """Return why a call must not run now; `None` if it needs no approval, or has one, which is then marked as used.

    Args:
        variables: The task's variables; `None` without a task.
    """

    def convert_arguments() -> dict[str, Any]:
        # `when` gets values of its own: it may change them, and some can be read only once.
        definition = execution.server.tools[tool]
        return _with_defaults(definition.signature, definition.input.bind(prepared.arguments))

    if not approval.needs(tool, convert_arguments):
        return None
    if execution.store is None:
        return _not_started(f"{tool} needs an approval, and this server has no task store: set BATON_TABLE")
    if execution.owner is None:
        return _not_started(f"{tool} needs an approval, and the caller has no identity")
    if place.workflow is not None and place.task is None:
        return _not_started(f"{tool} needs an approval, and this run has no task: call {place.workflow.name} again")
    by = place.by or f"call:{new_token()}"
    try:
        call = _new_request(execution, execution.owner, tool, approval, prepared, place)
        return _Gate(execution, execution.store.approvals, call, place, by, variables).refusal()
    except TooManyWaiting as error:
        return _not_started(f"{tool} needs an approval, and none was requested: {error}")
    except StoreError:
        logger.exception("request %s: the approval of %s is not known", execution.exchange.request_id, tool)
        return _not_started(f"{tool} needs an approval, and the task store does not answer")
    except Exception:  # types of the author may raise anything
        logger.exception("request %s: the approval of %s cannot be checked", execution.exchange.request_id, tool)
        return _not_started(f"{tool} needs an approval, which cannot be checked. The server's log has the error")


def _not_started(reason: str) -> Failed:
    return Failed(f"not started: {reason}. Nothing was run.", kind=Failure.NOT_STARTED)


def _with_defaults(signature: Signature, bound: Mapping[str, Any]) -> dict[str, Any]:
    defaults = {
        parameter.name: parameter.default
        for parameter in signature.parameters
        if parameter.name not in bound and parameter.default is not NO_ANNOTATION and not is_field(parameter.default)
    }
    return {**defaults, **bound}


def _new_request(
    execution: Execution, owner: str, name: str, approval: Approval, prepared: Prepared, place: Place
) -> ApprovalRecord:
    """Return the approval of a call as it would be requested now."""
    tool = execution.server.tools[name]
    arguments = tool.input.complete(prepared.arguments, prepared.bound)
    visible = _without_secrets(tool, arguments, place)
    secret_names = [name for name, value in arguments.items() if visible[name] != value]
    readable = _in_order(tool.signature, visible)
    message = approval.question(name, readable)
    workflow, task_id = place.workflow, place.task.task_id if place.task else None
    call_digest = digest_of(
        {
            "owner": owner,
            "tool": name,
            "inputSchema": tool.input_schema,
            "arguments": {
                **arguments,
                **{key: _secret_digest(arguments[key], execution, place) for key in secret_names},
            },
            "workflow": workflow.name if workflow else None,
            "step": place.name,
            "definition": place.step.fingerprint if place.step else None,
            "task": task_id,
            "audience": approval.audience,
            "message": approval.message,
        }
    )
    now_ms = execution.now_ms()
    return ApprovalRecord(
        approval_id="",
        digest=call_digest,
        state=ApprovalState.WAITING,
        tool=name,
        arguments=cast("JsonObject", show(shortened_arguments(readable))),
        message=message,
        audience=approval.audience,
        owner=owner,
        asked_ms=now_ms,
        until_ms=min(now_ms + round(approval.expires.total_seconds() * 1000), _task_ends_ms(execution, place)),
        task_id=task_id,
        workflow=workflow.name if workflow else None,
        step=place.name,
        by_requester=approval.by_requester,
        job_id=execution.job_id,
        notify_ms=now_ms + NOTIFY_AGAIN_MS if execution.services.notifies else 0,
        base_url=execution.base_url,
    )


def _task_ends_ms(execution: Execution, place: Place) -> int:
    """Return when the task of a call expires at the latest, epoch milliseconds. Workers extend the lifetimes of their
    tasks."""
    task = place.task
    if task is None:
        return sys.maxsize
    longest_ms = 0 if execution.job_id is None else execution.services.settings.max_ttl_ms
    return task.created_ms + max(task.ttl_ms, longest_ms)


def _without_secrets(tool: Tool, arguments: JsonObject, place: Place) -> dict[str, Json]:
    """Return the arguments without the secrets of the workflow and those of the parameters' types."""
    secret_names = frozenset[str]()
    if place.workflow is not None and place.step is not None:
        secret_names = hidden_in(arguments, place.step.arguments, place.workflow.secrets)
    visible: dict[str, Json] = {}
    for name, value in arguments.items():
        schema = {} if tool.input.is_plain else tool.input.schema_of(name)
        visible[name] = SECRET if name in secret_names else place.secrets.hide(without_secrets(value, schema, SECRET))
    return visible


def _in_order(signature: Signature, arguments: JsonObject) -> dict[str, Json]:
    """Return an argument for each parameter, in their order. A default that is created for each call is not known."""
    names = (parameter.published_name for parameter in signature.parameters)
    return {name: arguments.get(name, DEFAULT) for name in names}


def _secret_digest(value: Json, execution: Execution, place: Place) -> str:
    """Return a digest of a secret argument. Approvers cannot compute it, because they do not know the key: the task's
    salt; without a task, the key that signs states."""
    if place.task is not None:
        key = f"{place.task.variables.get(SALT)} {place.task.task_id}".encode()
    else:
        seal = execution.services.seal
        key = b"" if seal.is_temporary else next(iter(seal.keys()))
    return keyed_digest(key, canonical_text(value).encode(), "sha256").hex()


class _Gate(Struct, frozen=True):
    """One call that needs an approval.

    Attributes:
        call: The approval as it would be requested now.
        by: Names this attempt.
        variables: The task's variables; `None` without a task.
    """

    execution: Execution
    approvals: ApprovalStore
    call: ApprovalRecord
    place: Place
    by: str
    variables: TaskVariables | None

    def refusal(self) -> Failed | None:
        """Find the approval of this call, or request it. If it was approved, mark it as used."""
        stored = None if self.variables is None else self.variables.get(self._variable)
        mark = None if stored is None else convert(stored, Mark)
        repeat, is_asked = 0, self.place.is_asked
        if mark is not None and mark.digest == self.call.digest:
            # If another attempt used it, that attempt's outcome is stored. So this call needs another approval.
            repeat, is_asked = (mark.repeat, True) if mark.by in (None, self.by) else (mark.repeat + 1, False)
        while True:
            record, is_new = self._find_or_request(repeat, mark, is_asked=is_asked)
            is_same = record.digest == self.call.digest
            if is_same and self._is_usable(record) and record.used_by == self.by:
                self._note(Mark(record.digest, repeat, self.by))
                return None
            if is_same and record.waits_at(self.call.asked_ms):
                if is_new:
                    audit(record, "requested")
                else:
                    age_ms = self.call.asked_ms - record.asked_ms
                    self.execution.services.telemetry.add(APPROVAL_AGE, age_ms)
                if record.notify_ms and (is_new or record.notify_ms < self.call.asked_ms):
                    self.execution.approvals.append(record)
                self._note(Mark(record.digest, repeat))
                self.execution.waits_for.add(record.approval_id)
                return _not_approved(record)
            is_final = record.task_id is not None or not record.expired_at(self.call.asked_ms)
            if is_same and record.state is ApprovalState.DENIED and is_final:
                self._note(Mark(record.digest, repeat))
                return _not_approved(record)
            repeat, is_asked = repeat + 1, False  # this approval was used, has expired, or was withdrawn

    def _find_or_request(self, repeat: int, mark: "Mark | None", *, is_asked: bool) -> tuple[ApprovalRecord, bool]:
        """Return the approval with this number, marked as used if that is possible; and whether it is new."""
        record, is_new = None, False
        if is_asked:
            record = self._use(repeat, self.place.before)
        if record is None:
            record, is_new = self.approvals.ask(self.call, repeat, is_limited=self._is_limited(mark))
        if self._is_usable(record) and record.used_by != self.by and self._may_use(record, mark):
            record = self._use(repeat, record.used_by) or record
        return record, is_new

    def _use(self, repeat: int, previous: str | None) -> ApprovalRecord | None:
        record = self.approvals.use(self.call, repeat, self.by, previous)
        if record is not None and record.used_by == self.by and self._is_usable(record):
            audit(record, "used")
        return record

    def _is_usable(self, record: ApprovalRecord) -> bool:
        is_open = record.state is ApprovalState.APPROVED and not record.expired_at(self.execution.now_ms())
        return is_open and record.digest == self.call.digest

    def _may_use(self, record: ApprovalRecord, mark: "Mark | None") -> bool:
        """Whether the approval is unused, or was used by an attempt that this one repeats: an earlier round of the same
        call, or a run that died before it could store the outcome."""
        if record.used_by is None or record.used_by == self.place.before:
            return True
        # A note about other arguments may have replaced the note about this approval.
        is_known = mark is None or mark.digest == record.digest
        return is_known and not self.place.is_item and _is_later_run(self.by, record.used_by)

    def _is_limited(self, mark: "Mark | None") -> bool:
        """Whether the waiting approvals of the task have to be counted. The first request of a step in a run cannot
        exceed the limit, unless many run at the same time."""
        place = self.place
        if place.task is None:
            return False
        is_parallel = place.workflow is not None and place.workflow.parallel > MOST_WAITING
        return mark is not None or place.is_item or is_parallel or not self.by.startswith((RUN, JOB))

    def _note(self, mark: "Mark") -> None:
        """Note the approval in the task. The note is stored with the outcome of the call, or not at all."""
        if self.variables is not None and self.place.name is not None and not self.place.is_item:
            self.variables.note(self._variable, to_builtins(mark))

    @property
    def _variable(self) -> str:
        return f"{APPROVAL_PREFIX}{self.place.name}"


def _is_later_run(attempt: str, earlier: str) -> bool:
    """Whether both are names of runs, and this run has claimed the task after the other one."""
    return attempt.startswith(RUN) and earlier.startswith(RUN) and int(attempt[len(RUN) :]) > int(earlier[len(RUN) :])


class Mark(Struct, frozen=True, omit_defaults=True):
    """What a task stores about the last approval of a step.

    Attributes:
        repeat: As in `ApprovalStore.ask`.
        by: The attempt that has used it; `None` if it was only requested.
    """

    digest: str
    repeat: int
    by: str | None = None


def _not_approved(record: ApprovalRecord) -> Failed:
    expires_at, reason = timestamp(record.until_ms), None
    if record.state is ApprovalState.DENIED:
        reason = record.reason or ""
    not_approved = NotApproved(record.approval_id, record.audience, record.message, expires_at, reason)
    return Failed(not_approved.text(record.tool), kind=Failure.NOT_STARTED, not_approved=not_approved)

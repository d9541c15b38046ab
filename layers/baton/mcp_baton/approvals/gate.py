"""The guard of tools with an approval: a call runs only with an approval of exactly this call (docs/approvals.md).

`runner.run` calls `refusal_without_approval` for every function with an approval, whoever calls it.
"""

import logging
from functools import partial
from typing import Any, Final

from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from mcp_baton.approvals.items import DynamoDBApprovalStore, approvals_of
from mcp_baton.approvals.notifying import notify
from mcp_baton.approvals.record import (
    ApprovalRecord,
    ApprovalState,
    TooManyWaiting,
    UseAgain,
    audit,
)
from mcp_baton.approvals.request import new_request
from mcp_baton.exceptions import StoreError
from mcp_baton.tasks.ids import new_token
from mcp_baton.tasks.record import APPROVAL_PREFIX, timestamp
from mcp_baton.telemetry import APPROVAL_AGE
from mcp_baton.tools.approval import Approval, NotApproved
from mcp_baton.tools.calls import ToolCall
from mcp_baton.tools.outcomes import Failed, Failure, Prepared
from mcp_baton.workflow.execution import Execution

logger = logging.getLogger(__name__)

RUN_ATTEMPT: Final = "run:"
"""How the names of attempts of runs begin; a number follows. Those of background jobs begin with `job:` and end with a
number, too, and those of clients' calls begin with `call:`."""

FIRST_RUN_ATTEMPT: Final = f"{RUN_ATTEMPT}1"
"""The name of the first run of a task: the task had no approvals before it."""


class ApprovalNote(Struct, frozen=True, omit_defaults=True):
    """What a task stores about the last approval of a step.

    Attributes:
        repeat: As in `DynamoDBApprovalStore.ask`.
        by: The attempt that has used it; `None` if it was only requested.
        denied: What was denied. No handoff suggests the call of this step any more.
    """

    digest: str
    repeat: int
    by: str | None = None
    denied: NotApproved | None = None


class UsedApproval(Struct, frozen=True):
    """An approval that a call has marked as used."""

    approvals: DynamoDBApprovalStore
    record: ApprovalRecord
    call: ToolCall
    note: ApprovalNote

    def end(self, failed: Failed) -> None:
        """Note how the call failed. Call this before its outcome is stored."""
        step, is_clean = self.call.step, False
        counts = failed.was_made and not failed.asks_client
        if step is not None and failed.kind is Failure.RAISED and not failed.is_final:
            is_clean = step.may_repeat(failed.cause)
        try:
            if is_clean or not counts:
                self.approvals.free(self.record, started=counts)
        except StoreError:
            logger.warning("approval %s: it cannot be used again", self.record.approval_id, exc_info=True)
        if self.call.is_item:
            _note(self.call, self.note)


def _note(call: ToolCall, note: ApprovalNote) -> None:
    """Note the approval in the task. The note is stored with the outcome of the call, or not at all."""
    if call.variables is not None and call.name is not None:
        call.variables.note(f"{APPROVAL_PREFIX}{call.name}", to_builtins(note))


def refusal_without_approval(
    execution: Execution, tool: str, approval: Approval, prepared: Prepared, call: ToolCall
) -> Failed | UsedApproval | None:
    """Return why a call must not run now; or its approval, which is then marked as used; `None` if it needs none."""

    def convert_arguments() -> dict[str, Any]:
        # `when` gets values of its own: it may change them, and some can be read only once.
        return execution.server.tools[tool].input.bind(prepared.arguments)

    if not approval.needs(tool, convert_arguments):
        return None
    if execution.store is None:
        return _not_started(f"{tool} needs an approval, and this server has no task store: set BATON_TABLE")
    if execution.owner is None:
        return _not_started(f"{tool} needs an approval, and the caller has no identity")
    if call.workflow is not None and call.task is None:
        return _not_started(f"{tool} needs an approval, and this run has no task: call {call.workflow.name} again")
    by = call.by or f"call:{new_token()}"
    try:
        wanted = new_request(execution, execution.owner, tool, approval, prepared, call)
        return _Gate(execution, approvals_of(execution.store), wanted, call, by).check()
    except StoreError:
        logger.exception("request %s: the approval of %s is not known", execution.exchange.request_id, tool)
        return _not_started(f"{tool} needs an approval, and the task store does not answer")
    except Exception:  # types of the author may raise anything
        logger.exception("request %s: the approval of %s cannot be checked", execution.exchange.request_id, tool)
        return _not_started(f"{tool} needs an approval, which cannot be checked. The server's log has the error")


def _not_started(reason: str) -> Failed:
    return Failed(f"not started: {reason}. Nothing was run.", kind=Failure.NOT_STARTED)


class _Gate(Struct, frozen=True):
    """One call that needs an approval.

    Attributes:
        wanted: The approval as it would be requested now.
        by: Names this attempt.
    """

    execution: Execution
    approvals: DynamoDBApprovalStore
    wanted: ApprovalRecord
    call: ToolCall
    by: str

    def check(self) -> Failed | UsedApproval:
        """Find the approval of this call, or request it. If it was approved, mark it as used."""
        note, repeat = self._stored_note(), 0
        if note is not None and note.digest == self.wanted.digest:
            # The task knows the approval of the last equal call, and in most cases it can be used: no read is needed.
            record, is_used = self.approvals.use(
                self.wanted, note.repeat, self.by, earlier=note.by, again=UseAgain.AFTER_FAILURE, most=self._most_uses
            )
            result = self._grant(record, note.repeat) if record and is_used else self._result(record, note.repeat, note)
            if result is not None:
                return result
        elif (failed := self._full()) is not None:
            return failed
        if note is not None or self.by != FIRST_RUN_ATTEMPT:
            # Another call of the task, or a run that was killed, may have requested it without a note.
            latest = self.approvals.latest(self.wanted)
            if latest is not None and (result := self._result(*latest, note)):
                return result
            repeat = latest[1] + 1 if latest is not None else 0
        if self.wanted.until_ms <= self.wanted.asked_ms:
            return _not_started(f"{self.wanted.tool} needs an approval, and its task is ending")
        while True:
            try:
                record, is_new = self.approvals.ask(self.wanted, repeat)
            except TooManyWaiting as error:
                return self._too_many(error)
            if result := self._result(record, repeat, note, is_new=is_new):
                return result
            repeat += 1  # another process has requested, used or decided it meanwhile

    def _result(
        self, record: ApprovalRecord | None, repeat: int, note: ApprovalNote | None, *, is_new: bool = False
    ) -> Failed | UsedApproval | None:
        """Use an approval that was found, if that is possible; or return why the call must not run. `None` if it needs
        another approval."""
        if record is None or record.digest != self.wanted.digest:
            # The note or the id led to the approval of a call with other arguments, which says nothing of this one.
            return None
        is_approved = record.state is ApprovalState.APPROVED and not record.expired_at(self.execution.now_ms())
        if is_approved and (again := self._may_use_again(record, note)) is not None:
            current, is_used = self.approvals.use(
                self.wanted, repeat, self.by, earlier=record.used_by, again=again, most=self._most_uses
            )
            record = current or record
            if is_used:
                return self._grant(record, repeat)
            # An attempt at the same time was faster, or a person has changed the decision since the read.
        is_denied = record.state is ApprovalState.DENIED
        if self._is_replayed(record):
            remedy = f"To make the call once more, call {record.tool} again without requestState"
            return _not_started(f"another request has continued this call with the answers. {remedy}")
        if record.waits_at(self.wanted.asked_ms):
            self._note_waiting(record, is_new=is_new)
        elif not is_denied or (record.task_id is None and record.expired_at(self.wanted.asked_ms)):
            # It was used, has expired or was withdrawn. A denial within a task counts as long as the task lives. A call
            # without a task may be made again one day.
            return None
        failed = _not_approved(record)
        # An element that waits needs no note: its approval is found by its digest. A denial must be known to the
        # handoff, which does not suggest the call any more.
        if is_denied or not self.call.is_item:
            denied = failed.not_approved if is_denied else None
            _note(self.call, ApprovalNote(record.digest, repeat, denied=denied))
        return failed

    def _note_waiting(self, record: ApprovalRecord, *, is_new: bool) -> None:
        """Let the execution know of an approval for which it waits, and people, if it is time."""
        if is_new:
            audit(record, "requested")
        else:
            self.execution.services.telemetry.add(APPROVAL_AGE, self.wanted.asked_ms - record.asked_ms)
        if record.notify_ms and (is_new or record.notify_ms < self.wanted.asked_ms):
            self.execution.notifications.append(partial(notify, self.execution, record))
        self.execution.waits_for.add(record.approval_id)

    def _grant(self, record: ApprovalRecord, repeat: int) -> UsedApproval:
        audit(record, "used")
        note = ApprovalNote(record.digest, repeat, self.by)
        if not self.call.is_item:
            _note(self.call, note)
        return UsedApproval(self.approvals, record, self.call, note)

    def _is_replayed(self, record: ApprovalRecord) -> bool:
        """Whether the answers of a client came again: another request has continued the call with the approval."""
        before, used_by = self.call.before, record.used_by
        return self.by.startswith("call:") and before is not None and used_by is not None and used_by != before

    def _may_use_again(self, record: ApprovalRecord, note: ApprovalNote | None) -> UseAgain | None:
        """Why this attempt may use an approval, which another attempt may have used; `None` if it may not."""
        if record.used_by is None or record.used_by == self.call.before:
            return UseAgain.ROUND
        if record.is_free:
            return UseAgain.AFTER_FAILURE if record.uses < self._most_uses else None
        if record.is_repeated or not _is_later(self.by, record.used_by or ""):
            return None
        claim = self.call.task.claim if self.call.task else None
        if self.by.startswith(RUN_ATTEMPT) and not (claim and claim.interrupted):
            return None  # all earlier runs have made their last write
        # The outcome of an attempt is stored with a note about it, or not at all. A note about other arguments may have
        # replaced the note about this approval.
        is_stored = note is not None and (note.digest != record.digest or note.by == record.used_by)
        return None if is_stored else UseAgain.AFTER_DEATH

    @property
    def _most_uses(self) -> int:
        """How often a call may be made with one approval if it fails cleanly each time."""
        return 1 if self.call.step is None else self.call.step.max_calls

    def _too_many(self, error: TooManyWaiting) -> Failed:
        """Return that no approval can be requested now. A run of a workflow waits for one of the others."""
        failed = _not_started(f"{self.wanted.tool} needs an approval, and none was requested: {error}")
        task, waiting = self.call.task, error.waiting
        if task is None or waiting is None or not self.call.is_turn or not self.by.startswith(RUN_ATTEMPT):
            return failed
        waiting_ids, known = self.approvals.waiting_and_known(task.task_id)
        self.execution.waits_for.update(waiting_ids)
        failed = replace(failed, not_approved=replace(not_approved_of(waiting), of_other=True))
        self.execution.full[task.task_id] = failed, known
        return failed

    def _full(self) -> Failed | None:
        """Why the call of an element, which has no approval, can request none now. A list may have a thousand elements,
        so there is no search for each."""
        task_id = self.call.task.task_id if self.call.task and self.call.is_item else ""
        failed, known = self.execution.full.get(task_id, (None, ()))
        return None if self.wanted.digest in known else failed

    def _stored_note(self) -> ApprovalNote | None:
        variables = self.call.variables
        stored = None if variables is None else variables.get(f"{APPROVAL_PREFIX}{self.call.name}")
        return None if stored is None else convert(stored, ApprovalNote)


def _is_later(attempt: str, earlier: str) -> bool:
    """Whether both are names of runs, or of attempts of a job, and this one has claimed the task after the other."""
    kind, _, number = attempt.partition(":")
    earlier_kind, _, earlier_number = earlier.partition(":")
    return kind == earlier_kind and kind in ("run", "job") and int(number) > int(earlier_number or 0)


def _not_approved(record: ApprovalRecord) -> Failed:
    not_approved = not_approved_of(record)
    return Failed(not_approved.text(record.tool), kind=Failure.NOT_STARTED, not_approved=not_approved)


def not_approved_of(record: ApprovalRecord) -> NotApproved:
    expires_at, reason = timestamp(record.until_ms), None
    if record.state is ApprovalState.DENIED:
        reason = record.reason or ""
    return NotApproved(record.approval_id, record.audience, record.message, expires_at, reason)

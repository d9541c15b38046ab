"""Who may decide an approval, and what a decision does (docs/approvals.md, Who may decide)."""

import logging
from collections.abc import Mapping

from msgspec import Struct

from mcp_baton.approvals.items import approvals_of
from mcp_baton.approvals.record import ApprovalPage, ApprovalRecord, ApprovalState, Decision, audit
from mcp_baton.exceptions import StoreError, TaskNotFound
from mcp_baton.protocol.http import ANONYMOUS
from mcp_baton.tasks.record import waiting_jobs
from mcp_baton.tasks.store import TaskStore
from mcp_baton.telemetry import APPROVAL_AGE
from mcp_baton.tools.labels import groups_in, scopes_in
from mcp_baton.workflow.dispatching import wake
from mcp_baton.workflow.services import Services

logger = logging.getLogger(__name__)


class Person(Struct, frozen=True):
    """A caller of the approvals API. A caller without an identity and without scopes is in no audience."""

    owner: str | None
    audiences: frozenset[str]

    def is_requester(self, record: ApprovalRecord) -> bool:
        return self.owner == record.owner

    def may_see(self, record: ApprovalRecord) -> bool:
        return record.audience in self.audiences or self.is_requester(record)

    def may_decide(self, record: ApprovalRecord) -> bool:
        if self.is_requester(record):
            return record.by_requester and self.owner != ANONYMOUS
        return record.audience in self.audiences


def person(services: Services, owner: str | None, claims: Mapping[str, object]) -> Person:
    """Return the caller with its audiences: its scopes, its groups in the user pool, and the audiences for which the
    operator lists it (BATON_APPROVERS)."""
    listed_audiences = {name for name, owners in services.settings.approvers.items() if owner in owners}
    return Person(owner, scopes_in(claims) | groups_in(claims) | (listed_audiences if owner != ANONYMOUS else set()))


class Approvals(Struct, frozen=True):
    """The approvals, for people who decide them.

    Attributes:
        store: The task store, for this request.
    """

    services: Services
    store: TaskStore

    def waiting(self, caller: Person, state: ApprovalState, cursor: str | None) -> ApprovalPage:
        """Return a page of the approvals in the caller's audiences, newest first, without those whose tasks have ended.
        Raises `ValueError` for a cursor that no list has returned."""
        page = approvals_of(self.store).list(sorted(caller.audiences), state, cursor)
        current = [self.current(record) for record in page.approvals]
        return ApprovalPage([record for record in current if record.state is state], page.cursor)

    def find(self, approval_id: str) -> ApprovalRecord | None:
        record = approvals_of(self.store).get(approval_id)
        return None if record is None else self.current(record)

    def current(self, record: ApprovalRecord) -> ApprovalRecord:
        """Return the approval. If its task has ended, it is withdrawn first."""
        if record.task_id is None or not record.waits_at(self.store.now_ms()) or not self._has_ended(record):
            return record
        withdrawn = approvals_of(self.store).withdraw(record)
        if withdrawn.state is ApprovalState.WITHDRAWN:
            audit(withdrawn, "withdrawn")
        return withdrawn

    def _has_ended(self, record: ApprovalRecord) -> bool:
        try:
            return self.store.read_status(record.owner, record.task_id or "").status.terminal
        except TaskNotFound:
            return True

    def decide(self, record: ApprovalRecord, decision: Decision) -> ApprovalRecord:
        """Decide an approval, and wake the background tasks that wait for it. Raises `NotDecided`."""
        updated = approvals_of(self.store).decide(record, decision)
        audit(updated, updated.state.value)
        self.services.telemetry.add(APPROVAL_AGE, self.store.now_ms() - updated.asked_ms)
        for job_id in self._waiting_jobs(updated):
            wake(self.services, self.store, updated.owner, job_id)
        return updated

    def _waiting_jobs(self, record: ApprovalRecord) -> list[str]:
        """The job that has requested an approval, and those that wait with its workflow: a request, or the job of an
        earlier call, may have requested it. If the task cannot be read, a poll or a sweep finds the decision."""
        jobs = [] if record.job_id is None else [record.job_id]
        workflow = self.services.server.workflows.get(record.workflow or "")
        if workflow is None or not workflow.background or record.task_id is None:
            return jobs
        try:
            task = self.store.get(record.owner, record.task_id)
            return list(dict.fromkeys([*jobs, *waiting_jobs(task.variables)]))
        except StoreError:
            logger.warning("task %s: the jobs that wait with it cannot be read", record.task_id, exc_info=True)
            return jobs

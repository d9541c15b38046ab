"""Approvals: what was asked of which people, and what they decided (docs/approvals.md).

An approval is bound to one call by a digest. It is requested once, decided once and used once, and again only as
`UseAgain` says. Its record is kept for an audit after the task has ended.
"""

import logging
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from mcp_baton.exceptions import StoreError
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.record import timestamp

logger = logging.getLogger(__name__)

MAX_WAITING_OF_TASK: Final = 20
"""Approvals of one task that may wait at the same time."""

MAX_WAITING_OF_OWNER: Final = 100
"""Approvals of calls without a task that may wait at the same time, of one owner."""

MAX_REASON_CHARS: Final = 500
"""Characters of a decider's reason."""


CLAIMED_CLIENTS: Final = ("page", "cli")
"""What a deciding client may say of itself. Nothing proves it."""


class ApprovalState(StrEnum):
    WAITING = "waiting"
    APPROVED = "approved"
    DENIED = "denied"
    WITHDRAWN = "withdrawn"


class UseAgain(StrEnum):
    """Why an attempt may use an approval that an earlier attempt has used.

    Attributes:
        ROUND: It continues the earlier attempt, which has asked the client. This is not counted as a use.
        AFTER_FAILURE: The earlier attempt failed cleanly, or did not start, and the step may be tried again.
        AFTER_DEATH: The run or the worker of the earlier attempt died. This is possible once for an approval.
    """

    ROUND = "round"
    AFTER_FAILURE = "after failure"
    AFTER_DEATH = "after death"


class ApprovalRecord(Struct, frozen=True):
    """An approval as it is stored. Times are epoch milliseconds.

    Attributes:
        approval_id: Cannot be guessed. It names the item, but no credential.
        digest: Of the call: SHA-256, hex. A decision and a use must have the same digest.
        arguments: As people see them: without secrets, and cut if they are long.
        message: The question to the people.
        owner: Who requested it.
        task_id: The task of the call; `None` for a call without a task.
        job_id: The background task that waits for the decision, if one does.
        decided_from: `link` for a link; otherwise what the deciding client says of itself: `api`, `page` or `cli`.
        source: The address that the decision came from.
        used_by: Names the last attempt that has used it.
        uses: How often a call was made with it.
        is_free: Whether the last attempt failed cleanly or did not start, so that the step may be tried again.
        is_repeated: Whether it was used again after the run that had used it died.
        notify_ms: When the people may be notified again; 0 once they were.
        base_url: The address of the API at which it was requested, for links; empty if it is not known.
    """

    approval_id: str
    digest: str
    state: ApprovalState
    tool: str
    arguments: JsonObject
    message: str
    audience: str
    owner: str
    asked_ms: int
    until_ms: int
    task_id: str | None = None
    workflow: str | None = None
    step: str | None = None
    by_requester: bool = False
    job_id: str | None = None
    decided_ms: int | None = None
    decided_by: str | None = None
    decided_from: str | None = None
    source: str | None = None
    reason: str | None = None
    used_ms: int | None = None
    used_by: str | None = None
    uses: int = 0
    is_free: bool = False
    is_repeated: bool = False
    notify_ms: int = 0
    base_url: str = ""

    def expired_at(self, now_ms: int) -> bool:
        return self.until_ms <= now_ms

    def waits_at(self, now_ms: int) -> bool:
        return self.state is ApprovalState.WAITING and not self.expired_at(now_ms)

    def to_json(self, *, for_requester: bool = False) -> dict[str, Json]:
        """The record as people and clients see it. Members without a value are left out. The requester does not see the
        address of the person who has decided."""
        members: dict[str, Json] = {
            "approvalId": self.approval_id,
            "state": self.state.value,
            "digest": self.digest,
            "tool": self.tool,
            "arguments": self.arguments,
            "message": self.message,
            "audience": self.audience,
            "owner": self.owner,
            "task": self.task_id,
            "workflow": self.workflow,
            "step": self.step,
            "askedAt": timestamp(self.asked_ms),
            "expiresAt": timestamp(self.until_ms),
            "decidedAt": None if self.decided_ms is None else timestamp(self.decided_ms),
            "decidedBy": self.decided_by,
            "decidedFrom": None if self.decided_from is None else "link" if self.decided_from == "link" else "api",
            "claimedClient": self.decided_from if self.decided_from in CLAIMED_CLIENTS else None,
            "sourceAddress": None if for_requester else self.source,
            "reason": self.reason,
            "usedAt": None if self.used_ms is None else timestamp(self.used_ms),
            "usedBy": self.used_by,
            "uses": self.uses or None,
        }
        return {name: value for name, value in members.items() if value is not None}


class Decision(Struct, frozen=True):
    """A person's decision.

    Attributes:
        digest: That of the call that the person saw.
        by: The person's identity, as the authorizer gives it.
        origin: `api`, `page`, `link` or `cli`.
        source: The address that it came from.
    """

    approves: bool
    digest: str
    by: str
    origin: str
    source: str | None = None
    reason: str | None = None


class NotDecided(StoreError):
    """The approval cannot be decided: it was decided, has expired, was withdrawn, or has another digest. Contains the
    current record."""

    def __init__(self, current: ApprovalRecord) -> None:
        super().__init__(f"the approval {current.approval_id} cannot be decided")
        self.current = current


class TooManyWaiting(StoreError):
    """As many approvals of the task, or of the owner's calls without a task, wait as may wait. Nothing was requested.
    Contains one of those that wait; `None` if it could not be read."""

    def __init__(self, cause: str, waiting: ApprovalRecord | None) -> None:
        super().__init__(cause)
        self.waiting = waiting


class ApprovalPage(Struct, frozen=True):
    """A page of a list, newest first; `cursor` is `None` on the last page."""

    approvals: Sequence[ApprovalRecord]
    cursor: str | None = None


class ApprovalRequest(Struct, frozen=True):
    """An approval that waits for a person.

    Attributes:
        record: As `GET /approvals/<id>` shows it.
        link: The address of a page that decides the approval without further credentials; `None` if links are off, or
            if the address of the API is not known (BATON_BASE_URL).
    """

    record: JsonObject
    link: str | None = None


type ApprovalListener = Callable[[ApprovalRequest], object]


def audit(record: ApprovalRecord, change: str) -> None:
    """Log a change of an approval (docs/approvals.md, Audit), without the call's arguments and without the message that
    quotes them."""
    members = {name: value for name, value in record.to_json().items() if name not in ("arguments", "message")}
    logger.info("approval %s: %s", record.approval_id, change, extra={"audit": True, "approval": members})

"""Counts the approvals that wait, in one item for each task, and in one for each owner's calls without a task
(ARCHITECTURE.md, Items).

An item has a number, `waiting`, and an attribute for each approval that waits, with the times at which it was requested
and expires. One conditional write changes both, so that concurrent requests never exceed the limit.
"""

import logging
from collections.abc import Callable
from typing import Final

from mcp_baton.approvals.record import MAX_WAITING_OF_OWNER, MAX_WAITING_OF_TASK, ApprovalRecord, TooManyWaiting
from mcp_baton.exceptions import StoreError
from mcp_baton.tasks.dynamodb.attributes import Item, primary_key
from mcp_baton.tasks.dynamodb.expressions import Update
from mcp_baton.tasks.dynamodb.items import number, whole_s
from mcp_baton.tasks.dynamodb.retries import CREATE, WRITE, ConditionFailed
from mcp_baton.tasks.dynamodb.table import TaskTable
from mcp_baton.tasks.ids import text_digest
from mcp_baton.tasks.texts import to_text

logger = logging.getLogger(__name__)

WAITING_PREFIX: Final = "APPROVALS#"
WAITING_SORT_KEY: Final = "COUNT"
WAITING_ENTRY: Final = "a"
"""Begins the names of the attributes of approvals."""

MAX_APPROVALS_CHECKED: Final = 4
"""If the limit is reached, this many of the oldest approvals are read. The write that counts a decided one no longer
may have been lost."""

MAX_APPROVALS_REMOVED: Final = 50
"""The most approvals that one write removes. Keeps its expression short."""

BEING_REQUESTED_MS: Final = 60_000
"""An approval is counted before it is stored. After this time, it will not be stored any more."""

MAX_WAITS_FOR_STORED: Final = 20
"""How often a request at the limit waits until one of the counted approvals is stored: at most two seconds in all."""


class WaitingApprovals:
    """Counts the waiting approvals.

    Args:
        read: Reads an approval by the first part of its id.
    """

    def __init__(self, table: TaskTable, read: Callable[[str], ApprovalRecord | None]) -> None:
        self._table = table
        self._read = read

    def enter(self, record: ApprovalRecord, key: str) -> bool:
        """Count an approval that is about to be requested: one `UpdateItem`. At the limit, up to four `GetItem` and one
        `UpdateItem` more. Returns whether it was not counted yet.

        Args:
            key: The first part of its id.

        Raises:
            TooManyWaiting: as many approvals wait as may wait.
        """
        most, subject = (MAX_WAITING_OF_TASK, "this task") if record.task_id else (MAX_WAITING_OF_OWNER, "your calls")
        ended: list[str] = []
        own_expires_s = whole_s(record.until_ms)
        expires_s: int | None = own_expires_s
        waits = 0
        while True:
            try:
                self._table.update(
                    _key(record), self._entering(record, key, most, ended, expires_s), CREATE, complete=False
                )
            except ConditionFailed as failure:
                item = failure.item or {}
                if WAITING_ENTRY + key in item:
                    return False
                ended = [name for name in ended if name in item]  # another request has removed the others
                waits_longer = "expires_at" in item and number(item, "expires_at") > own_expires_s
                if waits_longer is not (expires_s is None):
                    expires_s = None if waits_longer else own_expires_s  # another approval waits longer
                elif "waiting" in item and number(item, "waiting") >= most:
                    ended, waiting = self._oldest(item)
                    waits += 1
                    # Parallel steps may be about to store all of them. A step that knew none would fail, not wait.
                    is_soon = waiting is None and waits <= MAX_WAITS_FOR_STORED
                    if not ended and not (is_soon and self._table.wait_after_race(waits)):
                        raise TooManyWaiting(
                            f"{most} approvals of {subject} wait already. Make the same call again when one of them is "
                            "decided",
                            waiting,
                        ) from failure
            else:
                return True

    def _entering(self, record: ApprovalRecord, key: str, most: int, ended: list[str], expires_s: int | None) -> Update:
        """The write that counts an approval, and no longer those that have ended. `expires_s` is the new end of the
        item, epoch seconds; `None` if it lives longer."""
        update = Update(self._table.clock_ms())
        update.require_missing(WAITING_ENTRY + key)
        update.require_any(update.missing("waiting"), update.compared("waiting", "<", most + len(ended)))
        update.require_exists(*ended)
        update.remove(*ended)
        update.add("waiting", 1 - len(ended))
        update.set(WAITING_ENTRY + key, f"{record.asked_ms} {record.until_ms}")
        update.set("owner", to_text(record.owner))
        if expires_s is None:
            # The item may have been deleted since it was read. Without an end, a new one would never expire.
            update.require_exists("expires_at")
        else:
            update.require_any(update.missing("expires_at"), update.compared("expires_at", "<=", expires_s))
            update.set("expires_at", expires_s)
        return update

    def leave(self, record: ApprovalRecord, key: str) -> None:
        """Count an approval no longer, because it does not wait: one `UpdateItem`. A failure is only logged: `enter`
        finds the approval when the limit is reached."""
        update = Update(self._table.clock_ms())
        update.require_exists(WAITING_ENTRY + key)
        update.remove(WAITING_ENTRY + key)
        update.add("waiting", -1)
        try:
            self._table.update(_key(record), update, WRITE, complete=False)
        except ConditionFailed:
            return
        except StoreError:
            logger.warning("approval %s: it is counted although it does not wait", record.approval_id, exc_info=True)

    def _oldest(self, item: Item) -> tuple[list[str], ApprovalRecord | None]:
        """Read the oldest counted approvals. Returns the attributes of those that do not wait, and one that waits. If
        some have expired, none is read."""
        entries, now_ms = _entries(item), self._table.clock_ms()
        expired = [name for name, (_, until_ms) in entries.items() if until_ms <= now_ms]
        if expired:
            return expired[:MAX_APPROVALS_REMOVED], None
        ended, waiting = list[str](), None
        for name in sorted(entries, key=lambda name: entries[name])[:MAX_APPROVALS_CHECKED]:
            record = self._read(name.removeprefix(WAITING_ENTRY))
            if record is not None and record.waits_at(now_ms):
                waiting = waiting or record
            elif record is not None or entries[name][0] < now_ms - BEING_REQUESTED_MS:
                ended.append(name)
        return ended, waiting


def _entries(item: Item) -> dict[str, tuple[int, int]]:
    """For each approval in an item: when it was requested, and until when it can be decided, epoch milliseconds."""
    entries: dict[str, tuple[int, int]] = {}
    for name, value in item.items():
        if name.startswith(WAITING_ENTRY) and name[len(WAITING_ENTRY) :].strip("0123456789abcdefg") == "":
            asked_ms, until_ms = value["S"].split()
            entries[name] = int(asked_ms), int(until_ms)
    return entries


def _key(record: ApprovalRecord) -> Item:
    digest = text_digest(record.task_id or f"owner {to_text(record.owner)}")
    return primary_key(WAITING_PREFIX + digest[:16], WAITING_SORT_KEY)

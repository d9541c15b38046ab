"""Approvals in the table of the tasks, one item for each (ARCHITECTURE.md, Items).

The sort key is 16 digits of the call's digest and the number of earlier requests. `state`, `digest` and `until` are the
conditions of writes. `used_by`, `used_ms` and `uses` say which attempt used it last, when, and how often. `free` exists
if that attempt failed cleanly or did not start, `repeated` if it was used again after a run died. `notify` is when
people may be notified again, 0 for never.
"""

import heapq
import os
from collections.abc import Sequence
from typing import Any, Final, cast

from msgspec.structs import replace

from mcp_baton.approvals.record import (
    ApprovalPage,
    ApprovalRecord,
    ApprovalState,
    Decision,
    NotDecided,
    UseAgain,
)
from mcp_baton.approvals.waiting_items import WaitingApprovals
from mcp_baton.exceptions import StoreError
from mcp_baton.protocol.json import JsonObject, json_size
from mcp_baton.tasks.dynamodb.attributes import Attribute, Item, attributes, decode, encode_json, primary_key
from mcp_baton.tasks.dynamodb.expressions import Update, unlist
from mcp_baton.tasks.dynamodb.items import (
    AFTER_ALL_KEYS,
    LISTED_AT,
    LISTED_IN,
    expired,
    in_list,
    in_partition,
    list_time,
    number,
    whole_s,
)
from mcp_baton.tasks.dynamodb.retries import CREATE, WRITE, ConditionFailed
from mcp_baton.tasks.dynamodb.table import TaskTable
from mcp_baton.tasks.ids import HEX_DIGITS, new_token, text_digest
from mcp_baton.tasks.store import TaskStore
from mcp_baton.tasks.texts import to_text

APPROVAL_ITEM_PREFIX: Final = "APPROVAL#"
LINK_PREFIX: Final = "LINK#"
LINK_KEY: Final = "LINK"
APPROVALS_PER_PAGE: Final = 25
MAX_APPROVALS_READ: Final = 100
"""The most approvals that one page reads. Those that have expired, or were decided just now, are not on it."""

MAX_PAGE_BYTES: Final = 2_000_000
"""The most bytes of JSON on a page of several approvals. One has a few hundred thousand at most."""

COMPRESS_APPROVAL_OVER_BYTES: Final = 1_024
ID_PART_CHARS: Final = 16
"""Hex digits of each of the three parts of an id: the task, the call, and 64 random bits."""

REPEAT_CHARS: Final = 2
LONG_REPEAT: Final = "g"
"""Begins the number of a later request, so that it sorts after those with two digits."""

LONG_REPEAT_DIGITS: Final = 7
DAY_MS: Final = 86_400_000
CLOCK_SLACK_MS: Final = 600_000
"""How long an expired approval stays in its list, because the clocks of other processes may be slow, milliseconds."""

FIXED: Final = (
    *("digest", "tool", "arguments", "message", "audience", "owner", "asked_ms", "until_ms", "task_id", "workflow"),
    *("step", "by_requester", "job_id", "base_url"),
)
"""The fields of a record that never change. They are one JSON text."""

DECIDED: Final = ("decided_ms", "decided_by", "decided_from", "source", "reason")


class DynamoDBApprovalStore:
    """Stores approvals: `pk` = `APPROVAL#<task>`, `sk` = `<call><number>`. Each method is one conditional write or one
    read, unless it says otherwise.

    Every method raises `StoreUnavailable` if the table does not respond, and writes raise `OutcomeUnknown` if all
    responses were lost.

    Args:
        audit_days: How long a record is kept after it has expired.
    """

    def __init__(self, table: TaskTable, audit_days: int) -> None:
        self._table = table
        self._audit_ms = audit_days * DAY_MS
        self._waiting = WaitingApprovals(table, self._read)

    def latest(self, call: ApprovalRecord) -> tuple[ApprovalRecord, int] | None:
        """Find the last approval that was requested for a call, and its number: one `Query` that reads one item. `None`
        if none was requested. `call` has the digest and the task."""
        key = _key_text(call, 0)
        digest = key[ID_PART_CHARS : 2 * ID_PART_CHARS]
        request = in_partition(APPROVAL_ITEM_PREFIX + key[:ID_PART_CHARS], digest, digest + AFTER_ALL_KEYS)
        page = self._table.query({**request, "ScanIndexForward": False, "Limit": 1})
        return next(((to_approval(item), _repeat_in(item["sk"]["S"])) for item in page["Items"]), None)

    def ask(self, record: ApprovalRecord, repeat: int) -> tuple[ApprovalRecord, bool]:
        """Request an approval: one `UpdateItem` that counts it, and one `PutItem`. `record.approval_id` is replaced.

        Args:
            repeat: Counts the requests of the same call, from 0.

        Returns:
            The new record, or the one that exists for this call and number; and whether it is new.

        Raises:
            TooManyWaiting: the task has `MAX_WAITING_OF_TASK` approvals that wait, or the owner has
                `MAX_WAITING_OF_OWNER` without a task.
        """
        key, now_ms = _key_text(record, repeat), self._table.clock_ms()
        is_counted = self._waiting.enter(record, key)
        record = replace(record, approval_id=key + os.urandom(ID_PART_CHARS // 2).hex())
        item = _key(record.approval_id) | attributes(
            approval_id=record.approval_id,
            state=record.state,
            digest=record.digest,
            until=record.until_ms,
            notify=record.notify_ms,
            record=_encoded(record),
            expires_at=(record.until_ms + self._audit_ms) // 1000,
            listed_in=_list_name(record.state, record.audience),
            listed_at=f"{list_time(record.asked_ms)}#{record.approval_id}",
        )
        try:
            self._table.put(item)
        except ConditionFailed as failure:
            if failure.item is None:
                raise StoreError("the approval was deleted while it was requested") from failure
            existing = to_approval(failure.item)
            if is_counted and not existing.waits_at(now_ms):
                self._waiting.leave(existing, key)
            return existing, False
        return record, True

    def waiting(self, task_id: str) -> frozenset[str]:
        """Read the ids of a task's approvals that wait: one strongly consistent `Query`."""
        return self.waiting_and_known(task_id)[0]

    def waiting_and_known(self, task_id: str) -> tuple[frozenset[str], frozenset[str]]:
        """Read the ids of a task's approvals that wait, and the digests of its calls with one that waits, or that is
        decided and not used: one strongly consistent `Query`."""
        request = {
            **in_partition(APPROVAL_ITEM_PREFIX + _task_text(task_id)),
            "ExpressionAttributeNames": {"#state": "state", "#until": "until", "#free": "free"},
            "ProjectionExpression": "approval_id,digest,#state,#until,used_by,#free",
        }
        waiting, known, now_ms = set[str](), set[str](), self._table.clock_ms()
        for item in self._table.items(request):
            state, is_live = item["state"]["S"], number(item, "until") > now_ms
            is_unused = "used_by" not in item or "free" in item
            if state == ApprovalState.WAITING and is_live:
                waiting.add(item["approval_id"]["S"])
            # A denial counts as long as the task lives.
            if state == ApprovalState.DENIED or (state != ApprovalState.WITHDRAWN and is_live and is_unused):
                known.add(item["digest"]["S"])
        return frozenset(waiting), frozenset(known)

    def use(
        self,
        call: ApprovalRecord,
        repeat: int,
        attempt: str,
        *,
        earlier: str | None = None,
        again: UseAgain = UseAgain.ROUND,
        most: int = 1,
    ) -> tuple[ApprovalRecord | None, bool]:
        """Mark the approval of a call as used by an attempt, if it is approved and has not expired: one `UpdateItem`.

        Args:
            call: Has the digest and the task of the call.
            earlier: The attempt that has used it. `None` to use one that no attempt has used.
            again: Why this attempt may use it after `earlier`.
            most: The most uses, for `AFTER_FAILURE`.

        Returns:
            The record, and whether this attempt has it now. The record is `None` if it was never requested.
        """
        now_ms = self._table.clock_ms()
        update = _decidable(now_ms, ApprovalState.APPROVED, call.digest)
        if earlier is None:
            update.require_missing("used_by")
        else:
            update.require("used_by", "=", earlier)
        if earlier is not None and again is UseAgain.AFTER_FAILURE:
            update.require_exists("free")
            update.require("uses", "<", most)
            update.remove("free")
        elif earlier is not None and again is UseAgain.AFTER_DEATH:
            update.require_missing("free", "repeated")
            update.set("repeated", 1)
        if earlier is None or again is not UseAgain.ROUND:
            update.add("uses", 1)
        update.set("used_by", attempt)
        update.set("used_ms", now_ms)
        try:
            return to_approval(self._table.update(_item_key(_key_text(call, repeat)), update, CREATE)), True
        except ConditionFailed as failure:
            return (None if failure.item is None else to_approval(failure.item)), False

    def free(self, record: ApprovalRecord, *, started: bool) -> None:
        """Note that the attempt that uses an approval failed cleanly, or did not start, which is no use: one
        `UpdateItem`."""
        update = Update(self._table.clock_ms(), new_token())
        update.require("used_by", "=", record.used_by or "")
        update.require_missing("free")
        update.set("free", 1)
        if not started:
            update.add("uses", -1)
        self._apply(record, update)

    def _read(self, key: str) -> ApprovalRecord | None:
        """Read the approval with the first part of an id."""
        item = self._table.get(_item_key(key))
        return None if item is None else to_approval(item)

    def get(self, approval_id: str) -> ApprovalRecord | None:
        """Read an approval: one strongly consistent `GetItem`."""
        item = self._table.get(_key(approval_id)) if is_approval_id(approval_id) else None
        record = None if item is None or expired(item, self._table.clock_ms()) else to_approval(item)
        return record if record is not None and record.approval_id == approval_id else None

    def list(self, audiences: Sequence[str], state: ApprovalState, cursor: str | None = None) -> ApprovalPage:
        """Read a page of the approvals of these audiences, newest first: one `Query` for each audience and one
        `GetItem` for each approval. Expired ones are left out of those that wait. A page also ends after 2 MB or
        100 reads, or when half of the time is used: it may have few approvals, or none, and a cursor. Raises
        `ValueError` if the cursor is not one of this store."""
        time, _, last_id = (cursor or "").partition("#")
        is_time = len(time) == len(list_time(0)) and not time.strip("0123456789")  # DynamoDB refuses long keys
        if cursor is not None and not (is_time and is_approval_id(last_id)):
            raise ValueError("the cursor is not one of this list")
        newest_first = {"ScanIndexForward": False, "Limit": APPROVALS_PER_PAGE + 1}
        names = [_list_name(state, audience) for audience in audiences]
        lists = [self._table.items({**in_list(name, cursor or AFTER_ALL_KEYS), **newest_first}) for name in names]
        records, position, left_ms = list[ApprovalRecord](), cursor, self._table.left_ms()
        room = MAX_PAGE_BYTES
        for count, entry in enumerate(heapq.merge(*lists, key=_listed_at, reverse=True)):
            if (
                len(records) == APPROVALS_PER_PAGE
                or count == MAX_APPROVALS_READ
                or (count and self._has_used_half(left_ms))
            ):
                return ApprovalPage(records, position)
            record = self._current(entry, state)
            if record is not None:
                room -= json_size(record.to_json())
                if records and room < 0:
                    return ApprovalPage(records, position)
                records.append(record)
            position = _listed_at(entry)
        return ApprovalPage(records)

    def _has_used_half(self, left_ms: int | None) -> bool:
        """Whether half of the time is over that was left at the beginning."""
        now_left_ms = self._table.left_ms()
        return left_ms is not None and now_left_ms is not None and 2 * now_left_ms < left_ms

    def _current(self, entry: Item, state: ApprovalState) -> ApprovalRecord | None:
        """The approval of an entry, if it belongs in this list. The index may be a moment old."""
        now_ms = self._table.clock_ms()
        item = self._table.get({"pk": entry["pk"], "sk": entry["sk"]})
        record = None if item is None else to_approval(item)
        if record is None or record.state is not state:
            return None
        if state is not ApprovalState.WAITING or not record.expired_at(now_ms):
            return record
        if record.expired_at(now_ms - CLOCK_SLACK_MS):
            # Remove it from the list, so that no further reader has to skip it.
            update = Update(self._table.clock_ms())
            update.require("state", "=", ApprovalState.WAITING)
            unlist(update)
            self._apply(record, update)
        return None

    def decide(self, record: ApprovalRecord, decision: Decision) -> ApprovalRecord:
        """Decide an approval: one `UpdateItem`, and one to count it no longer.

        Raises:
            NotDecided: it does not wait, has expired, or has another digest.
        """
        now_ms = self._table.clock_ms()
        state = ApprovalState.APPROVED if decision.approves else ApprovalState.DENIED
        update = _decidable(now_ms, ApprovalState.WAITING, decision.digest)
        decided: JsonObject = {
            "decided_ms": now_ms,
            "decided_by": decision.by,
            "decided_from": decision.origin,
            "source": decision.source,
            "reason": decision.reason,
        }
        update.set("state", state)
        update.set("decided", encode_json("the decision", decided, COMPRESS_APPROVAL_OVER_BYTES))
        update.set(LISTED_IN, _list_name(state, record.audience))
        try:
            decided_record = to_approval(self._table.update(_key(record.approval_id), update, WRITE))
        except ConditionFailed as failure:
            raise NotDecided(record if failure.item is None else to_approval(failure.item)) from failure
        self._waiting.leave(record, record.approval_id[:-ID_PART_CHARS])
        return decided_record

    def withdraw(self, record: ApprovalRecord) -> ApprovalRecord:
        """Withdraw a waiting approval, because its task has ended: as many requests as `decide`. Returns the current
        record."""
        update = Update(self._table.clock_ms(), new_token())
        update.require("state", "=", ApprovalState.WAITING)
        update.set("state", ApprovalState.WITHDRAWN)
        update.set(LISTED_IN, _list_name(ApprovalState.WITHDRAWN, record.audience))
        withdrawn_record = self._apply(record, update)
        self._waiting.leave(record, record.approval_id[:-ID_PART_CHARS])
        return withdrawn_record

    def notified(self, record: ApprovalRecord, notify_ms: int) -> bool:
        """Set when the people may be notified again, 0 for never: one `UpdateItem`. Returns whether the record still
        had `record.notify_ms`, so that of several processes one notifies."""
        update = Update(self._table.clock_ms())
        update.require("notify", "=", record.notify_ms)
        update.set("notify", notify_ms)
        return self._apply(record, update).notify_ms == notify_ms

    def redact(self, record: ApprovalRecord) -> bool:
        """Remove the arguments, and the message that may quote them. Withdraw the approval if it waits. The audit keeps
        the rest. Returns whether there was something to do."""
        waits = record.state is ApprovalState.WAITING
        if not (record.arguments or record.message or waits):
            return False
        if waits:
            record = self.withdraw(record)
        update = Update(self._table.clock_ms())
        update.require_exists("pk")
        update.set("record", _encoded(replace(record, arguments={}, message="")))
        self._apply(record, update)
        return True

    def add_link(self, record: ApprovalRecord, digest: str) -> None:
        """Store that a link decides this approval, by the digest of the link's token: one `PutItem`."""
        link = attributes(approval_id=record.approval_id, expires_at=whole_s(record.until_ms))
        self._table.create(_link_key(digest) | link, "the link's token is taken")

    def linked(self, digest: str) -> ApprovalRecord | None:
        """Read the approval that a link decides: two `GetItem`. `None` if the link is unknown or has expired."""
        item = self._table.get(_link_key(digest))
        if item is None or expired(item, self._table.clock_ms()):
            return None
        return self.get(item["approval_id"]["S"])

    def _apply(self, record: ApprovalRecord, update: Update) -> ApprovalRecord:
        """Make a write that may come too late. Returns the current record."""
        try:
            return to_approval(self._table.update(_key(record.approval_id), update, WRITE))
        except ConditionFailed as failure:
            return record if failure.item is None else to_approval(failure.item)


def approvals_of(store: TaskStore) -> DynamoDBApprovalStore:
    """The approvals of a store. The composed store has them; the interface of tasks does not know them."""
    approvals: DynamoDBApprovalStore = cast("Any", store).approvals
    return approvals


def is_approval_id(text: str) -> bool:
    """Whether a text has the form of an approval's id. If it has not, the table is not read."""
    repeat = text[2 * ID_PART_CHARS : -ID_PART_CHARS]
    digits = repeat.removeprefix(LONG_REPEAT)
    if len(digits) != (REPEAT_CHARS if digits == repeat else LONG_REPEAT_DIGITS):
        return False
    return not (text[: 2 * ID_PART_CHARS] + digits + text[-ID_PART_CHARS:]).strip(HEX_DIGITS)


def to_approval(item: Item) -> ApprovalRecord:
    """The approval in an item. Raises `StoreError` if the item is damaged."""
    try:
        fixed = cast("dict[str, Any]", decode(item["record"]))
        decided = cast("dict[str, Any]", decode(item["decided"])) if "decided" in item else {}
        return ApprovalRecord(
            **{name: fixed[name] for name in FIXED},
            **{name: decided[name] for name in DECIDED if name in decided},
            approval_id=item["approval_id"]["S"],
            state=ApprovalState(item["state"]["S"]),
            used_ms=number(item, "used_ms") if "used_ms" in item else None,
            used_by=item["used_by"]["S"] if "used_by" in item else None,
            uses=number(item, "uses") if "uses" in item else 0,
            is_free="free" in item,
            is_repeated="repeated" in item,
            notify_ms=number(item, "notify"),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"the item {item.get('pk')} is damaged: {error}") from error


def _encoded(record: ApprovalRecord) -> Attribute:
    return encode_json("the approval", {name: getattr(record, name) for name in FIXED}, COMPRESS_APPROVAL_OVER_BYTES)


def _key_text(call: ApprovalRecord, repeat: int) -> str:
    """The part of an id that names the item: the task, the call and the number."""
    # Calls without a task have no common partition.
    task = _task_text(call.task_id or call.digest)
    number = f"{repeat:0{REPEAT_CHARS}x}"
    if len(number) > REPEAT_CHARS:
        number = f"{LONG_REPEAT}{repeat:0{LONG_REPEAT_DIGITS}x}"
    return f"{task}{call.digest[:ID_PART_CHARS]}{number}"


def _repeat_in(sort_key: str) -> int:
    return int(sort_key[ID_PART_CHARS:].removeprefix(LONG_REPEAT), 16)


def _task_text(task_id: str) -> str:
    return text_digest(task_id)[:ID_PART_CHARS]


def _key(approval_id: str) -> Item:
    return _item_key(approval_id[:-ID_PART_CHARS])


def _item_key(text: str) -> Item:
    """The key of the item with this first part of an id."""
    return primary_key(APPROVAL_ITEM_PREFIX + text[:ID_PART_CHARS], text[ID_PART_CHARS:])


def _link_key(digest: str) -> Item:
    return primary_key(LINK_PREFIX + digest, LINK_KEY)


def _list_name(state: ApprovalState, audience: str) -> str:
    return f"APPROVALS#{state.value}#{to_text(audience)}"


def _listed_at(entry: Item) -> str:
    position: str = entry[LISTED_AT]["S"]
    return position


def _decidable(now_ms: int, state: ApprovalState, digest: str) -> Update:
    """A write to the approval of this call, if it has this state and has not expired."""
    update = Update(now_ms, new_token())
    update.require("state", "=", state)
    update.require("digest", "=", digest)
    update.require("until", ">", now_ms)
    return update

"""Approvals in the table of the tasks, one item for each (docs/storage.md, Approvals)."""

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, cast

from msgspec.structs import replace

from mcp_baton.exceptions import StoreError
from mcp_baton.protocol.json import JsonObject
from mcp_baton.tasks.approvals import (
    MOST_REPEATS,
    MOST_WAITING,
    ApprovalPage,
    ApprovalRecord,
    ApprovalState,
    Decision,
    NotDecided,
    TooManyWaiting,
)
from mcp_baton.tasks.dynamodb.attributes import Attribute, Item, decode, encode_json
from mcp_baton.tasks.dynamodb.expressions import Update, first_token, unlist
from mcp_baton.tasks.dynamodb.items import LISTS, expired, number
from mcp_baton.tasks.dynamodb.table import CREATE, WRITE, ConditionFailed, TaskTable
from mcp_baton.tasks.ids import new_token, text_digest
from mcp_baton.tasks.texts import to_text

PREFIX: Final = "APPROVAL#"
LINK_PREFIX: Final = "LINK#"
LINK_KEY: Final = "LINK"
PAGE_SIZE: Final = 25
COMPRESS_OVER_BYTES: Final = 1_024
KEY_CHARACTERS: Final = 16
"""Hex digits of each of the three parts of an id: the task, the call, and 64 random bits."""

REPEAT_CHARACTERS: Final = 2
DAY_MS: Final = 86_400_000
SLACK_MS: Final = 600_000
"""How long an expired approval stays in its list, because the clocks of other processes may be slow, milliseconds."""

FIXED: Final = (
    *("digest", "tool", "arguments", "message", "audience", "owner", "asked_ms", "until_ms", "task_id", "workflow"),
    *("step", "by_requester", "job_id", "base_url"),
)
"""The fields of a record that never change. They are one JSON text."""

DECIDED: Final = ("decided_ms", "decided_by", "decided_from", "source", "reason")


class DynamoDBApprovalStore:
    """An `ApprovalStore`: `pk` = `APPROVAL#<task>`, `sk` = `<call><number>`.

    Args:
        audit_days: How long a record is kept after it has expired.
    """

    def __init__(self, table: TaskTable, audit_days: int) -> None:
        self._table = table
        self._audit_ms = audit_days * DAY_MS

    def ask(self, record: ApprovalRecord, repeat: int, *, is_limited: bool) -> tuple[ApprovalRecord, bool]:
        if repeat >= MOST_REPEATS:
            raise TooManyWaiting(f"this call was requested {MOST_REPEATS} times already")
        key, now_ms, token = _key_text(record, repeat), self._table.clock_ms(), new_token()
        if is_limited and self._waiting_of_task(key[:KEY_CHARACTERS], now_ms) >= MOST_WAITING:
            raise TooManyWaiting(f"{MOST_WAITING} approvals of this task wait already")
        record = replace(record, approval_id=key + os.urandom(KEY_CHARACTERS // 2).hex())
        item: Item = {
            **_key(record.approval_id),
            "approval_id": {"S": record.approval_id},
            "state": {"S": record.state.value},
            "digest": {"S": record.digest},
            "until": {"N": str(record.until_ms)},
            "notify": {"N": str(record.notify_ms)},
            "record": _encoded(record),
            "expires_at": {"N": str((record.until_ms + self._audit_ms) // 1000)},
            **_list_attributes(record),
            **first_token(now_ms, token),
        }
        try:
            self._table.put(item, token, CREATE)
        except ConditionFailed as failure:
            if failure.item is None:
                raise StoreError("the approval was deleted while it was requested") from failure
            return to_approval(failure.item), False
        return record, True

    def waiting(self, task_id: str) -> frozenset[str]:
        request = {**_waiting_query(_task_text(task_id), self._table.clock_ms()), "ProjectionExpression": "approval_id"}
        items = (item for page in self._table.pages(request) for item in page["Items"])
        return frozenset(item["approval_id"]["S"] for item in items)

    def _waiting_of_task(self, task: str, now_ms: int) -> int:
        pages = self._table.pages({**_waiting_query(task, now_ms), "Select": "COUNT"})
        return sum(page["Count"] for page in pages)

    def use(self, call: ApprovalRecord, repeat: int, attempt: str, earlier: str | None = None) -> ApprovalRecord | None:
        now_ms = self._table.clock_ms()
        update = Update(new_token(), now_ms)
        update.require(f"{update.name('state')}={update.text(ApprovalState.APPROVED)}")
        update.require(f"{update.name('digest')}={update.text(call.digest)}")
        update.require(f"{update.name('until')}>{update.number(now_ms)}")
        used_by = update.name("used_by")
        unused = f"attribute_not_exists({used_by})"
        update.require(unused if earlier is None else f"({unused} OR {used_by}={update.text(earlier)})")
        update.set(used_by, update.value({"S": attempt}))
        update.set(update.name("used_ms"), update.number(now_ms))
        try:
            return to_approval(self._table.update(_key(_key_text(call, repeat)), update, CREATE))
        except ConditionFailed as failure:
            return None if failure.item is None else to_approval(failure.item)

    def get(self, approval_id: str) -> ApprovalRecord | None:
        item = self._table.get(_key(approval_id)) if is_approval_id(approval_id) else None
        record = None if item is None or expired(item, self._table.clock_ms()) else to_approval(item)
        return record if record is not None and record.approval_id == approval_id else None

    def list(self, audiences: Sequence[str], state: ApprovalState, cursor: str | None = None) -> ApprovalPage:
        if cursor is not None and not is_approval_id(cursor.partition("#")[2]):
            raise ValueError("the cursor is not one of this list")
        records: dict[str, ApprovalRecord] = {}
        for audience in audiences:
            entries = self._entries(_list_name(state, audience), cursor)
            records |= dict(islice(self._current(entries, state), PAGE_SIZE + 1))
        newest = sorted(records, reverse=True)
        page = [records[position] for position in newest[:PAGE_SIZE]]
        return ApprovalPage(page, newest[PAGE_SIZE - 1] if len(newest) > PAGE_SIZE else None)

    def _entries(self, name: str, cursor: str | None) -> Iterator[Item]:
        """The keys of the items in a list, newest first."""
        values: Item = {":list": {"S": name}} if cursor is None else {":list": {"S": name}, ":at": {"S": cursor}}
        pages = self._table.pages(
            {
                "IndexName": LISTS,
                "KeyConditionExpression": "listed_in=:list" + ("" if cursor is None else " AND listed_at<:at"),
                "ExpressionAttributeValues": values,
                "ScanIndexForward": False,
                "Limit": PAGE_SIZE + 1,
            }
        )
        for page in pages:
            yield from page["Items"]

    def _current(self, entries: Iterable[Item], state: ApprovalState) -> Iterator[tuple[str, ApprovalRecord]]:
        """The approvals in a list that belong there. The index may be a moment old."""
        now_ms = self._table.clock_ms()
        for entry in entries:
            item = self._table.get({"pk": entry["pk"], "sk": entry["sk"]})
            record = None if item is None else to_approval(item)
            if record is None or record.state is not state:
                continue
            if state is ApprovalState.WAITING and record.expired_at(now_ms):
                if record.expired_at(now_ms - SLACK_MS):
                    # Remove it from the list, so that no further reader has to skip it.
                    update = Update(None, self._table.clock_ms())
                    update.require(f"{update.name('state')}={update.text(ApprovalState.WAITING)}")
                    unlist(update)
                    self._apply(record, update)
                continue
            yield _list_position(record), record

    def decide(self, record: ApprovalRecord, decision: Decision) -> ApprovalRecord:
        now_ms = self._table.clock_ms()
        state = ApprovalState.APPROVED if decision.approves else ApprovalState.DENIED
        update = Update(new_token(), now_ms)
        update.require(f"{update.name('state')}={update.text(ApprovalState.WAITING)}")
        update.require(f"{update.name('digest')}={update.text(decision.digest)}")
        update.require(f"{update.name('until')}>{update.number(now_ms)}")
        decided: JsonObject = {
            "decided_ms": now_ms,
            "decided_by": decision.by,
            "decided_from": decision.origin,
            "source": decision.source,
            "reason": decision.reason,
        }
        update.set(update.name("state"), update.text(state))
        update.set(update.name("decided"), update.value(encode_json("the decision", decided, COMPRESS_OVER_BYTES)))
        update.set(update.name("listed_in"), update.text(_list_name(state, record.audience)))
        try:
            return to_approval(self._table.update(_key(record.approval_id), update, WRITE))
        except ConditionFailed as failure:
            raise NotDecided(record if failure.item is None else to_approval(failure.item)) from failure

    def withdraw(self, record: ApprovalRecord) -> ApprovalRecord:
        update = Update(new_token(), self._table.clock_ms())
        update.require(f"{update.name('state')}={update.text(ApprovalState.WAITING)}")
        update.set(update.name("state"), update.text(ApprovalState.WITHDRAWN))
        update.set(update.name("listed_in"), update.text(_list_name(ApprovalState.WITHDRAWN, record.audience)))
        return self._apply(record, update)

    def notified(self, record: ApprovalRecord, notify_ms: int) -> bool:
        update = Update(None, self._table.clock_ms())
        update.require(f"{update.name('notify')}={update.number(record.notify_ms)}")
        update.set(update.name("notify"), update.number(notify_ms))
        return self._apply(record, update).notify_ms == notify_ms

    def redact(self, record: ApprovalRecord) -> bool:
        """Remove the arguments, and the message that may quote them. Withdraw the approval if it waits. The audit keeps
        the rest. Returns whether there was something to do."""
        waits = record.state is ApprovalState.WAITING
        if not (record.arguments or record.message or waits):
            return False
        if waits:
            record = self.withdraw(record)
        update = Update(None, self._table.clock_ms())
        update.require(f"attribute_exists({update.name('pk')})")
        update.set(update.name("record"), update.value(_encoded(replace(record, arguments={}, message=""))))
        self._apply(record, update)
        return True

    def add_link(self, record: ApprovalRecord, digest: str) -> None:
        item: Item = {
            **_link_key(digest),
            "approval_id": {"S": record.approval_id},
            "expires_at": {"N": str(-(-record.until_ms // 1000))},
        }
        self._table.create(item, "the link's token is taken")

    def linked(self, digest: str) -> ApprovalRecord | None:
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


def is_approval_id(text: str) -> bool:
    """Whether a text has the form of an approval's id. If it has not, the table is not read."""
    return len(text) == 3 * KEY_CHARACTERS + REPEAT_CHARACTERS and not text.strip("0123456789abcdef")


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
            notify_ms=number(item, "notify"),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"the item {item.get('pk')} is damaged: {error}") from error


def _encoded(record: ApprovalRecord) -> Attribute:
    return encode_json("the approval", {name: getattr(record, name) for name in FIXED}, COMPRESS_OVER_BYTES)


def _key_text(call: ApprovalRecord, repeat: int) -> str:
    """The part of an id that names the item: the task, the call and the number."""
    # Calls without a task have no common partition.
    task = _task_text(call.task_id or call.digest)
    return f"{task}{call.digest[:KEY_CHARACTERS]}{repeat:0{REPEAT_CHARACTERS}x}"


def _task_text(task_id: str) -> str:
    return text_digest(task_id)[:KEY_CHARACTERS]


def _waiting_query(task: str, now_ms: int) -> dict[str, Any]:
    """The query of a task's approvals that wait, by the task's part of their ids."""
    return {
        "KeyConditionExpression": "pk=:pk",
        "FilterExpression": "#state=:waiting AND #until>:now",
        "ExpressionAttributeNames": {"#state": "state", "#until": "until"},
        "ExpressionAttributeValues": {
            ":pk": {"S": PREFIX + task},
            ":waiting": {"S": ApprovalState.WAITING.value},
            ":now": {"N": str(now_ms)},
        },
        "ConsistentRead": True,
    }


def _key(approval_id: str) -> Item:
    call = approval_id[KEY_CHARACTERS : 2 * KEY_CHARACTERS + REPEAT_CHARACTERS]
    return {"pk": {"S": PREFIX + approval_id[:KEY_CHARACTERS]}, "sk": {"S": call}}


def _link_key(digest: str) -> Item:
    return {"pk": {"S": LINK_PREFIX + digest}, "sk": {"S": LINK_KEY}}


def _list_name(state: ApprovalState, audience: str) -> str:
    return f"APPROVALS#{state.value}#{to_text(audience)}"


def _list_position(record: ApprovalRecord) -> str:
    return f"{record.asked_ms:015d}#{record.approval_id}"


def _list_attributes(record: ApprovalRecord) -> Item:
    listed_in = _list_name(record.state, record.audience)
    return {"listed_in": {"S": listed_in}, "listed_at": {"S": _list_position(record)}}

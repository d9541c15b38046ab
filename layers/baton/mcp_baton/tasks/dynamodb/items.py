"""A task as one DynamoDB item, and back (docs/storage.md)."""

from collections.abc import Callable, Mapping
from typing import Any, cast

from msgspec import Struct, convert

from mcp_baton.exceptions import StoreError
from mcp_baton.protocol.json import JsonObject
from mcp_baton.tasks.dynamodb.attributes import (
    Attribute,
    Item,
    Value,
    attributes,
    decode,
    encode_arguments,
    encode_json,
    encode_variables,
    primary_key,
)
from mcp_baton.tasks.dynamodb.values import Reader, Variables, no_reader
from mcp_baton.tasks.ids import TASK_ID_ALPHABET
from mcp_baton.tasks.record import (
    FIRST_DISPATCH_MS,
    PAUSE_REASONS,
    PROGRESS,
    Claim,
    Job,
    JobSpec,
    JobWaits,
    NewTask,
    TaskRecord,
    TaskStatus,
    timestamp,
)
from mcp_baton.tasks.texts import from_text, to_text

OWNER_PREFIX = "OWNER#"
AFTER_ALL_KEYS = "~"
"""Sorts after every character of an id, and after every time."""

QUESTION_PREFIX = "QUESTION#"
TASK_PREFIX = "TASK#"
MAX_PARTITION_KEY_BYTES = 2048
RUN = "run"
"""The claim in a task's item, a map with the members of `Claim`: `id`, `number`, `until`, `dispatch`, `ended`. `lapsed`
is the sum of the ends of earlier claims; more than 0 if one of them was not released.

Every item has the map, because an update can only set members of a map that exists.
"""

RUN_ID, RUN_NUMBER, RUN_UNTIL, RUN_DISPATCH = (RUN, "id"), (RUN, "number"), (RUN, "until"), (RUN, "dispatch")

NO_CLAIM = Claim("", 0, 0)

ITEM_MS = 2_500
"""The part of the write reserve for the item and the reply, milliseconds: two attempts of a second, and a pause."""

VALUES_MS = 500
"""The time for values outside the item, milliseconds, even if the write reserve is shorter."""

TIMINGS = "timings"

BY_CLIENT = "by_client"
NAMED = "named"

ALWAYS_IN_ITEM = frozenset({PROGRESS, PAUSE_REASONS})
"""Variables that never leave the item, because writes address their members."""

KEPT_UNTIL = "kept_until"
"""The attribute that says until when the values outside a head are certainly kept, epoch seconds."""

DAY_S = 86_400
"""How much longer values are kept than their task, seconds. It covers clocks that differ."""

MARGIN_S = 43_200
"""If values are kept less than this longer than their task, they are kept longer when the task is extended, seconds."""

NO_PROGRESS: Attribute = {"M": {"steps": {"L": []}}}

type Path = tuple[str, ...]
"""The place of a value in a head."""

LARGE_ATTRIBUTES = ("arguments", "result", TIMINGS)
"""The attributes besides the variables that can be large."""

WORK = "work"
"""The attribute of a job with its call. It has what the client has sent: capabilities, and earlier answers."""

WAITS_FOR = "waits_for"
"""The attribute of a job with what it waits for, `JobWaits` as JSON text."""

ASKED, ANSWERED = "asked", "answers"
"""The attributes of a job with its questions, and with their answers, by key."""

LARGE_MAPS = ("variables", ASKED, ANSWERED)
"""The attributes that are maps of values."""


class Limits(Struct, frozen=True):
    """The limits for tasks and their owners.

    Attributes:
        default_ttl_ms: A task's lifetime if the client does not ask for one, milliseconds.
        max_ttl_ms: The longest lifetime that a client can get, milliseconds.
        max_tasks_per_owner: How many live tasks an owner may have, approximately; `None` for any number.
        head_bytes: The bound of a head without steps (`head_bytes`).
        item_bytes: The largest head if values cannot be written outside. DynamoDB's own limit is 409,600.
        compress_over_bytes: Longer JSON texts are compressed.
        audit_days: How long approvals are kept after they have expired.
        page_size: The tasks on one page of a list.
        zip_ms: How long the values of one write may be compressed. The rest is stored uncompressed.
        values_ms: How long one write may take to store values outside the item, with compression.
    """

    default_ttl_ms: int = 3_600_000
    max_ttl_ms: int = 172_800_000
    max_tasks_per_owner: int | None = None
    head_bytes: int = 8_192
    item_bytes: int = 400_000
    compress_over_bytes: int = 1_024
    audit_days: int = 365
    page_size: int = 50
    zip_ms: int = 700
    values_ms: int = 2_500

    def ttl_ms(self, requested_ms: int | None) -> int:
        return max(1, min(self.default_ttl_ms if requested_ms is None else requested_ms, self.max_ttl_ms))


def values_ms(write_reserve_ms: int) -> int:
    """How long values may take, given the write reserve, milliseconds."""
    return max(VALUES_MS, write_reserve_ms - ITEM_MS)


def partition(owner: str, question: str = "") -> str:
    """The partition key of an owner's tasks, or of a question to it. Ids of questions have one length, so no two owners
    share a key."""
    prefix, suffix = (QUESTION_PREFIX, f"#{question}") if question else (OWNER_PREFIX, "")
    key = f"{prefix}{to_text(owner)}{suffix}"
    if len(key.encode()) > MAX_PARTITION_KEY_BYTES:
        limit = MAX_PARTITION_KEY_BYTES - len(prefix) - len(suffix)
        raise StoreError(f"the owner's name is longer than {limit} bytes")
    return key


def key_of(owner: str, task_id: str) -> Item:
    return primary_key(partition(owner), TASK_PREFIX + task_id)


def in_partition(partition: str, first: str = "", last: str = "", **values: Value) -> dict[str, Any]:
    """The strongly consistent query for a partition, or for its items whose sort keys are from `first` to `last`.
    `values` are for other expressions of the query, such as `now` for `:now`."""
    bounds = {"first": first, "last": last} if last else {}
    operands = attributes(pk=partition, **bounds, **values)
    return {
        "KeyConditionExpression": "pk=:pk AND sk BETWEEN :first AND :last" if last else "pk=:pk",
        "ExpressionAttributeValues": {f":{name}": operand for name, operand in operands.items()},
        "ConsistentRead": True,
    }


def task_id_of(item: Item) -> str:
    return item["sk"]["S"].removeprefix(TASK_PREFIX)


def owner_of(item: Item) -> str:
    return from_text(item["pk"]["S"].removeprefix(OWNER_PREFIX))


def new_item(task: NewTask, task_id: str, now_ms: int, limits: Limits) -> Item:
    ttl_ms = limits.ttl_ms(task.ttl_ms)
    compress_over, created_at = limits.compress_over_bytes, timestamp(now_ms)
    claim = task.claim or NO_CLAIM
    item = key_of(task.owner, task_id) | attributes(
        status=TaskStatus.WORKING,
        created_at=created_at,
        updated_at=created_at,
        ttl_ms=ttl_ms,
        # At the end of its lifetime, but not before its claim ends.
        expires_at=whole_s(max(now_ms + ttl_ms, claim.until_ms)),
        version=1,
        arguments=encode_arguments(task.arguments, compress_over),
        variables={"M": encode_variables(task.variables, compress_over)},
        run={"M": attributes(id=claim.id, number=claim.number, until=claim.until_ms)},
        definition=task.definition,
    )
    if task.workflow is not None:
        item |= attributes(workflow=to_text(task.workflow), timings={"M": {}})
    if task.work is not None:
        item |= job_attributes(task.work, now_ms, compress_over) | outbox_entry(task_id, now_ms + FIRST_DISPATCH_MS)
    return item


def value_at(head: Item, path: Path) -> Attribute:
    value: Attribute = head[path[0]]["M"][path[1]] if len(path) > 1 else head[path[0]]
    return value


def expired(item: Item, now_ms: int) -> bool:
    """Whether a task has expired. DynamoDB deletes such items hours later."""
    return number(item, "expires_at") <= now_ms // 1000


def to_record(owner: str, item: Item, reader: Callable[[], Reader] = no_reader) -> TaskRecord:
    """The task in an item, or in the part of an item that a list reads. Values outside are fetched when they are
    read."""
    try:
        return _record(owner, item, reader)
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"the item {item.get('sk')} is damaged: {error}") from error


def _record(owner: str, item: Item, reader: Callable[[], Reader]) -> TaskRecord:
    is_job = TOOL in item
    return TaskRecord(
        owner=owner,
        task_id=task_id_of(item),
        status=TaskStatus(item["status"]["S"]),
        created_at=item["created_at"]["S"],
        updated_at=item["updated_at"]["S"],
        ttl_ms=number(item, "ttl_ms"),
        version=number(item, "version"),
        variables=Variables(members(item, "variables"), reader),
        status_message=_text(item, "status_message"),
        workflow=_text(item, "workflow"),
        definition=_text(item, "definition"),
        large_values=Variables({name: item[name] for name in LARGE_ATTRIBUTES if name in item}, reader),
        claim=claim_in(item),
        job=job_in(item, reader) if is_job else None,
        error=cast("JsonObject | None", decode(item["error"]) if "error" in item else None),
        by_client=BY_CLIENT in item,
        named=NAMED in item,
        wakes=tuple((_text(item, WAKES) or "").split()),
        wakes_ms=listed_ms(item) if WAKES in item and LISTED_AT in item else 0,
        source=item,
    )


def number(item: Item, name: str) -> int:
    return int(item[name]["N"])


def members(item: Item, name: str) -> Mapping[str, Any]:
    """The members of a map attribute; none if the attribute is missing."""
    return item[name]["M"] if name in item else {}


def _text(item: Item, name: str) -> str | None:
    return from_text(item[name]["S"]) if name in item else None


def claim_in(item: Item) -> Claim | None:
    if RUN not in item:
        return None
    run = item[RUN]["M"]
    members = ("number", "until", "dispatch", "lapsed", "ended")
    number, until_ms, dispatch, lapsed, ended_ms = (int(run[name]["N"]) if name in run else 0 for name in members)
    claim = Claim(run["id"]["S"], until_ms, number, dispatch, interrupted=lapsed > 0, ended_ms=ended_ms)
    return claim if claim.number else None


def whole_s(ms: int) -> int:
    """Milliseconds as seconds, rounded up, for `expires_at`."""
    return -(-ms // 1000)


LISTS = "lists"
"""The index of the table: items that are in a list (`listed_in`), sorted by `listed_at`. It has only their keys."""

LISTED_IN, LISTED_AT = "listed_in", "listed_at"
OUTBOX = "OUTBOX#"
WAKES = "wakes"
"""The attribute of a workflow's task with the jobs that a sweep wakes: their ids, with spaces between them."""

OUTBOX_SHARDS = 16
"""The outbox has the jobs of all owners, and a partition of an index takes 1,000 write units a second."""


def outbox_entry(task_id: str, at_ms: int) -> Item:
    """The attributes that list an item in the outbox from a time on, epoch milliseconds. The time may be too early, but
    not too late: a sweep checks the item itself. That read costs a tenth of a write that moves the entry."""
    name = outbox_name(TASK_ID_ALPHABET.index(task_id[-1]) % OUTBOX_SHARDS)
    return attributes(listed_in=name, listed_at=f"{list_time(at_ms)}#job")


def outbox_name(shard: int) -> str:
    return f"{OUTBOX}{shard:x}"


def in_list(name: str, before: str) -> dict[str, Any]:
    """The query for the keys of the items in a list whose `listed_at` sorts before a text."""
    return {
        "IndexName": LISTS,
        "KeyConditionExpression": f"{LISTED_IN}=:list AND {LISTED_AT}<:before",
        "ExpressionAttributeValues": {":list": {"S": name}, ":before": {"S": before}},
    }


def list_time(at_ms: int) -> str:
    return f"{at_ms:015d}"


def listed_ms(item: Item) -> int:
    """The time of an item in the outbox, epoch milliseconds."""
    return int(item[LISTED_AT]["S"].partition("#")[0])


TOOL = "tool"
"""The attribute that only jobs have. A list reads it."""

JOB_MEMBERS = ("request_id", "capabilities", "revision", "attempts", "key", "workflow_task", "answers", "base_url")
RARE_JOB_MEMBERS = ("traceparent", "resumes")


def job_attributes(work: JobSpec, now_ms: int, compress_over: int) -> Item:
    """The attributes of a new job, which is dispatched for the first time."""
    fields = {name: getattr(work, name) for name in JOB_MEMBERS} | {"scopes": list(work.scopes)}
    fields |= {name: value for name in RARE_JOB_MEMBERS if (value := getattr(work, name))}
    return attributes(
        tool=to_text(work.tool),
        work=encode_json("the job's work", fields, compress_over),
        due=now_ms + FIRST_DISPATCH_MS,
        dispatches=1,
        allowed=work.attempts,
        asked={"M": {}},
        answers={"M": {}},
    )


def job_in(item: Item, reader: Callable[[], Reader]) -> Job:
    """The job in an item. In the part that a list reads, without its call and its questions."""
    tool, due_ms, dispatches = from_text(item[TOOL]["S"]), number(item, "due"), number(item, "dispatches")
    waits = convert(decode(item[WAITS_FOR]), JobWaits) if WAITS_FOR in item else None
    if WORK not in item:
        return Job(JobSpec(tool, request_id=""), due_ms, dispatches, allowed=0, waits=waits)
    work = cast("dict[str, Any]", Variables({WORK: item[WORK]}, reader)[WORK])
    fields = {name: work[name] for name in (*JOB_MEMBERS, *RARE_JOB_MEMBERS) if name in work}
    return Job(
        JobSpec(tool=tool, scopes=tuple(work["scopes"]), **fields),
        due_ms=due_ms,
        dispatches=dispatches,
        allowed=number(item, "allowed"),
        asked=_texts(item[ASKED], reader),
        answers=_texts(item[ANSWERED], reader),
        waits=waits,
    )


def _texts(attribute: Attribute, reader: Callable[[], Reader]) -> "Mapping[str, JsonObject]":
    # Decoded when they are read: most readers only count them.
    return cast("Mapping[str, JsonObject]", Variables(attribute["M"], reader))

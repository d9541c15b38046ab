"""A task as one DynamoDB item, and back (docs/storage.md)."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from mcp_baton.exceptions import StoreError
from mcp_baton.protocol.json import Json, JsonObject, dumps
from mcp_baton.tasks.dynamodb.attributes import (
    Attribute,
    Item,
    decode,
    encode_arguments,
    encode_text,
    encode_variables,
    stored_text,
)
from mcp_baton.tasks.dynamodb.values import Variables, excess, is_large, values_of
from mcp_baton.tasks.ids import shard_name, shard_of
from mcp_baton.tasks.record import (
    FIRST_DISPATCH_MS,
    PAUSE_REASON,
    PROGRESS,
    Claim,
    Job,
    NewTask,
    TaskRecord,
    TaskStatus,
    Work,
    timestamp,
)
from mcp_baton.tasks.texts import MARK, from_text, to_text

if TYPE_CHECKING:
    from mcp_baton.tasks.dynamodb.overflow import OverflowStore

OWNER_PREFIX = "OWNER#"
TASK_PREFIX = "TASK#"
MAX_PARTITION_KEY_BYTES = 2048
RUN = "run"
"""The claim in a task's item, a map:

- `id`: the run that has it.
- `number`: how many runs have claimed the task.
- `until`: when it ends, epoch milliseconds; 0 after release.
- `lapsed`: the sum of the ends of earlier claims; more than 0 if one of them was not released.
- `dispatch`: of a worker, the number of its dispatch.

Every item has the map, because an update can only set members of a map that exists.
"""

NOBODY = Claim("", 0, 0)

HEAD_MS = 2_500
"""What is left of the write reserve to the head and the reply, milliseconds: two attempts of a second, and a pause."""

VALUES_MS = 500
"""What values outside the head have at least, milliseconds, however short the write reserve is."""

TIMINGS = "timings"
"""The attribute that says when each step began, and how long it took (docs/storage.md)."""

BY_CLIENT = "by_client"
"""The attribute of a task whose result a client supplied."""

IN_HEAD = frozenset({PROGRESS, PAUSE_REASON})
"""Variables that never leave the head: writes address what is in them."""

KEPT = ("arguments", "result", TIMINGS)
"""The attributes besides the variables that can be large."""


class Limits(Struct, frozen=True):
    """What a store allows.

    Attributes:
        default_ttl_ms: A task's lifetime when the client asks for none, milliseconds.
        max_ttl_ms: The longest lifetime that a client can have, milliseconds.
        max_tasks_per_owner: How many live tasks an owner may have, approximately; `None` for any number.
        item_bytes: How large an item may grow before values must leave it. DynamoDB's own limit is 409,600: what is
            between the two is left to progress, pause reasons and what stands in the place of those values.
        compress_over_bytes: JSON texts of more bytes than this are compressed.
        page_size: Tasks on one page of a listing.
        zip_ms: How long the values of one write are compressed, milliseconds. The rest is stored as it is.
        values_ms: How long one write may take to put its values outside the head, milliseconds, zipping included.
        shards: How many partitions an owner's new tasks are spread over. May grow at any time, never shrink: tasks of
            shards beyond it are found by their ids, but not listed.
    """

    default_ttl_ms: int = 3_600_000
    max_ttl_ms: int = 86_400_000
    max_tasks_per_owner: int | None = None
    item_bytes: int = 400_000
    compress_over_bytes: int = 1_024
    page_size: int = 50
    zip_ms: int = 700
    values_ms: int = 2_500
    shards: int = 1

    def ttl_ms(self, asked: int | None) -> int:
        """The lifetime that a client gets, milliseconds."""
        return max(1, min(self.default_ttl_ms if asked is None else asked, self.max_ttl_ms))


def values_ms(write_reserve_ms: int) -> int:
    """How long values may take of a write reserve of so many milliseconds."""
    return max(VALUES_MS, write_reserve_ms - HEAD_MS)


def partition(owner: str, part: str) -> Attribute:
    """The partition key of a part of what an owner has: of one shard of their tasks, or of one question.

    Parts of one kind have names of one length, so that no two owners share a key, whatever their names are.

    Raises:
        StoreError: the owner's name is longer than a partition key can hold.
    """
    key = f"{OWNER_PREFIX}{stored_text(owner)}#{part}"
    if len(key.encode()) > MAX_PARTITION_KEY_BYTES:
        most = MAX_PARTITION_KEY_BYTES - len(OWNER_PREFIX) - len(part) - 1
        raise StoreError(f"the owner's name is longer than {most} bytes")
    return {"S": key}


def sort_key(task_id: str) -> Attribute:
    """The sort key of a task."""
    return {"S": TASK_PREFIX + task_id}


def key_of(owner: str, task_id: str) -> Item:
    """The whole primary key of a task's item."""
    return {"pk": partition(owner, shard_of(task_id)), "sk": sort_key(task_id)}


def shard_names(shards: int) -> list[str]:
    """The names of so many shards."""
    return [shard_name(number) for number in range(shards)]


def new_item(task: NewTask, task_id: str, now_ms: int, limits: Limits) -> Item:
    """The item of a task that begins now.

    Raises:
        StoreError: a value is not JSON.
    """
    ttl_ms = limits.ttl_ms(task.ttl_ms)
    compress_over, now = limits.compress_over_bytes, timestamp(now_ms)
    item: Item = {
        **key_of(task.owner, task_id),
        "status": {"S": TaskStatus.WORKING},
        "created_at": {"S": now},
        "updated_at": {"S": now},
        "ttl_ms": {"N": str(ttl_ms)},
        "expires_at": expires_at(now_ms + ttl_ms, task.claim),
        "version": {"N": "1"},
        "arguments": encode_arguments(task.arguments, compress_over),
        "variables": {"M": encode_variables(task.variables, compress_over)},
        RUN: run_attribute(task.claim),
    }
    if task.workflow is not None:
        item["workflow"] = {"S": stored_text(task.workflow)}
        item[TIMINGS] = {"M": {}}
    if task.definition is not None:
        item["definition"] = {"S": task.definition}
    if task.work is not None:
        item |= job_attributes(task.work, now_ms, compress_over)
    return item


def stays_whole(item: Item, limit: int) -> bool:
    """Whether no value has to leave a new item: none is large, and the item is within a limit, bytes."""
    values = [value for name, value in item["variables"]["M"].items() if name not in IN_HEAD]
    return not any(map(is_large, [item["arguments"], *values])) and excess(item, limit) <= 0


def expired(item: Item, now_ms: int) -> bool:
    """Whether the task's lifetime is over; DynamoDB deletes such items hours later."""
    return number(item, "expires_at") <= now_ms // 1000


def to_record(owner: str, item: Item, outside: "Callable[[], OverflowStore] | None" = None) -> TaskRecord:
    """The task in an item, or in the part of one that a listing reads. Nothing is fetched until it is asked for.

    Args:
        owner: The task's owner.
        item: The item.
        outside: Gives where the values are that are not in it.

    Raises:
        StoreError: the item is not one that this store writes.
    """
    try:
        return _record(owner, item, outside)
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"the item {item.get('sk')} is damaged: {error}") from error


def _record(owner: str, item: Item, outside: "Callable[[], OverflowStore] | None") -> TaskRecord:
    task_id = item["sk"]["S"].removeprefix(TASK_PREFIX)
    kept = {name: item[name] for name in KEPT if name in item}
    variables, others = values_of(members(item, "variables"), kept, outside, owner, task_id)
    job, error = _job(item)
    return TaskRecord(
        owner=owner,
        task_id=task_id,
        status=TaskStatus(item["status"]["S"]),
        created_at=item["created_at"]["S"],
        updated_at=item["updated_at"]["S"],
        ttl_ms=number(item, "ttl_ms"),
        version=number(item, "version"),
        variables=variables,
        status_message=_text(item, "status_message"),
        workflow=_text(item, "workflow"),
        definition=_text(item, "definition"),
        kept=others,
        claim=claim_in(item),
        job=job,
        error=error,
        by_client=BY_CLIENT in item,
        source=item,
    )


def _job(item: Item) -> "tuple[Job | None, JsonObject | None]":
    if "tool" not in item:
        return None, None

    return job_in(item), error_in(item)


def number(item: Item, name: str) -> int:
    """The integer in an attribute."""
    return int(item[name]["N"])


def members(item: Item, name: str) -> Mapping[str, Any]:
    """The elements of a map attribute; none where there is no such attribute."""
    return item[name]["M"] if name in item else {}


def _text(item: Item, name: str) -> str | None:
    if name not in item:
        return None
    text = item[name]["S"]
    return from_text(text) if text.startswith(MARK) else text


def run_attribute(claim: Claim | None) -> Attribute:
    """A new head's claim; an empty one for a task without a run."""
    claim = claim or NOBODY
    number, until = {"N": str(claim.number)}, {"N": str(claim.until_ms)}
    return {"M": {"id": {"S": claim.id}, "number": number, "until": until}}


def claim_in(item: Item) -> Claim | None:
    """Who runs a task, or ran it last; `None` when nobody ever has."""
    if RUN not in item:
        return None
    run = item[RUN]["M"]
    dispatch, lapsed = (int(run[member]["N"]) if member in run else 0 for member in ("dispatch", "lapsed"))
    claim = Claim(run["id"]["S"], int(run["until"]["N"]), int(run["number"]["N"]), dispatch, interrupted=lapsed > 0)
    return claim if claim.number else None


def expires_at(ends_ms: int, claim: Claim | None) -> Attribute:
    """When a new head expires, epoch seconds: when its lifetime ends, but not while it is claimed."""
    return {"N": str(-(-max(ends_ms, claim.until_ms if claim else 0) // 1000))}


TOOL = "tool"
"""The attribute that a listing reads of a job, and that no other task has."""

MEMBERS = ("request_id", "capabilities", "revision", "attempts", "key", "workflow_task", "answers")


def job_attributes(work: Work, now_ms: int, compress_over: int) -> Item:
    """What the head of a job has that begins now, and is dispatched for the first time.

    Raises:
        StoreError: the work is not JSON.
    """
    members = {name: getattr(work, name) for name in MEMBERS} | {"scopes": list(work.scopes)}
    return {
        TOOL: {"S": to_text(work.tool)},
        "work": job_text("work", members, compress_over),
        "due": {"N": str(now_ms + FIRST_DISPATCH_MS)},
        "dispatches": {"N": "1"},
        "allowed": {"N": str(work.attempts)},
        "asked": {"M": {}},
        "answers": {"M": {}},
    }


def job_text(name: str, value: Json, compress_over: int) -> Attribute:
    """A JSON value of a job as a text, zipped where it is long.

    Raises:
        StoreError: it is not JSON.
    """
    try:
        return encode_text(dumps(value), compress_over)
    except (ValueError, TypeError) as error:
        raise StoreError(f"the job's {name} cannot be stored: {error}") from error


def job_in(item: Item) -> Job:
    """The job in a head; in the part of one that a listing reads, the name of its tool alone.

    Raises:
        KeyError, TypeError, ValueError, StoreError: the item is damaged.
    """
    tool = from_text(item[TOOL]["S"])
    if "work" not in item:
        return Job(Work(tool, request_id=""), due_ms=0, dispatches=0, allowed=0)
    work = cast("dict[str, Any]", decode(item["work"]))
    known = {name: work[name] for name in MEMBERS if name in work}
    return Job(
        Work(tool=tool, scopes=tuple(work["scopes"]), **known),
        due_ms=int(item["due"]["N"]),
        dispatches=int(item["dispatches"]["N"]),
        allowed=int(item["allowed"]["N"]),
        asked=_texts(item["asked"]),
        answers=_texts(item["answers"]),
    )


def error_in(item: Item) -> JsonObject | None:
    """Why a job failed; `None` where it did not.

    Raises:
        StoreError: the item is damaged.
    """
    error = decode(item["error"]) if "error" in item else None
    return error if isinstance(error, dict) else None


def _texts(attribute: Attribute) -> "Mapping[str, JsonObject]":
    # Decoded when they are asked for: most who read a job only count them.
    return cast("Mapping[str, JsonObject]", Variables(attribute["M"]))

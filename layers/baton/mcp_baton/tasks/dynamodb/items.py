"""A task as one DynamoDB item, and back (docs/storage.md)."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mcp_baton.exceptions import StoreError
from mcp_baton.light_dataclasses import dataclass
from mcp_baton.protocol.json import JsonObject, dumps
from mcp_baton.tasks.dynamodb.attributes import Attribute, Item, Zips, encode_text, encode_variable, native
from mcp_baton.tasks.dynamodb.claims import RUN, claim_in, expires_at, run_attribute
from mcp_baton.tasks.dynamodb.fetching import Fetcher
from mcp_baton.tasks.dynamodb.outside import Outside
from mcp_baton.tasks.dynamodb.values import Variables
from mcp_baton.tasks.ids import shard_of
from mcp_baton.tasks.record import PAUSE_REASON, PROGRESS, NewTask, TaskRecord, TaskStatus, timestamp
from mcp_baton.tasks.texts import from_text, to_text, zipped

if TYPE_CHECKING:
    from mcp_baton.tasks.work import Job

OWNER_PREFIX = "OWNER#"
TASK_PREFIX = "TASK#"
MAX_PARTITION_KEY_BYTES = 2048
LISTED = (
    "sk",
    "status",
    "created_at",
    "updated_at",
    "ttl_ms",
    "version",
    "workflow",
    "definition",
    "status_message",
    "tool",
    RUN,
)
"""The attributes that a listing reads."""

LISTED_VARIABLES = (PROGRESS, PAUSE_REASON)
"""The variables that it reads, which say where a task stands."""

GLANCED_AT = ("status", "expires_at", "version", RUN)
"""The attributes that tell whether a task is live, whether it has changed, and who runs it."""

HEAD_MS = 2_500
"""What is left of the write reserve to the head and the reply, milliseconds: two attempts of a second, and a pause."""

VALUES_MS = 500
"""What values outside the head have at least, milliseconds, however short the write reserve is."""

TIMINGS = "timings"
"""The attribute that says when each step began, and how long it took (docs/storage.md)."""

KEPT = ("arguments", "result", TIMINGS)
"""The attributes besides the variables that can be large."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a store allows.

    Attributes:
        default_ttl_ms: A task's lifetime when the client asks for none, milliseconds.
        max_ttl_ms: The longest lifetime that a client can have, milliseconds.
        max_tasks_per_owner: How many live tasks an owner may have; `None` for any number.
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


def system_ms() -> int:
    """The time now, epoch milliseconds."""
    return time.time_ns() // 1_000_000


def partition(owner: str, part: str) -> Attribute:
    """The partition key of a part of what an owner has: of one shard of their tasks, or of one question.

    Parts of one kind have names of one length, so that no two owners share a key, whatever their names are.

    Raises:
        StoreError: the owner's name is longer than a partition key can hold.
    """
    key = f"{OWNER_PREFIX}{to_text(owner)}#{part}"
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


def new_item(task: NewTask, task_id: str, now_ms: int, limits: Limits) -> Item:
    """The item of a task that begins now.

    Raises:
        StoreError: a value is not JSON.
    """
    ttl_ms = limits.ttl_ms(task.ttl_ms)
    compress_over = limits.compress_over_bytes
    variables = {to_text(n): encode_variable(n, value, compress_over) for n, value in task.variables.items()}
    item: Item = {
        **key_of(task.owner, task_id),
        "status": {"S": TaskStatus.WORKING},
        "created_at": {"S": timestamp(now_ms)},
        "updated_at": {"S": timestamp(now_ms)},
        "ttl_ms": {"N": str(ttl_ms)},
        "expires_at": expires_at(now_ms + ttl_ms, task.claim),
        "version": {"N": "1"},
        "arguments": encode_arguments(task.arguments, compress_over),
        "variables": {"M": variables},
        RUN: run_attribute(task.claim),
    }
    if task.workflow is not None:
        item["workflow"] = {"S": to_text(task.workflow)}
        item[TIMINGS] = {"M": {}}
    if task.definition is not None:
        item["definition"] = {"S": task.definition}
    if task.work is not None:
        from mcp_baton.tasks.dynamodb.job_items import job_attributes

        item |= job_attributes(task.work, now_ms, compress_over)
    return item


def encode_arguments(arguments: JsonObject, compress_over: int) -> Attribute:
    """Prompt arguments as a native map, for the console; as JSON text where they are long enough to be zipped.

    Raises:
        StoreError: they are not JSON.
    """
    text = encode_object("arguments", arguments, compress_over)
    if "B" in text:
        return text
    return native(arguments)


def encode_object(name: str, value: JsonObject, compress_over: int, zips: Zips = zipped) -> Attribute:
    """A JSON object as the attribute of this name.

    Raises:
        StoreError: the value is not JSON.
    """
    try:
        return encode_text(dumps(value), compress_over, zips)
    except (ValueError, TypeError) as error:
        raise StoreError(f"the task's {name} cannot be stored: {error}") from error


def expired(item: Item, now_ms: int) -> bool:
    """Whether the task's lifetime is over; DynamoDB deletes such items hours later."""
    return number(item, "expires_at") <= now_ms // 1000


def to_record(owner: str, item: Item, outside: Outside | None = None) -> TaskRecord:
    """The task in an item, or in the part of one that a listing reads. Nothing is fetched until it is asked for.

    Args:
        owner: The task's owner.
        item: The item.
        outside: Where the values are that are not in it.

    Raises:
        StoreError: the item is not one that this store writes.
    """
    try:
        return _record(owner, item, outside)
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"the item {item.get('sk')} is damaged: {error}") from error


def _record(owner: str, item: Item, outside: Outside | None) -> TaskRecord:
    task_id = item["sk"]["S"].removeprefix(TASK_PREFIX)
    fetcher = Fetcher(outside, owner, task_id)
    job, error = _job(item)
    return TaskRecord(
        owner=owner,
        task_id=task_id,
        status=TaskStatus(item["status"]["S"]),
        created_at=item["created_at"]["S"],
        updated_at=item["updated_at"]["S"],
        ttl_ms=number(item, "ttl_ms"),
        version=number(item, "version"),
        variables=Variables(members(item, "variables"), fetcher),
        status_message=_text(item, "status_message"),
        workflow=_text(item, "workflow"),
        definition=_text(item, "definition"),
        kept=Variables({name: item[name] for name in KEPT if name in item}, fetcher),
        claim=claim_in(item),
        job=job,
        error=error,
        source=item,
    )


def _job(item: Item) -> "tuple[Job | None, JsonObject | None]":
    if "tool" not in item:
        return None, None
    from mcp_baton.tasks.dynamodb.job_items import error_in, job_in

    return job_in(item), error_in(item)


def number(item: Item, name: str) -> int:
    """The integer in an attribute."""
    return int(item[name]["N"])


def members(item: Item, name: str) -> Mapping[str, Any]:
    """The elements of a map attribute; none where there is no such attribute."""
    return item[name]["M"] if name in item else {}


def _text(item: Item, name: str) -> str | None:
    return from_text(item[name]["S"]) if name in item else None

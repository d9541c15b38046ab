"""A job in its task's head: the attributes that tasks of workers have besides the others (docs/storage.md, Jobs)."""

from typing import TYPE_CHECKING, Any, cast

from mcp_baton.exceptions import StoreError
from mcp_baton.protocol.json import Json, JsonObject, dumps
from mcp_baton.tasks.dynamodb.attributes import Attribute, Item, decode, encode_text
from mcp_baton.tasks.dynamodb.values import Variables
from mcp_baton.tasks.texts import from_text, to_text
from mcp_baton.tasks.work import FIRST_DISPATCH_MS, Job, Work

if TYPE_CHECKING:
    from collections.abc import Mapping

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

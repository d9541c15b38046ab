"""A task as clients and people see it. All readers use one structure: the renderers of this room, the command line, the
request log and the testing kit. Clients read it from the results that the server makes of it."""

import json
import logging
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct, to_builtins

from mcp_baton.present.sentences import progress_text
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.record import (
    ENGINE_PREFIX,
    EXTRA_PREFIX,
    PROGRESS,
    RESULT_PREFIX,
    StepStatus,
    TaskStatus,
    has_value,
    paused_step,
)
from mcp_baton.workflow.pause import PauseReason
from mcp_baton.workflow.stored_pauses import parse_pauses

logger = logging.getLogger(__name__)

FACT_PREFIX: Final = "mcp-baton/"
NEXT_KEY: Final = f"{FACT_PREFIX}next"
TIMINGS_KEY: Final = f"{FACT_PREFIX}timings"
ELEMENTS_KEY: Final = f"{FACT_PREFIX}elements"
RUNNING_KEY: Final = f"{FACT_PREFIX}running_until"
TOOL_KEY: Final = f"{FACT_PREFIX}tool"
RESULT_BY_KEY: Final = f"{FACT_PREFIX}result_by"
WAITS_FOR_KEY: Final = f"{FACT_PREFIX}waits_for"
OMITTED_KEY: Final = "omitted"

ENDED: Final = frozenset(status.value for status in TaskStatus if status.terminal)


class StepView(Struct, frozen=True, omit_defaults=True, rename={"at_ms": "at"}):
    """A step. `at_ms` is its start, `ms` its duration, `bytes` the length of its result as JSON.

    `elements` has `done` and `total` of an unfinished list.
    """

    name: str
    status: str
    tool: str | None = None
    at_ms: int | None = None
    ms: int | None = None
    bytes: int | None = None
    elements: Mapping[str, int] | None = None


_NAMES: Final = {
    "task_id": "taskId",
    "message": "statusMessage",
    "created": "createdAt",
    "updated": "lastUpdatedAt",
    "ttl_ms": "ttlMs",
    "running_until": "runningUntil",
    "following": "next",
    "result_by": "resultBy",
    "waits_for": "waitsFor",
    "others": "variables",
}


class TaskView(Struct, frozen=True, omit_defaults=True, rename=_NAMES):
    """A task.

    Attributes:
        workflow: The workflow's name; `None` for a tool's task.
        tool: The tool of a background call.
        message: The status message.
        steps: The workflow's steps in order; empty for a tool's task.
        pauses: Why steps have stopped, in the order of the steps, as it is sent.
        running_until: Until when a run holds the task.
        following: The suggested calls (`next`).
        result_by: `client` if a client supplied the result.
        waits_for: What a background call waits for: `approval`, `callback`, `time`.
        questions: The questions of a tool's task, by key.
        others: The lengths of the other variables as JSON, by name.
    """

    task_id: str
    status: str
    workflow: str | None = None
    tool: str | None = None
    message: str | None = None
    created: str = ""
    updated: str = ""
    ttl_ms: int | None = None
    steps: tuple[StepView, ...] = ()
    pauses: tuple[Mapping[str, Any], ...] = ()
    running_until: str | None = None
    following: tuple[Mapping[str, Any], ...] = ()
    results: dict[str, Any] = {}
    result: Any = None
    result_by: str | None = None
    waits_for: tuple[str, ...] = ()
    error: Mapping[str, Any] | None = None
    questions: dict[str, Mapping[str, Any]] = {}
    others: dict[str, int] = {}

    @property
    def ended(self) -> bool:
        """Whether it can no longer change."""
        return self.status in ENDED

    @property
    def open_step(self) -> str | None:
        """The first step that is not settled."""
        return next((step.name for step in self.steps if not StepStatus(step.status).settled), None)

    @property
    def step(self) -> str | None:
        """The step at which it is paused, or the first one that is not settled."""
        return (paused_step(self.pause) if self.pause else None) or self.open_step

    @property
    def statuses(self) -> dict[str, str]:
        return {step.name: step.status for step in self.steps}

    @property
    def pause(self) -> Mapping[str, Any] | None:
        """Why the first of its stopped steps has stopped, as it is sent."""
        return self.pauses[0] if self.pauses else None

    @property
    def reasons(self) -> tuple[PauseReason, ...]:
        """Why steps have stopped, as far as this version of Baton knows the reasons."""
        return parse_pauses(self.pauses)

    @property
    def progress(self) -> str:
        """How many steps are settled: `2 of 3 steps done`."""
        return progress_text([step.status for step in self.steps], " done")

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = to_builtins(self)
        reasons = document.pop("pauses", ())
        return document | ({"pause": reasons[0]} if reasons else {}) | ({"pauses": reasons} if reasons[1:] else {})


# Read from results


def view_in_meta(meta: Mapping[str, Any]) -> TaskView:
    """Return the task in the `_meta` of a run or of a continuation. A client may have written it."""
    status = meta.get("task_status", "working")
    return TaskView(
        task_id=str(meta.get("task_id", "")),
        status=status if isinstance(status, str) else "?",
        steps=tuple(StepView(step["name"], step["status"]) for step in meta.get("steps") or ()),
        pauses=pauses_in(meta),
        following=tuple(meta.get("next", ())),
        result_by=meta.get("result_by"),
    )


def pauses_in(meta: Mapping[str, Any], prefix: str = "") -> tuple[Mapping[str, Any], ...]:
    """Return the pause reasons in `_meta` (`pause_members`)."""
    first, several = meta.get(f"{prefix}pause_reason"), meta.get(f"{prefix}pause_reasons")
    return tuple(several) if isinstance(several, list) else () if first is None else (first,)


def view_in_result(result: Mapping[str, Any]) -> TaskView:
    """Return the task in a `tasks/get` result of either era."""
    meta: Mapping[str, Any] = result.get("_meta", {})
    progress, omitted = meta.get(PROGRESS) or {}, set(meta.get(OMITTED_KEY, ()))
    timings, elements = meta.get(TIMINGS_KEY, {}), meta.get(ELEMENTS_KEY, {})
    sizes = {name: _bytes(value, omitted=name in omitted) for name, value in meta.items()}
    steps = tuple(
        StepView(
            step["name"],
            step["status"],
            step.get("tool"),
            timings.get(step["name"], {}).get("at"),
            timings.get(step["name"], {}).get("ms"),
            sizes.get(RESULT_PREFIX + step["name"]) if has_value(step) else None,
            elements.get(step["name"]),
        )
        for step in progress.get("steps", ())
    )
    return TaskView(
        task_id=result["taskId"],
        status=result["status"],
        workflow=str(progress["goal"]).partition(": ")[0] if "goal" in progress else None,
        tool=meta.get(TOOL_KEY),
        message=result.get("statusMessage"),
        created=result.get("createdAt", ""),
        updated=result.get("lastUpdatedAt", ""),
        ttl_ms=result.get("ttlMs", result.get("ttl")),
        steps=steps,
        pauses=pauses_in(meta, ENGINE_PREFIX),
        running_until=meta.get(RUNNING_KEY),
        following=tuple(meta.get(NEXT_KEY, ())),
        result=result.get("result"),
        result_by=meta.get(RESULT_BY_KEY),
        waits_for=tuple(meta.get(WAITS_FOR_KEY, ())),
        error=result.get("error"),
        questions=result.get("inputRequests", {}),
        results={
            name.removeprefix(RESULT_PREFIX): value for name, value in meta.items() if name.startswith(RESULT_PREFIX)
        },
        others={name: size for name, size in sizes.items() if _is_other(name)},
    )


def view_in_list(entry: Mapping[str, Any]) -> TaskView:
    """Return the task in an entry of `tasks/list`. Of its steps, it has only the first that is not settled."""
    meta: Mapping[str, Any] = entry.get("_meta", {})
    return TaskView(
        task_id=entry["taskId"],
        status=entry["status"],
        workflow=meta.get("workflow"),
        tool=meta.get("tool"),
        message=entry.get("statusMessage"),
        created=entry.get("createdAt", ""),
        updated=entry.get("lastUpdatedAt", ""),
        steps=(StepView(meta["step"], StepStatus.PENDING.value),) if "step" in meta else (),
        pauses=pauses_in(meta),
    )


def _is_other(name: str) -> bool:
    """Whether a member of `_meta` is a variable that the list of steps does not show."""
    if name.startswith(ENGINE_PREFIX):
        return name.startswith(EXTRA_PREFIX)
    return name != OMITTED_KEY and not name.startswith(("io.modelcontextprotocol/", FACT_PREFIX))


def _bytes(value: Any, *, omitted: bool) -> int:
    if omitted and isinstance(value, Mapping):
        return int(value.get("bytes", 0))
    return len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(errors="surrogatepass"))


def variables_in(meta: JsonObject) -> dict[str, Json]:
    """Return the variables in the `_meta` of a view, without the facts."""
    return {name: value for name, value in meta.items() if not name.startswith(FACT_PREFIX)}

"""A task as the commands show it, read from `tasks/get` (docs/http.md)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mcp_baton.server.workflows.task_view import NEXT_KEY, OMITTED_KEY, RESULT_BY_KEY, TIMINGS_KEY
from mcp_baton.tasks.record import ENGINE_PREFIX, EXTRA_PREFIX, PAUSE_REASON, PROGRESS, RESULT_PREFIX, has_value

OVER: Final = frozenset({"completed", "failed", "cancelled"})


@dataclass(frozen=True, slots=True)
class StepState:
    """One step.

    Attributes:
        at_ms: When it began, epoch milliseconds; `None` where that is not known. So is `ms`, how long it took.
        bytes: The length of its result as JSON; `None` where there is none.
    """

    name: str
    status: str
    tool: str | None = None
    at_ms: int | None = None
    ms: int | None = None
    bytes: int | None = None

    def to_json(self) -> dict[str, Any]:
        """What is known of it."""
        told: dict[str, Any] = {"name": self.name, "tool": self.tool, "status": self.status}
        told |= {"at": self.at_ms, "ms": self.ms, "bytes": self.bytes}
        return {name: value for name, value in told.items() if value is not None}


@dataclass(frozen=True, slots=True)
class TaskState:
    """A task.

    Attributes:
        workflow: Whose task it is; `None` for a tool's.
        steps: Its steps, in order; none of a tool's task.
        pause: Why it is paused.
        following: What remains to be done: `next`.
        result_by: `client` where a client supplied the result.
        questions: What a tool's task asks, by key.
        others: The other variables' lengths as JSON, by name.
    """

    task_id: str
    status: str
    workflow: str | None = None
    message: str | None = None
    created: str = ""
    updated: str = ""
    ttl_ms: int | None = None
    steps: tuple[StepState, ...] = ()
    pause: Mapping[str, Any] | None = None
    following: tuple[Mapping[str, Any], ...] = ()
    result: Any = None
    result_by: str | None = None
    error: Mapping[str, Any] | None = None
    questions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    results: Mapping[str, Any] = field(default_factory=dict)
    others: Mapping[str, int] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        """Whether nothing changes it any more."""
        return self.status in OVER

    @property
    def step(self) -> str | None:
        """The first step that is not settled."""
        return next((step.name for step in self.steps if step.status not in ("completed", "skipped")), None)

    def to_json(self) -> dict[str, Any]:
        """The same as a JSON object."""
        told: dict[str, Any] = {"taskId": self.task_id, "status": self.status}
        more = {
            "workflow": self.workflow,
            "statusMessage": self.message,
            "createdAt": self.created or None,
            "lastUpdatedAt": self.updated or None,
            "ttlMs": self.ttl_ms,
            "steps": [step.to_json() for step in self.steps] or None,
            "pause": self.pause,
            "next": list(self.following) or None,
            "results": dict(self.results) or None,
            "result": self.result,
            "resultBy": self.result_by,
            "error": self.error,
            "questions": dict(self.questions) or None,
        }
        return told | {name: value for name, value in more.items() if value is not None}


def state_of(told: Mapping[str, Any]) -> TaskState:
    """The task in a `tasks/get` result, of either era."""
    meta: Mapping[str, Any] = told.get("_meta", {})
    progress, omitted = meta.get(PROGRESS) or {}, set(meta.get(OMITTED_KEY, ()))
    timings = meta.get(TIMINGS_KEY, {})
    sizes = {name: _bytes(value, left_out=name in omitted) for name, value in meta.items()}
    steps = tuple(
        StepState(
            step["name"],
            step["status"],
            step.get("tool"),
            timings.get(step["name"], {}).get("at"),
            timings.get(step["name"], {}).get("ms"),
            sizes.get(RESULT_PREFIX + step["name"]) if has_value(step) else None,
        )
        for step in progress.get("steps", ())
    )
    return TaskState(
        task_id=told["taskId"],
        status=told["status"],
        workflow=str(progress["goal"]).partition(": ")[0] if "goal" in progress else None,
        message=told.get("statusMessage"),
        created=told.get("createdAt", ""),
        updated=told.get("lastUpdatedAt", ""),
        ttl_ms=told.get("ttlMs", told.get("ttl")),
        steps=steps,
        pause=meta.get(PAUSE_REASON),
        following=tuple(meta.get(NEXT_KEY, ())),
        result=told.get("result"),
        result_by=meta.get(RESULT_BY_KEY),
        error=told.get("error"),
        questions=told.get("inputRequests", {}),
        results={
            name.removeprefix(RESULT_PREFIX): value for name, value in meta.items() if name.startswith(RESULT_PREFIX)
        },
        others={name: size for name, size in sizes.items() if _is_other(name)},
    )


def _is_other(name: str) -> bool:
    """Whether it is a variable that no line of the steps tells of."""
    if name.startswith(ENGINE_PREFIX):
        return name.startswith(EXTRA_PREFIX)
    return name != OMITTED_KEY and not name.startswith(("io.modelcontextprotocol/", "mcp-baton/"))


def _bytes(value: Any, *, left_out: bool) -> int:
    if left_out and isinstance(value, Mapping):
        return int(value.get("bytes", 0))
    return len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(errors="surrogatepass"))

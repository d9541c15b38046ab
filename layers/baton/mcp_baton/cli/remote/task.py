"""A task and a run as the commands show them, read from `tasks/get` and `prompts/get` (docs/http.md)."""

import json
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct, to_builtins

from mcp_baton.cli.remote.errors import DONE, FAILED, PAUSED
from mcp_baton.present.run_text import REQUESTS
from mcp_baton.present.task_view import ELEMENTS_KEY, NEXT_KEY, OMITTED_KEY, RESULT_BY_KEY, TIMINGS_KEY
from mcp_baton.tasks.record import ENGINE_PREFIX, EXTRA_PREFIX, PAUSE_REASON, PROGRESS, RESULT_PREFIX, has_value

ENDED: Final = frozenset({"completed", "failed", "cancelled"})


class StepState(Struct, frozen=True, omit_defaults=True, rename={"at_ms": "at"}):
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
    "following": "next",
    "result_by": "resultBy",
    "others": "variables",
}


class TaskState(Struct, frozen=True, omit_defaults=True, rename=_NAMES):
    """A task.

    Attributes:
        workflow: The workflow's name; `None` for a tool's task.
        steps: The workflow's steps in order; empty for a tool's task.
        following: The suggested calls (`next`).
        result_by: `client` if a client supplied the result.
        questions: The questions of a tool's task, by key.
        others: The lengths of the other variables as JSON, by name.
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
    results: dict[str, Any] = {}
    result: Any = None
    result_by: str | None = None
    error: Mapping[str, Any] | None = None
    questions: dict[str, Mapping[str, Any]] = {}
    others: dict[str, int] = {}

    @property
    def ended(self) -> bool:
        """Whether it can no longer change."""
        return self.status in ENDED

    @property
    def step(self) -> str | None:
        """The first step that is neither completed nor skipped."""
        return next((step.name for step in self.steps if step.status not in ("completed", "skipped")), None)

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = to_builtins(self)
        return document


def state_of(result: Mapping[str, Any]) -> TaskState:
    """Return the task in a `tasks/get` result of either era."""
    meta: Mapping[str, Any] = result.get("_meta", {})
    progress, omitted = meta.get(PROGRESS) or {}, set(meta.get(OMITTED_KEY, ()))
    timings, elements = meta.get(TIMINGS_KEY, {}), meta.get(ELEMENTS_KEY, {})
    sizes = {name: _bytes(value, omitted=name in omitted) for name, value in meta.items()}
    steps = tuple(
        StepState(
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
    return TaskState(
        task_id=result["taskId"],
        status=result["status"],
        workflow=str(progress["goal"]).partition(": ")[0] if "goal" in progress else None,
        message=result.get("statusMessage"),
        created=result.get("createdAt", ""),
        updated=result.get("lastUpdatedAt", ""),
        ttl_ms=result.get("ttlMs", result.get("ttl")),
        steps=steps,
        pause=meta.get(PAUSE_REASON),
        following=tuple(meta.get(NEXT_KEY, ())),
        result=result.get("result"),
        result_by=meta.get(RESULT_BY_KEY),
        error=result.get("error"),
        questions=result.get("inputRequests", {}),
        results={
            name.removeprefix(RESULT_PREFIX): value for name, value in meta.items() if name.startswith(RESULT_PREFIX)
        },
        others={name: size for name, size in sizes.items() if _is_other(name)},
    )


def _is_other(name: str) -> bool:
    """Whether a member of `_meta` is a variable that the list of steps does not show."""
    if name.startswith(ENGINE_PREFIX):
        return name.startswith(EXTRA_PREFIX)
    return name != OMITTED_KEY and not name.startswith(("io.modelcontextprotocol/", "mcp-baton/"))


def _bytes(value: Any, *, omitted: bool) -> int:
    if omitted and isinstance(value, Mapping):
        return int(value.get("bytes", 0))
    return len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(errors="surrogatepass"))


class RunResult(Struct, frozen=True):
    """The result of `prompts/get`.

    `task` is the task after the run; `None` if the prompt has none. `persisted` is whether the changes of the run
    were stored, or `"unknown"`.
    """

    name: str
    messages: tuple[Mapping[str, Any], ...]
    task: TaskState | None
    persisted: Any = True

    @property
    def paused(self) -> bool:
        """Whether the client has to continue."""
        return self.task is not None and not self.task.ended

    @property
    def code(self) -> int:
        if self.task is None or self.task.status == "completed":
            return DONE
        return PAUSED if self.paused else FAILED

    @property
    def handoff(self) -> str:
        """The server's last message if the run is paused, else empty."""
        return self._last_text if self.paused else ""

    @property
    def note(self) -> str:
        """The server's last message if the run is not paused, for example about steps that may have run twice."""
        return "" if self.paused else self._last_text

    @property
    def _last_text(self) -> str:
        messages = [message for message in self.messages if text_of(message) not in REQUESTS]
        return text_of(messages[-1]) if messages and messages[-1].get("role") == "assistant" else ""

    def to_json(self) -> dict[str, Any]:
        if self.task is None:
            return {"prompt": self.name, "messages": list(self.messages)}
        note = {"note": self.note} if self.note else {}
        persistence = {} if self.persisted is True else {"persisted": self.persisted}
        return {**self.task.to_json(), "workflow": self.name, "handoff": self.handoff or None, **note, **persistence}


def text_of(message: Mapping[str, Any]) -> str:
    """Return a message's text, or the text of its embedded resource."""
    content = message.get("content", {})
    return str(content.get("text") or content.get("resource", {}).get("text", ""))

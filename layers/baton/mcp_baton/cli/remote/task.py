"""A task and a run as the commands show them, read from `tasks/get` and `prompts/get` (docs/http.md)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mcp_baton.cli.remote.errors import DONE, FAILED, PAUSED
from mcp_baton.server.workflows.task_view import NEXT_KEY, OMITTED_KEY, RESULT_BY_KEY, TIMINGS_KEY
from mcp_baton.tasks.record import ENGINE_PREFIX, EXTRA_PREFIX, PAUSE_REASON, PROGRESS, RESULT_PREFIX, has_value

ENDED: Final = frozenset({"completed", "failed", "cancelled"})


@dataclass(frozen=True, slots=True)
class StepState:
    """A step.

    Attributes:
        at_ms: When it started, epoch milliseconds; `None` if unknown.
        ms: How long it took, milliseconds; `None` if unknown.
        bytes: The length of its result as JSON; `None` if it has none.
    """

    name: str
    status: str
    tool: str | None = None
    at_ms: int | None = None
    ms: int | None = None
    bytes: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the members that are known."""
        members: dict[str, Any] = {"name": self.name, "tool": self.tool, "status": self.status}
        members |= {"at": self.at_ms, "ms": self.ms, "bytes": self.bytes}
        return {name: value for name, value in members.items() if value is not None}


@dataclass(frozen=True, slots=True)
class TaskState:
    """A task.

    Attributes:
        workflow: The workflow's name; `None` for a tool's task.
        steps: The workflow's steps in order; empty for a tool's task.
        pause: The pause reason.
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
    result: Any = None
    result_by: str | None = None
    error: Mapping[str, Any] | None = None
    questions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    results: Mapping[str, Any] = field(default_factory=dict)
    others: Mapping[str, int] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        """Whether it can no longer change."""
        return self.status in ENDED

    @property
    def step(self) -> str | None:
        """The first step that is neither completed nor skipped."""
        return next((step.name for step in self.steps if step.status not in ("completed", "skipped")), None)

    def to_json(self) -> dict[str, Any]:
        """Return the task as a JSON object."""
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
        members: dict[str, Any] = {"taskId": self.task_id, "status": self.status}
        return members | {name: value for name, value in more.items() if value is not None}


def state_of(result: Mapping[str, Any]) -> TaskState:
    """Return the task in a `tasks/get` result of either era."""
    meta: Mapping[str, Any] = result.get("_meta", {})
    progress, omitted = meta.get(PROGRESS) or {}, set(meta.get(OMITTED_KEY, ()))
    timings = meta.get(TIMINGS_KEY, {})
    sizes = {name: _bytes(value, omitted=name in omitted) for name, value in meta.items()}
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


@dataclass(frozen=True, slots=True)
class Ran:
    """The result of `prompts/get`.

    Attributes:
        name: The prompt's name.
        messages: The conversation.
        task: The task after the run; `None` if the prompt has none.
        persisted: Whether the store has what the run did, or `"unknown"`.
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
        """The exit code of the command."""
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
        last = self.messages[-1] if self.messages else {}
        return text_of(last) if last.get("role") == "assistant" else ""

    def to_json(self) -> dict[str, Any]:
        """Return the run as a JSON object."""
        if self.task is None:
            return {"prompt": self.name, "messages": list(self.messages)}
        note = {"note": self.note} if self.note else {}
        more = {} if self.persisted is True else {"persisted": self.persisted}
        return {**self.task.to_json(), "workflow": self.name, "handoff": self.handoff or None, **note, **more}


def text_of(message: Mapping[str, Any]) -> str:
    """Return a message's text, or the text of its embedded resource."""
    content = message.get("content", {})
    return str(content.get("text") or content.get("resource", {}).get("text", ""))

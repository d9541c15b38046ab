"""All views of a task say the same: the store, `tasks/get`, the workflow's tool (which the console uses), the list of
tasks, and the command line."""

from collections.abc import Iterator
from typing import Any

from mcp_baton.present.view import view_in_result
from mcp_baton.testing.client import Client

PROGRESS, PAUSE, NEXT = "_workflow.progress", "_workflow.pause_reason", "mcp-baton/next"

WAITED = "paused: its wait is over; continue it"

COMPUTED = {"approvalRequired": {"approvalRequired", "approvalGranted", "approvalDenied", "approvalExpired"}}
"""What views may show in place of a stored reason."""

MESSAGES = {
    None: (None,),
    "approvalRequired": ("paused: waits for an approval of people",),
    "approvalGranted": ("paused: approved by people",),
    "approvalDenied": ("paused: denied by people",),
    "approvalExpired": ("paused: the approval of people has expired",),
    "waiting": ("paused: waits for a callback until", "paused: waits until", WAITED),
}
"""How status messages begin, by pause reason."""

JOB_MESSAGES = {
    "approvalRequired": "waits for an approval of people until ",
    "callback": "waits for a callback until ",
    "sleep": "waits until ",
    "tool": "waits until ",
}
"""How the status message of a waiting call begins, by its pause reason or the kind of its first stopped step."""


class Views:
    """The views of one task at one moment."""

    def __init__(self, client: Client, task_id: str) -> None:
        self.got: dict[str, Any] = {**client.request("tasks/get", {"taskId": task_id}, {NEXT: True})}
        self.shown: Any = client.call_tool("flow", {"task_id": task_id, "task_action": "show"}).structured
        listed: Any = client.call_tool("flow", {"task_action": "list"}).structured
        self.listed = next(task for task in listed["tasks"] if task["task_id"] == task_id)
        self.meta: dict[str, Any] = self.got["_meta"]
        items: Any = client.store.client
        self.stored = next(item for (_, key), item in items.database.items.items() if key == f"TASK#{task_id}")
        self.state = view_in_result(self.got)

    @property
    def next(self) -> list[dict[str, Any]]:
        calls: list[dict[str, Any]] = self.meta.get(NEXT, [])
        return calls

    @property
    def suggested_answers(self) -> list[str]:
        """The questions that the suggested call answers, if it is the only one."""
        return list(self.next[0]["arguments"].get("answers", {})) if len(self.next) == 1 else []

    def contradictions(self) -> Iterator[str]:
        """Yield what two views say differently."""
        yield from differing("the statuses", self._statuses())
        yield from differing("the pause", self._pauses())
        yield from differing("the status", [self.got["status"], self.shown["task_status"], self.listed["status"]])
        yield from differing("the status message", self._messages())
        if self.got["status"] == "working":
            calls = _without_task(self.next)
            pause = self.meta.get(PAUSE)
            if (
                pause is not None
                and pause["type"] == "toolError"
                and not pause["retryable"]
                and "resource" not in pause
            ):
                calls = calls[-1:]  # it leaves out a call that failed and is not retryable, and the calls after it
            yield from differing("the suggested calls", [calls, _without_task(self.shown["next"])])
            yield from self._pause_contradictions()

    def _statuses(self) -> list[dict[str, str]]:
        stored = self.stored["variables"]["M"][PROGRESS]["M"]["steps"]["L"]
        return [
            {step["M"]["name"]["S"]: str(step["M"]["status"]["S"]) for step in stored},
            {step["name"]: step["status"] for step in self.meta[PROGRESS]["steps"]},
            {step["name"]: step["status"] for step in self.shown["steps"]},
            {step["name"]: step["status"] for step in self.shown["board"]["steps"]},
            {step.name: step.status for step in self.state.steps},
        ]

    def _pauses(self) -> list[Any]:
        views = [self.meta.get(PAUSE), self.shown.get("pause_reason"), self.state.pause]
        if self.got["status"] == "working" and self.got.get("statusMessage") != WAITED:
            views.append(self.shown["board"]["pause"])
        pauses = [None if view is None else (view["type"], _step_of(view)) for view in views]
        step = pauses[0][1] if pauses[0] else ""
        return [*pauses, None if self.listed.get("pause_type") is None else (self.listed["pause_type"], step)]

    def _messages(self) -> list[str | None]:
        board = self.shown["board"]["task"].get("status_message")
        return [self.got.get("statusMessage"), board, self.listed.get("status_message"), self.state.message]

    def _pause_contradictions(self) -> Iterator[str]:
        pause = self.meta.get(PAUSE)
        kind: str | None = None if pause is None else pause["type"]
        stored = self.stored["variables"]["M"].get(PAUSE)
        stored_kind = None if stored is None else stored["M"]["type"]["S"]
        if kind not in {stored_kind, "interrupted"} and kind not in COMPUTED.get(str(stored_kind), ()):
            yield f"the store has the pause {stored_kind}, and tasks/get {kind}"
        message = self.got.get("statusMessage")
        begins = MESSAGES.get(kind, ("paused: waits for the model",))
        if not any(message is begin if begin is None else str(message).startswith(begin) for begin in begins):
            yield f"the status message is {message!r} at the pause {kind}"
        yield from self._next_contradictions(pause, kind)

    def _next_contradictions(self, pause: Any, kind: str | None) -> Iterator[str]:
        calls = self.next
        tools = [(call.get("tool"), call.get("arguments", {}).get("task_action")) for call in calls]
        if kind == "approvalDenied" and tools != [("flow", "cancel")]:
            yield f"after a denial, the suggested calls are {calls}"
        if kind in ("approvalRequired", "approvalGranted", "approvalExpired", "waiting") and tools not in (
            [("flow", None)],
            [("flow", "cancel")],
        ):
            yield f"at the pause {kind}, the suggested calls are {calls}"
        if kind == "answersRequired":
            names = {question["name"] for question in pause["questions"]}
            # A callback may have brought the values of further questions since the run has stopped.
            if not names <= set(self.suggested_answers):
                yield f"the questions are {names}, and the suggested calls {calls}"
        is_over = self.got.get("statusMessage") == WAITED
        if pause is not None and not is_over and _step_of(pause) not in self.shown["message"]:
            yield f"the message does not name the step of the pause: {self.shown['message']}"
        for call in calls[:1] if " more after this" in self.shown["message"] else calls:
            if call.get("tool", "flow") not in self.shown["message"]:
                yield f"the message does not have the suggested call {call}: {self.shown['message']}"


def differing(what: str, views: list[Any]) -> Iterator[str]:
    """Yield a text if two views are not equal."""
    if any(view != views[0] for view in views[1:]):
        yield f"the views have different values for {what}: {views}"


def _step_of(pause: Any) -> str:
    step: str = pause["step"] if "step" in pause else pause.get("blockedStep") or pause["failedStep"]
    return step


def _without_task(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {**call, "arguments": {name: value for name, value in call.get("arguments", {}).items() if name != "task_id"}}
        for call in calls
    ]

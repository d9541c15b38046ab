"""All views of a task say the same: the store, `tasks/get`, the workflow's tool (which the console uses), the list of
tasks, and the command line."""

from collections.abc import Iterator
from typing import Any

from mcp_baton.present.view import view_in_result
from mcp_baton.testing.client import Client

PROGRESS, PAUSE, NEXT = "_workflow.progress", "_workflow.pause_reason", "mcp-baton/next"
PAUSES = "_workflow.pause_reasons"

WAITED = "paused: its wait is over; continue it"

COMPUTED = {"approvalRequired": {"approvalRequired", "approvalGranted", "approvalDenied", "approvalExpired"}}
"""What views may show in place of a stored reason."""

STATES = {
    "approvalRequired": ("waits for an approval of people",),
    "approvalGranted": ("approved by people",),
    "approvalDenied": ("denied by people",),
    "approvalExpired": ("the approval of people has expired",),
    "waiting": ("waits for a callback until", "waits until"),
}
"""How a status message tells a stopped step, by its pause reason."""

MOST_STATES = 5
"""The most states in a status message."""

UNATTENDED = {"approvalRequired", "approvalGranted", "approvalExpired", "waiting"}
"""The reasons of steps that continue without a call of the model."""

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
    def pauses(self) -> list[dict[str, Any]]:
        """The reasons of all stopped steps."""
        first, several = self.meta.get(PAUSE), self.meta.get(PAUSES)
        pauses: list[dict[str, Any]] = several or ([] if first is None else [first])
        return pauses

    def _tool_of(self, pause: dict[str, Any]) -> str | None:
        steps = self.meta[PROGRESS]["steps"]
        tool: str | None = next((step.get("tool") for step in steps if step["name"] == _step_of(pause)), None)
        return tool

    @property
    def suggested_answers(self) -> list[str]:
        """The questions that the last suggested call answers."""
        return list(self.next[-1].get("arguments", {}).get("answers", {})) if self.next else []

    def contradictions(self) -> Iterator[str]:
        """Yield what two views say differently."""
        yield from differing("the statuses", self._statuses())
        yield from differing("the pauses", self._pauses())
        yield from differing("the first pause", self._first_pauses())
        yield from differing("the status", [self.got["status"], self.shown["task_status"], self.listed["status"]])
        yield from differing("the status message", self._messages())
        if self.got["status"] == "working":
            # The tool's result leaves out a call that failed and is not retryable, and what needs its result.
            shown = _with_ids(self.shown["next"])
            failing = {self._tool_of(pause) for pause in self.pauses if _fails_again(pause)} - {None}
            calls, left_out = [], set(failing)
            for call in _with_ids(self.next):
                values = str((call["arguments"], call.get("resource")))
                uses = any(f" from {tool}>" in values for tool in left_out)
                if call in shown or not (uses or call.get("tool") in left_out):
                    calls.append(call)
                elif "tool" in call:
                    left_out.add(call["tool"])
            yield from differing("the suggested calls", [calls, shown])
            tools = [step.get("tool") for step in self.meta[PROGRESS]["steps"]]
            if again := [call for call in shown if call.get("tool") in failing and tools.count(call["tool"]) == 1]:
                yield f"the tool's result suggests {again}, which would fail again"
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
        structured = self.shown
        views = [
            self.pauses,
            structured.get("pause_reasons") or _one(structured.get("pause_reason")),
            self.state.pauses,
        ]
        return [[(pause["type"], _step_of(pause)) for pause in view] for view in views]

    def _first_pauses(self) -> list[Any]:
        """The first reason, as in the list of tasks; and all reasons, as on the board."""
        first = self.pauses[0]["type"] if self.pauses else None
        board = self.shown["board"].get("pauses") or _one(self.shown["board"]["pause"])
        shown = [(pause["type"], _step_of(pause)) for pause in board]
        pauses = [(pause["type"], _step_of(pause)) for pause in self.pauses]
        return [(first, pauses), (self.listed.get("pause_type"), shown)]

    @property
    def is_live(self) -> bool:
        return bool(self.got["status"] == "working")

    def _messages(self) -> list[str | None]:
        board = self.shown["board"]["task"].get("status_message")
        return [self.got.get("statusMessage"), board, self.listed.get("status_message"), self.state.message]

    def _pause_contradictions(self) -> Iterator[str]:
        kinds = [pause["type"] for pause in self.pauses]
        stored = self.stored["variables"]["M"].get(PAUSES, {"L": []})["L"] if self.is_live else []
        stored_kinds = [pause["M"]["type"]["S"] for pause in stored]
        if kinds != ["interrupted"] and not (
            len(kinds) == len(stored_kinds)
            and all(kind in {old, *COMPUTED.get(old, ())} for kind, old in zip(kinds, stored_kinds, strict=True))
        ):
            yield f"the store has the pauses {stored_kinds}, and tasks/get {kinds}"
        message, states = self.got.get("statusMessage"), [self._states_of(pause) for pause in self.pauses]
        if not states and message is not None:
            yield f"the status message is {message!r} without a pause"
        texts = [message] if message == WAITED else str(message).split("; ")
        for texts_of_pause in states:
            begins = [
                begin
                for begin in texts_of_pause
                for text in texts
                if str(text).removeprefix("paused: ").startswith(begin)
            ]
            if not begins and len(texts) < MOST_STATES:
                yield f"the status message is {message!r} at the pauses {kinds}"
        yield from self._next_contradictions(kinds)

    def _states_of(self, pause: dict[str, Any]) -> tuple[str, ...]:
        if pause.get("over"):
            return (WAITED.removeprefix("paused: "), "can continue")
        return STATES.get(pause["type"], ("waits for the model",))

    def _next_contradictions(self, kinds: list[str]) -> Iterator[str]:
        calls, waits = self.next, set(kinds) <= UNATTENDED and bool(kinds)
        tools = [(call.get("tool"), call.get("arguments", {}).get("task_action")) for call in calls]
        if kinds and set(kinds) == {"approvalDenied"} and tools != [("flow", "cancel")]:
            yield f"after a denial, the suggested calls are {calls}"
        if waits and tools not in ([("flow", None)], [("flow", "cancel")]):
            yield f"at the pauses {kinds}, the suggested calls are {calls}"
        names = {
            question["name"]
            for pause in self.pauses
            if pause["type"] == "answersRequired"
            for question in pause["questions"]
        }
        # A callback may have brought the values of further questions since the run has stopped.
        if not names <= set(self.suggested_answers):
            yield f"the questions are {names}, and the suggested calls {calls}"
        for pause in self.pauses:
            # In quotation marks: a random task id may contain the name.
            if f"'{_step_of(pause)}'" not in self.shown["message"]:
                yield f"the message does not name the step of the pause {pause}: {self.shown['message']}"
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


def _fails_again(pause: dict[str, Any]) -> bool:
    return pause["type"] == "toolError" and not pause["retryable"] and "resource" not in pause


def _one(pause: Any) -> list[Any]:
    return [] if pause is None else [pause]


def _with_ids(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Calls that name their steps beside the arguments. A call of the workflow names its task in them."""
    ids = [call.get("task_id") or call.get("arguments", {}).get("task_id") for call in calls]
    return [
        {
            **call,
            "task_id": named,
            "arguments": {name: value for name, value in call.get("arguments", {}).items() if name != "task_id"},
        }
        for call, named in zip(calls, ids, strict=True)
    ]

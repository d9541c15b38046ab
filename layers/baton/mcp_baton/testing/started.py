"""Tasks that tools run as, as a client under test follows them (docs/testing.md)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from mcp_baton.protocol.envelope import RELATED_TASK_KEY
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.testing.answers import Answers, Unanswered
from mcp_baton.testing.controls import Controls
from mcp_baton.testing.params import without
from mcp_baton.testing.results import Result, TaskState
from mcp_baton.testing.wire import ROUNDS, JsonRpcError, Wire

POLLS = 1000
"""So many polls a task may take; one that takes more never ends."""


@dataclass(frozen=True, slots=True)
class StartedTask:
    """A task that was begun here. What it tells it asks the server for, each time: `poll` asks once for all of it.

    Attributes:
        task_id: Its id.
    """

    client: Controls = field(repr=False)
    task_id: str

    @property
    def status(self) -> str:
        """`working`, `input_required`, `completed`, `failed` or `cancelled`."""
        return self.poll().status

    @property
    def status_message(self) -> str:
        """What the tool has reported; empty where it has not."""
        return self.poll().status_message

    @property
    def input_requests(self) -> Mapping[str, JsonObject]:
        """The questions that have no answer yet, by key."""
        return self.poll().input_requests

    @property
    def result(self) -> Result:
        """What the call would have returned: see `TaskState.result`."""
        return self.poll().result

    def poll(self) -> TaskState:
        """The task as it stands."""
        told = self.client.wire.listening(asked=False).request("tasks/get", {"taskId": self.task_id}, {})[0]
        status = str(told["status"])
        ended: JsonObject | JsonRpcError | None = None
        if status == "failed":
            ended = self._error(told)
        elif status == "completed":
            ended = self._result(told)
        requests = cast("dict[str, JsonObject]", told.get("inputRequests", {}))
        shown = without(told, "taskId", "status", "statusMessage", "inputRequests", "result", "error", "_meta")
        value = self.client.stage.worker.events.values.get(self.task_id) if status == "completed" else None
        message = str(told.get("statusMessage", ""))
        return TaskState(self.task_id, status, message, requests, shown, ended, value)

    def answer(self, answers: Mapping[str, Json]) -> TaskState:
        """Answer questions that are open, by key or text; those that are not named stay open.

        Args:
            answers: As `Client.answers` takes them.

        Raises:
            Unanswered: an answer is not of the right kind.
        """
        given = Answers(keys=self.client.stage.answers.keys, open=self.client.stage.answers.open)
        given.give(answers)
        if self.client.era == "2025":
            self._respond(self.client.wire.listening(given, lenient=True))
        else:
            self._update({key: self._given(given, key, asked) for key, asked in self.input_requests.items()})
        return self.poll()

    def cancel(self) -> TaskState:
        """Cancel it; the task as it then is."""
        self.client.wire.request("tasks/cancel", {"taskId": self.task_id}, {})
        return self.poll()

    def wait(self) -> TaskState:
        """Poll until it is over: time passes by its poll interval, workers work on what is due, and questions are
        answered as `Client.answers` says.

        Raises:
            Unanswered: it asks what has no answer.
            Killed: a worker was killed, as a test had asked for.
            AssertionError: it does not end.
        """
        rounds = 0
        for _ in range(POLLS):
            self.client.stage.worker.run_due()
            state = self.poll()
            if state.over:
                return state
            if state.status == "input_required":
                rounds += 1
                if rounds > ROUNDS:
                    raise AssertionError(f"the task has asked {ROUNDS} times, and asks again: {state!r}")
                self._answer_all(state)
            else:
                interval = state.shown.get("pollIntervalMs", state.shown.get("pollInterval"))
                self.client.clock.advance(interval / 1000 if isinstance(interval, int) else 1)
        raise AssertionError(f"the task does not end: {state!r} after {POLLS} polls")

    def _answer_all(self, state: TaskState) -> None:
        answers = self.client.stage.answers
        if self.client.era == "2025":
            self._respond(self.client.wire)
        else:
            self._update({key: answers.result(asked, key) for key, asked in state.input_requests.items()})

    def _respond(self, wire: Wire) -> None:
        """Have the server ask on the stream of a request, and answer what it has asked before."""
        before = [asked for asked in wire.answers.open.values() if _is_of(asked, self.task_id)]
        wire.request("tasks/get", {"taskId": self.task_id}, {})
        for unanswered in map(wire.respond, before):
            if unanswered is not None:
                raise unanswered

    def _given(self, answers: Answers, key: str, asked: JsonObject) -> JsonObject | None:
        try:
            return answers.result(asked, key)
        except Unanswered as unanswered:
            if unanswered.wrong:
                raise
            return None

    def _update(self, responses: Mapping[str, JsonObject | None]) -> None:
        given: dict[str, Json] = {key: response for key, response in responses.items() if response is not None}
        self.client.wire.request("tasks/update", {"taskId": self.task_id, "inputResponses": given}, {})

    def _result(self, told: JsonObject) -> JsonObject:
        if self.client.era == "2026":
            return cast("JsonObject", told["result"])
        return self.client.wire.request("tasks/result", {"taskId": self.task_id}, {})[0]

    def _error(self, told: JsonObject) -> JsonRpcError:
        if self.client.era == "2026":
            return JsonRpcError(cast("dict[str, Any]", told["error"]), 200)
        try:
            self.client.wire.request("tasks/result", {"taskId": self.task_id}, {})
        except JsonRpcError as error:
            return error
        raise AssertionError("tasks/result: the task has failed, and has a result")


def _is_of(question: JsonObject, task_id: str) -> bool:
    """Whether a request of the server's is a question of this task."""
    params = cast("dict[str, Any]", question.get("params", {}))
    return bool(params.get("_meta", {}).get(RELATED_TASK_KEY, {}).get("taskId") == task_id)


def started(client: Controls, result: JsonObject) -> StartedTask | None:
    """The task that a call has begun; `None` for one that was made in its request."""
    if result.get("resultType") == "task":
        return StartedTask(client, str(result["taskId"]))
    task = result.get("task")
    if client.era == "2025" and isinstance(task, Mapping):
        return StartedTask(client, str(task["taskId"]))
    return None


def params_of(client: Controls, name: str, arguments: JsonObject | None, *, as_task: bool) -> JsonObject:
    """A call's params. Up to 2025-11-25 it is the client that asks for a task, and some tools want it to."""
    params: JsonObject = {"name": name, "arguments": dict(arguments or {})}
    tool = client.stage.server.tools.get(name)
    asks = as_task or (tool is not None and tool.tasks.support == "required")
    return {**params, "task": {}} if client.era == "2025" and asks else params

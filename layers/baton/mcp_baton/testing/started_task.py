"""A background task of a client under test."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from mcp_baton.protocol.envelope import RELATED_TASK_KEY
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.testing.answers import Answers, Unanswered
from mcp_baton.testing.controls import Controls
from mcp_baton.testing.mcp_client import MAX_ROUNDS, JsonRpcError
from mcp_baton.testing.results import Result, TaskState, omit
from mcp_baton.testing.wire import Wire

MAX_POLLS = 1000


@dataclass(frozen=True, slots=True)
class StartedTask:
    """A task that this client has started. Each property asks the server; `poll` asks once for all of them."""

    client: Controls = field(repr=False)
    task_id: str

    @property
    def status(self) -> str:
        """`working`, `input_required`, `completed`, `failed` or `cancelled`."""
        return self.poll().status

    @property
    def status_message(self) -> str:
        """The last progress message of the tool; empty for none."""
        return self.poll().status_message

    @property
    def input_requests(self) -> Mapping[str, JsonObject]:
        """The questions that have no answer yet, by key."""
        return self.poll().input_requests

    @property
    def result(self) -> Result:
        """The result of the call: see `TaskState.result`."""
        return self.poll().result

    def poll(self) -> TaskState:
        """Return the current task."""
        task = self.client.wire.with_answers(can_ask=False).request("tasks/get", {"taskId": self.task_id}, {})[0]
        status = str(task["status"])
        end = self._end(task) if status in ("completed", "failed") else None
        requests = cast("dict[str, JsonObject]", task.get("inputRequests", {}))
        other_members = omit(task, "taskId", "status", "statusMessage", "inputRequests", "result", "error", "_meta")
        value = self.client.stage.worker.events.values.get(self.task_id) if status == "completed" else None
        message = str(task.get("statusMessage", ""))
        return TaskState(self.task_id, status, message, requests, other_members, end, value)

    def answer(self, answers: Mapping[str, Json]) -> TaskState:
        """Answer open questions, by key or text, as `Client.answers` takes them. Other questions stay open. Raises
        `Unanswered` if an answer has the wrong type."""
        own = self.client.stage.answers
        replies = Answers(keys=own.keys, open=own.open, workflow_questions=own.workflow_questions, declines=False)
        replies.add(answers)
        if self.client.era == "2025":
            self._respond(self.client.wire.with_answers(replies, lenient=True))
        else:
            self._update({key: self._response(replies, key, question) for key, question in self.input_requests.items()})
        return self.poll()

    def cancel(self) -> TaskState:
        """Cancel the task and return it."""
        self.client.wire.request("tasks/cancel", {"taskId": self.task_id}, {})
        return self.poll()

    def wait(self) -> TaskState:
        """Poll until the task ends. The clock advances by its poll interval, workers process events that are due, and
        questions get the answers of `Client.answers`. Raises `Unanswered` if a question has no answer, `Killed` if a
        worker was killed, as the test requested, and `AssertionError` if the task does not end."""
        rounds = 0
        for _ in range(MAX_POLLS):
            self.client.stage.worker.run_due()
            state = self.poll()
            if state.over:
                return state
            if state.status == "input_required":
                rounds += 1
                if rounds > MAX_ROUNDS:
                    raise AssertionError(f"the task has asked {MAX_ROUNDS} times and asks again: {state!r}")
                answers = self.client.stage.answers
                if self.client.era == "2025":
                    self._respond(self.client.wire)
                else:
                    self._update({key: answers.result(question, key) for key, question in state.input_requests.items()})
            else:
                interval = state.shown.get("pollIntervalMs", state.shown.get("pollInterval"))
                self.client.clock.advance(interval / 1000 if isinstance(interval, int) else 1)
        raise AssertionError(f"the task does not end: {state!r} after {MAX_POLLS} polls")

    def _respond(self, wire: Wire) -> None:
        """Let the server ask on the stream of a request, and answer its earlier questions."""
        open_questions = [question for question in wire.answers.open.values() if _task_of(question) == self.task_id]
        wire.request("tasks/get", {"taskId": self.task_id}, {})
        for unanswered in map(wire.respond, open_questions):
            if unanswered is not None:
                raise unanswered

    def _response(self, answers: Answers, key: str, question: JsonObject) -> JsonObject | None:
        try:
            return answers.result(question, key)
        except Unanswered as unanswered:
            if unanswered.wrong:
                raise
            return None

    def _update(self, responses: Mapping[str, JsonObject | None]) -> None:
        inputs: dict[str, Json] = {key: response for key, response in responses.items() if response is not None}
        self.client.wire.request("tasks/update", {"taskId": self.task_id, "inputResponses": inputs}, {})

    def _end(self, task: JsonObject) -> JsonObject | JsonRpcError:
        """Return the result of an ended task, or its error."""
        if self.client.era == "2025":
            try:
                return self.client.wire.request("tasks/result", {"taskId": self.task_id}, {})[0]
            except JsonRpcError as error:
                return error
        error_or_result = cast("dict[str, Any]", task.get("error", task.get("result")))
        return JsonRpcError(error_or_result, 200) if "error" in task else error_or_result


def _task_of(question: JsonObject) -> object:
    params = cast("dict[str, Any]", question.get("params", {}))
    return params.get("_meta", {}).get(RELATED_TASK_KEY, {}).get("taskId")


def task_in(client: Controls, result: JsonObject) -> StartedTask | None:
    """Return the task in the result of a call; `None` if the call ended within its request."""
    if result.get("resultType") == "task":
        return StartedTask(client, str(result["taskId"]))
    task = result.get("task")
    if client.era == "2025" and isinstance(task, Mapping):
        return StartedTask(client, str(task["taskId"]))
    return None


def params_of(client: Controls, name: str, arguments: JsonObject | None, *, as_task: bool) -> JsonObject:
    """Return a call's params. Up to 2025-11-25 the client requests a task, and some tools require this."""
    params: JsonObject = {"name": name, "arguments": dict(arguments or {})}
    tool = client.stage.server.tools.get(name)
    is_task = as_task or (tool is not None and tool.tasks.support == "required")
    return {**params, "task": {}} if client.era == "2025" and is_task else params

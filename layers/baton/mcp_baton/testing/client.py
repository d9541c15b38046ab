"""The client of a test, and the background tasks that it has started."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast
from urllib.parse import quote, urlencode

from mcp_baton.present.view import variables_in
from mcp_baton.protocol.envelope import RELATED_TASK_KEY, TASK_ID_KEY
from mcp_baton.protocol.http import CALLBACKS_PATH
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.record import PROGRESS, WORKFLOW_TASK
from mcp_baton.tasks.step_ids import bare_task_id
from mcp_baton.testing.answers import Answers, Unanswered
from mcp_baton.testing.controls import Controls
from mcp_baton.testing.mcp_client import MAX_ROUNDS, JsonRpcError, all_approvals
from mcp_baton.testing.results import Contents, Result, Run, Task, TaskState, omit, own_meta
from mcp_baton.testing.wire import Wire
from mcp_baton.testing.workers import WorkerRun
from mcp_baton.tools.arguments import TASK_ID
from mcp_baton.workflow.definition import ANSWERS

MAX_POLLS = 1000


@dataclass(frozen=True, slots=True)
class Client(Controls):
    """An MCP client of a server in this process. `connect` makes it.

    A request raises `JsonRpcError` if the server answers with an error, `Unanswered` if a question has no answer, and
    `Killed` after `killed_after`. If a call becomes a task, the client waits for its end.
    """

    def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None, task: str | None = None) -> Run:
        """Get a prompt: run a workflow, or resume a task."""
        params: JsonObject = {"name": name, "arguments": dict(arguments or {})}
        return self._run(name, Run.of(self.request("prompts/get", params, {} if task is None else {TASK_ID_KEY: task})))

    def call_workflow(self, name: str, arguments: JsonObject | None = None, task: str | None = None) -> Run:
        """Call a workflow's tool: run the workflow, or resume a task."""
        all_arguments: JsonObject = {**(arguments or {}), **({} if task is None else {TASK_ID: task})}
        return self._run(name, Run.of_tool(self._call_tool(name, all_arguments, None)[0]))

    def _run(self, workflow: str, run: Run) -> Run:
        if "task_id" not in run.meta:
            return run
        task_id = run.task_id
        self.stage.workflow_of_task[task_id] = workflow
        return replace(run, continued=lambda answers: self.call_workflow(workflow, {ANSWERS: answers}, task_id))

    def resume(self, task_id: str, arguments: Mapping[str, str] | None = None) -> Run:
        """Resume a task, with arguments in addition to those of its first run."""
        return self.get_prompt(self._workflow_of(task_id), arguments, task_id)

    def _workflow_of(self, task_id: str) -> str:
        workflow = self.stage.workflow_of_task.get(bare_task_id(task_id))
        if workflow is not None:
            return workflow
        progress = cast("dict[str, Any]", self.task(task_id).variables[PROGRESS])
        workflows = self.stage.server.workflows.values()
        return next(item.name for item in workflows if progress["goal"].startswith(f"{item.name}: "))

    def call_tool(self, name: str, arguments: JsonObject | None = None, task: str | None = None) -> Result:
        """Call a tool. With a task, or a step of it (`01m8…/refund`), the call is a continuation."""
        return Result.of(*self._call_tool(name, arguments, task))

    def start_task(self, name: str, arguments: JsonObject | None = None) -> "StartedTask":
        """Call a tool that runs in the background, and return its task without waiting. Raises `ValueError` if the call
        ended within its request."""
        result = self.request("tools/call", self._params_of(name, arguments, as_task=True))
        started_task = self._task_in(result)
        if started_task is None:
            raise ValueError(f"start_task({name!r}): the call ended within its request: {Result.of(result, None)!r}")
        return started_task

    def run_worker(self) -> WorkerRun:
        """Let the worker process the event that is due first. If none is due, the clock advances. Raises `LookupError`
        if no event waits."""
        return self.stage.worker.run()

    def _call_tool(self, name: str, arguments: JsonObject | None, task: str | None) -> tuple[JsonObject, Json]:
        wire, params = self.wire, self._params_of(name, arguments, as_task=False)
        result = wire.result("tools/call", params, {} if task is None else {TASK_ID_KEY: task})
        started_task = self._task_in(result)
        if started_task is None:
            return result, wire.invocations[-1].value
        state = started_task.wait()
        return state.sent, state.value

    def _params_of(self, name: str, arguments: JsonObject | None, *, as_task: bool) -> JsonObject:
        """Return a call's params. Up to 2025-11-25 the client requests a task, and some tools require this."""
        params: JsonObject = {"name": name, "arguments": dict(arguments or {})}
        tool = self.stage.server.tools.get(name)
        is_task = as_task or (tool is not None and tool.tasks.support == "required")
        return {**params, "task": {}} if self.era == "2025" and is_task else params

    def _task_in(self, result: JsonObject) -> "StartedTask | None":
        """Return the task in the result of a call; `None` if the call ended within its request."""
        task = result if result.get("resultType") == "task" else result.get("task") if self.era == "2025" else None
        return StartedTask(self, str(task["taskId"])) if isinstance(task, Mapping) else None

    def task(self, task_id: str) -> Task:
        """Return a task with all its variables."""
        task = self.request("tasks/get", {"taskId": task_id}, {"mcp-baton/variables": "all"})
        status, result = str(task["status"]), task.get("result")
        if self.era == "2025" and status == "completed":
            sent = self.request("tasks/result", {"taskId": task_id})
            result = sent.get("result", omit(sent, "_meta"))  # of a background call, it is the call's result itself
        return Task(str(task["taskId"]), status, variables_in(own_meta(task)), result, omit(task, "result", "_meta"))

    def tasks(self) -> list[Task]:
        """Return the owner's tasks, newest first, without variables. Only the 2025 era lists tasks."""
        items = replace(self, era="2025").wire.pages("tasks/list", "tasks")
        return [Task(item["taskId"], item["status"], {}, None, item) for item in items]

    def cancel(self, task_id: str) -> Task:
        """Cancel a task and return it."""
        self.request("tasks/cancel", {"taskId": task_id})
        return self.task(task_id)

    def complete(self, task_id: str, result: JsonObject) -> Task:
        """Complete a task with a result and return it."""
        self.request("tasks/cancel", {"taskId": task_id, "result": result})
        return self.task(task_id)

    def send_callback(self, task_id: str, step: str, body: Json, *, key: str | None = None) -> None:
        """Send a callback to a waiting step of a task, or of the workflow that it runs, as another system does.

        Args:
            body: The JSON of the request.
            key: The `Idempotency-Key`.

        Raises:
            ValueError: no tool has made an address for this step (`ctx.callback_url`).
            BatonError: the callback is refused.
        """
        task = self.task(task_id)
        workflow_task = task.variables.get(WORKFLOW_TASK, task.task_id)
        token = self.stage.store.callback_token(str(workflow_task), step)
        headers = {} if key is None else {"Idempotency-Key": key}
        replace(self, owner=None, claims={}).wire.http("POST", f"{CALLBACKS_PATH}{token}", body, headers)

    def approvals(self, state: str = "waiting") -> list[dict[str, Any]]:
        """Return the approvals of this owner's groups in a state, newest first."""
        return all_approvals(lambda query: self.wire.http("GET", f"/approvals?{urlencode(query)}"), state)

    def approve(self, approval_id: str, *, reason: str | None = None) -> dict[str, Any]:
        """Approve a call as a person of its group, and return the approval. Raises `BatonError` if it is refused."""
        return self._decide(approval_id, "approve", reason)

    def deny(self, approval_id: str, *, reason: str | None = None) -> dict[str, Any]:
        """As `approve`, to deny a call."""
        return self._decide(approval_id, "deny", reason)

    def _decide(self, approval_id: str, decision: str, reason: str | None) -> dict[str, Any]:
        target = f"/approvals/{quote(approval_id)}"
        digest = self.wire.http("GET", target)["digest"]
        return self.wire.http("POST", target, {"decision": decision, "digest": digest, "reason": reason})

    def list_tools(self) -> list[dict[str, Any]]:
        """Return the listed tools."""
        return self.wire.pages("tools/list", "tools")

    def read_resource(self, uri: str) -> Contents:
        """Return a resource's contents."""
        [contents] = cast("list[dict[str, Any]]", self.request("resources/read", {"uri": uri})["contents"])
        return Contents.of(contents)

    def request(self, method: str, params: JsonObject | None = None, meta: JsonObject | None = None) -> JsonObject:
        """Send any request and return its result. `meta` has members of `_meta` in addition to those of the era."""
        return self.wire.result(method, params, meta)


@dataclass(frozen=True, slots=True)
class StartedTask:
    """A task that this client has started. Each property asks the server; `poll` asks once for all of them."""

    client: Client = field(repr=False)
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
        task = replace(self.client.wire, can_ask=False).result("tasks/get", {"taskId": self.task_id})
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
            self._respond(replace(self.client.wire, answers=replies, lenient=True))
        else:
            self._update({key: self._response(replies, key, question) for key, question in self.input_requests.items()})
        return self.poll()

    def cancel(self) -> TaskState:
        """Cancel the task and return it."""
        self.client.wire.result("tasks/cancel", {"taskId": self.task_id})
        return self.poll()

    def wait(self) -> TaskState:
        """Poll until the task ends. The clock advances by its poll interval, workers process events that are due, and
        questions get the answers of `Client.answers`. Raises `Unanswered` if a question has no answer, `Killed` if a
        worker was killed, as the test requested, and `AssertionError` if the task does not end."""
        rounds, state = 0, None
        for _ in range(MAX_POLLS):
            self.client.stage.worker.run_due()
            try:
                state = self.poll()
            except JsonRpcError as error:
                if state is None:
                    raise
                raise AssertionError(f"the task does not end: it has expired; before, it was {state!r}") from error
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
        wire.result("tasks/get", {"taskId": self.task_id})
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
        self.client.wire.result("tasks/update", {"taskId": self.task_id, "inputResponses": inputs})

    def _end(self, task: JsonObject) -> JsonObject | JsonRpcError:
        """Return the result of an ended task, or its error."""
        if self.client.era == "2025":
            try:
                return self.client.wire.result("tasks/result", {"taskId": self.task_id})
            except JsonRpcError as error:
                return error
        error_or_result = cast("dict[str, Any]", task.get("error", task.get("result")))
        return JsonRpcError(error_or_result, 200) if "error" in task else error_or_result


def _task_of(question: JsonObject) -> object:
    params = cast("dict[str, Any]", question.get("params", {}))
    return params.get("_meta", {}).get(RELATED_TASK_KEY, {}).get("taskId")

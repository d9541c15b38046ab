"""The client of a test, and the failures that it can arrange."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Self, cast
from urllib.parse import quote

from mcp_baton import Server, ToolError
from mcp_baton.present.view import variables_in
from mcp_baton.protocol.envelope import RELATED_TASK_KEY, TASK_ID_KEY
from mcp_baton.protocol.http import CALLBACKS_PATH
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.record import PROGRESS, WORKFLOW_TASK
from mcp_baton.tasks.step_ids import bare_task_id
from mcp_baton.testing.answers import Answers, Unanswered
from mcp_baton.testing.function import Clock, Function, Invocations, Kill
from mcp_baton.testing.mcp_client import MAX_ROUNDS, Era, JsonRpcError
from mcp_baton.testing.overrides import Overrides
from mcp_baton.testing.results import Contents, Result, Run, Task, TaskState, own_meta
from mcp_baton.testing.script import FixedResult, Script
from mcp_baton.testing.store import Store
from mcp_baton.testing.wire import Wire
from mcp_baton.testing.workers import WaitingEvent, Worker, WorkerRun
from mcp_baton.tools.arguments import TASK_ID
from mcp_baton.workflow.definition import ANSWERS


def omit(members: JsonObject, *names: str) -> dict[str, Json]:
    return {name: value for name, value in members.items() if name not in names}


@dataclass(frozen=True, slots=True)
class Stage:
    """The parts that the clients of one `connect` share.

    `workflow_of_task` has the workflow of each task that a client has started, by task id.
    """

    server: Server
    function: Function
    worker: Worker
    invocations: Invocations
    store: Store
    clock: Clock
    script: Script
    answers: Answers
    workflow_of_task: dict[str, str]
    overrides: Overrides
    sweep: Callable[[], None]
    deploy: Callable[[Server], "Stage"]


@dataclass(frozen=True, slots=True)
class Controls:
    """The settings and failures that a test can arrange. All clients of one `connect` share them."""

    stage: Stage
    owner: str | None
    era: Era
    claims: Mapping[str, Json] = field(default_factory=dict)

    def as_owner(self, name: str | None, *, scopes: Sequence[str] = ()) -> Self:
        """Return a client of another owner, with these scopes and no other claims; `None` for an unauthenticated
        caller."""
        return replace(self, owner=name, claims={"scope": " ".join(scopes)} if scopes else {})

    def with_claims(self, **claims: Json) -> Self:
        """Return a client of the same owner with claims as from an authorizer: `scope="orders:write"`."""
        return replace(self, claims=claims)

    def deployed(self, server: Server) -> Self:
        """Return a client of another version of the server with the same tasks, as after a deployment.

        This client still uses its own version, as a running invocation does. Each version has its own `calls`.

        Raises:
            WorkflowError: a workflow cannot work.
        """
        return replace(self, stage=self.stage.deploy(server))

    @property
    def wire(self) -> Wire:
        """The connection of this client to the function."""
        stage = self.stage
        return Wire(
            stage.function,
            stage.server,
            stage.answers,
            self.owner,
            self.era,
            self.claims,
            after=stage.worker.process_due,
        )

    @property
    def clock(self) -> Clock:
        """The clock: `clock.advance(seconds)`."""
        return self.stage.clock

    @property
    def store(self) -> Store:
        """The DynamoDB: `store.fails("UpdateItem")`."""
        return self.stage.store

    def calls(self, tool: str) -> list[dict[str, Json]]:
        """Return the arguments of each call of a tool by clients and steps, in order.

        Raises:
            ValueError: the server has no such tool.
        """
        return self.stage.script.calls(tool)

    def tool_returns(self, tool: str, value: object, *, times: int | None = None) -> None:
        """Make a tool return a value instead of running. Its arguments and the value are still validated.

        Args:
            tool: Its name.
            value: A return value of its function, or the JSON of one.
            times: The number of calls; `None` for all, 0 to stop.

        Raises:
            ValueError: the server has no such tool.
        """
        self.stage.script.replace(tool, FixedResult(value, None, times))

    def tool_raises(
        self, tool: str, error: BaseException | type[BaseException] | str, *, times: int | None = None
    ) -> None:
        """Make a tool raise an error instead of running; a string becomes a `ToolError`. See `tool_returns`."""
        exception = ToolError(error) if isinstance(error, str) else error
        self.stage.script.replace(tool, FixedResult(None, exception, times))

    def during(self, tool: str, happens: Callable[[], object]) -> None:
        """Call a function before the next call of a tool, for example to `cancel` the tool's task.

        Args:
            tool: The tool's name.
            happens: The function. If it raises, the tool raises the same.

        Raises:
            ValueError: the server has no such tool.
        """
        self.stage.script.set_hook(tool, happens)

    def override(self, factory: Callable[..., object], by: Callable[..., object]) -> AbstractContextManager[None]:
        """Within the block, call another factory wherever the server's functions declare `Depends(factory)`.

        Instances that are made for the process within the block are separate, and are closed at its end.

        Args:
            factory: The factory that the functions declare.
            by: The factory that is called instead.

        Raises:
            RegistrationError: no function of the server depends on `factory`, or `by` cannot replace it.
        """
        return self.stage.overrides.override(factory, by)

    def answers(self, answers: Mapping[str, Json] | None) -> None:
        """Set the answers to questions of tools, by their key or their text.

        Args:
            answers: For a form or a page its fields, `"decline"` or `"cancel"`; for a question to the model a text; for
                the roots a list of URIs. `None` means that this client cannot answer questions.
        """
        self.stage.answers.add(answers)

    @property
    def waiting_events(self) -> list[WaitingEvent]:
        """The queue of the worker's events. A test may change the list: remove an event to lose it, repeat it to
        deliver it twice, or change the order."""
        return self.stage.worker.events.waiting

    @property
    def worker_runs(self) -> list[WorkerRun]:
        """The outcomes of the events that the worker has processed, in order."""
        return self.stage.worker.events.runs

    def dispatch_fails(self, *, times: int | None = 1) -> None:
        """Reject the next events, as if Lambda were not available; `None` for all, 0 to stop."""
        self.stage.worker.events.refused = times

    def sweep(self) -> None:
        """Check the background tasks that are due, as the server's clock does each minute."""
        self.stage.sweep()

    def send_event(self, event: Json) -> JsonObject:
        """Deliver an event to the worker function once, such as `{"batonStart": {…}}` or an array of them
        (docs/events.md). The background work that it starts is done as after a request.

        Returns:
            The outcome that the function returns.

        Raises:
            EventError: the event is invalid. Lambda would deliver it twice more, and then send it to the dead-letter
                queue.
        """
        return self.stage.worker.deliver(event)

    def remaining_s(self, seconds: float) -> None:
        """Set the remaining time of all invocations, running ones included. The defaults are 120 s, and 900 s for a
        worker."""
        self.stage.invocations.remaining_s(seconds)

    def killed_after(self, what: str) -> Kill:
        """Kill the function after its next action of this kind. The request, or the call that waits for a worker,
        raises `Killed`.

        The store keeps its state, and the killed run no longer changes it. As a context manager, the block ends at the
        kill, and must not end before.

        Args:
            what: A successful DynamoDB operation (`PutItem`, `UpdateItem`, …), or the name of a tool that returns.

        Raises:
            ValueError: there is no such operation or tool.
        """
        if not self.store.has_operation(what):
            self.stage.script.check(what)
        return self.stage.invocations.kill_after(what)


MAX_POLLS = 1000
"""The maximum number of polls of a task."""


@dataclass(frozen=True, slots=True)
class StartedTask:
    """A task that this client has started. Each property asks the server; `poll` asks once for all of them.

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
        end: JsonObject | JsonRpcError | None = None
        if status == "failed":
            end = self._error(task)
        elif status == "completed":
            end = self._result(task)
        requests = cast("dict[str, JsonObject]", task.get("inputRequests", {}))
        other_members = omit(task, "taskId", "status", "statusMessage", "inputRequests", "result", "error", "_meta")
        value = self.client.stage.worker.events.values.get(self.task_id) if status == "completed" else None
        message = str(task.get("statusMessage", ""))
        return TaskState(self.task_id, status, message, requests, other_members, end, value)

    def answer(self, answers: Mapping[str, Json]) -> TaskState:
        """Answer open questions, by key or text. Other questions stay open.

        Args:
            answers: As `Client.answers` takes them.

        Raises:
            Unanswered: an answer has the wrong type.
        """
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
        questions get the answers of `Client.answers`.

        Raises:
            Unanswered: a question has no answer.
            Killed: a worker was killed, as the test requested.
            AssertionError: the task does not end.
        """
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
        open_questions = [question for question in wire.answers.open.values() if _is_of(question, self.task_id)]
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

    def _result(self, task: JsonObject) -> JsonObject:
        if self.client.era == "2026":
            return cast("JsonObject", task["result"])
        return self.client.wire.request("tasks/result", {"taskId": self.task_id}, {})[0]

    def _error(self, task: JsonObject) -> JsonRpcError:
        if self.client.era == "2026":
            return JsonRpcError(cast("dict[str, Any]", task["error"]), 200)
        try:
            self.client.wire.request("tasks/result", {"taskId": self.task_id}, {})
        except JsonRpcError as error:
            return error
        raise AssertionError("tasks/result: the task has failed, and has a result")


def _is_of(question: JsonObject, task_id: str) -> bool:
    params = cast("dict[str, Any]", question.get("params", {}))
    return bool(params.get("_meta", {}).get(RELATED_TASK_KEY, {}).get("taskId") == task_id)


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

    def start_task(self, name: str, arguments: JsonObject | None = None) -> StartedTask:
        """Call a tool that runs in the background, and return its task without waiting.

        Raises:
            ValueError: the call ended within its request.
        """
        params = params_of(self, name, arguments, as_task=True)
        result = self.request("tools/call", params)
        started_task = task_in(self, result)
        if started_task is None:
            raise ValueError(f"start_task({name!r}): the call ended within its request: {Result.of(result, None)!r}")
        return started_task

    def run_worker(self) -> WorkerRun:
        """Let the worker process the event that is due first. If none is due, the clock advances.

        Raises:
            LookupError: no event waits.
        """
        return self.stage.worker.run()

    def _call_tool(self, name: str, arguments: JsonObject | None, task: str | None) -> tuple[JsonObject, Json]:
        params = params_of(self, name, arguments, as_task=False)
        result, invocation = self.wire.request("tools/call", params, {} if task is None else {TASK_ID_KEY: task})
        started_task = task_in(self, result)
        if started_task is None:
            return result, invocation.value
        state = started_task.wait()
        return state.sent, state.value

    def task(self, task_id: str) -> Task:
        """Return a task with all its variables."""
        task = self.request("tasks/get", {"taskId": task_id}, {"mcp-baton/variables": "all"})
        status, result = str(task["status"]), task.get("result")
        if self.era == "2025" and status == "completed":
            result = self.request("tasks/result", {"taskId": task_id})["result"]
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
        """Send a callback to a waiting step of a task, as another system does.

        Args:
            task_id: The task, or the background task that runs its workflow.
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
        """Return the approvals in the groups of this client's owner, newest first: those that wait, or those in another
        state."""
        approvals: list[dict[str, Any]] = []
        target: str | None = f"/approvals?state={state}"
        while target is not None:
            page = self.wire.http("GET", target)
            approvals += page["approvals"]
            target = f"/approvals?state={state}&cursor={quote(page['nextCursor'])}" if "nextCursor" in page else None
        return approvals

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
        """Send any request and return its result.

        Args:
            method: E.g. `prompts/list`.
            params: Its params, without `_meta`.
            meta: Members of `_meta` in addition to those of the era.
        """
        return self.wire.request(method, params or {}, meta or {})[0]

"""The client of a test."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast
from urllib.parse import quote

from mcp_baton.present.view import variables_in
from mcp_baton.protocol.envelope import TASK_ID_KEY
from mcp_baton.protocol.http import CALLBACKS_PATH
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.record import PROGRESS, WORKFLOW_TASK
from mcp_baton.tasks.step_ids import bare_task_id
from mcp_baton.testing.controls import Controls
from mcp_baton.testing.results import Contents, Result, Run, Task, omit, own_meta
from mcp_baton.testing.started_task import StartedTask, params_of, task_in
from mcp_baton.testing.workers import WorkerRun
from mcp_baton.tools.arguments import TASK_ID
from mcp_baton.workflow.definition import ANSWERS


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
        """Call a tool that runs in the background, and return its task without waiting. Raises `ValueError` if the call
        ended within its request."""
        result = self.request("tools/call", params_of(self, name, arguments, as_task=True))
        started_task = task_in(self, result)
        if started_task is None:
            raise ValueError(f"start_task({name!r}): the call ended within its request: {Result.of(result, None)!r}")
        return started_task

    def run_worker(self) -> WorkerRun:
        """Let the worker process the event that is due first. If none is due, the clock advances. Raises `LookupError`
        if no event waits."""
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
        """Send any request and return its result. `meta` has members of `_meta` in addition to those of the era."""
        return self.wire.request(method, params or {}, meta or {})[0]

"""The client that a test holds."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.workflows.task_view import variables_in
from mcp_baton.tasks.record import PROGRESS
from mcp_baton.testing.controls import Controls
from mcp_baton.testing.params import naming, pages, without
from mcp_baton.testing.results import Contents, Result, Run, Task, own_meta
from mcp_baton.testing.started import StartedTask, params_of, started
from mcp_baton.testing.workers import WorkerRun
from mcp_baton.workflow.definition import ANSWERS, TASK_ID


@dataclass(frozen=True, slots=True)
class Client(Controls):
    """An MCP client of a server in this process. `connect` makes it.

    Every request raises `JsonRpcError` where the server answers with an error, `Unanswered` where it asks what
    `answers` does not say, and `Killed` after `killed_after`. A call that becomes a task is waited for.
    """

    def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None, task: str | None = None) -> Run:
        """Get a prompt: run a workflow, or go on with a task."""
        params: JsonObject = {"name": name, "arguments": dict(arguments or {})}
        return self._begun(name, Run.of(self.request("prompts/get", params, naming(task))))

    def call_workflow(self, name: str, arguments: JsonObject | None = None, task: str | None = None) -> Run:
        """Call a workflow's tool: run it, or go on with a task."""
        given: JsonObject = {**(arguments or {}), **({} if task is None else {TASK_ID: task})}
        return self._begun(name, Run.of_tool(self._called(name, given, None)[0]))

    def _begun(self, workflow: str, run: Run) -> Run:
        if "task_id" not in run.meta:
            return run
        task_id = run.task_id
        self.stage.started[task_id] = workflow
        return replace(run, continued=lambda answers: self.call_workflow(workflow, {ANSWERS: answers}, task_id))

    def resume(self, task_id: str, arguments: Mapping[str, str] | None = None) -> Run:
        """Go on with a task, with these arguments beside those of its first run."""
        return self.get_prompt(self._workflow_of(task_id), arguments, task_id)

    def _workflow_of(self, task_id: str) -> str:
        if task_id in self.stage.started:
            return self.stage.started[task_id]
        progress = cast("dict[str, Any]", self.task(task_id).variables[PROGRESS])
        workflows = self.stage.server.workflows.values()
        return next(item.name for item in workflows if progress["goal"] == f"{item.name}: {item.description}")

    def call_tool(self, name: str, arguments: JsonObject | None = None, task: str | None = None) -> Result:
        """Call a tool; with a task, as its continuation."""
        return Result.of(*self._called(name, arguments, task))

    def start_task(self, name: str, arguments: JsonObject | None = None) -> StartedTask:
        """Call a tool that runs in the background; its task, which is not waited for.

        Raises:
            ValueError: the call was made in its request.
        """
        params = params_of(self, name, arguments, as_task=True)
        result = self.request("tools/call", params)
        begun = started(self, result)
        if begun is None:
            raise ValueError(f"start_task({name!r}): the call was made in its request: {Result.of(result, None)!r}")
        return begun

    def run_worker(self) -> WorkerRun:
        """Have the worker work on the event that is due first; where none is yet, time passes until one is.

        Raises:
            LookupError: no event waits.
        """
        return self.stage.worker.run()

    def _called(self, name: str, arguments: JsonObject | None, task: str | None) -> tuple[JsonObject, Json]:
        """A call's result, and the tool's value."""
        params = params_of(self, name, arguments, as_task=False)
        result, invocation = self.wire.request("tools/call", params, naming(task))
        begun = started(self, result)
        if begun is None:
            return result, invocation.value
        state = begun.wait()
        return state.sent, state.value

    def task(self, task_id: str) -> Task:
        """A task as it stands, whole."""
        told = self.request("tasks/get", {"taskId": task_id}, {"mcp-baton/variables": "all"})
        status, result = str(told["status"]), told.get("result")
        if self.era == "2025" and status == "completed":
            result = self.request("tasks/result", {"taskId": task_id})["result"]
        return Task(
            task_id,
            status,
            variables_in(own_meta(told)),
            result,
            without(told, "result", "_meta"),
        )

    def tasks(self) -> list[Task]:
        """The owner's tasks, newest first, without their variables. Asked in the 2025 era, which alone lists tasks."""
        listed = pages(replace(self, era="2025").request, "tasks/list", "tasks")
        return [Task(item["taskId"], item["status"], {}, None, item) for item in listed]

    def cancel(self, task_id: str) -> Task:
        """Cancel a task; the task as it then is."""
        self.request("tasks/cancel", {"taskId": task_id})
        return self.task(task_id)

    def complete(self, task_id: str, result: JsonObject) -> Task:
        """Complete a task with a result; the task as it then is."""
        self.request("tasks/cancel", {"taskId": task_id, "result": result})
        return self.task(task_id)

    def list_tools(self) -> list[dict[str, Any]]:
        """The tools, as they are listed."""
        return pages(self.request, "tools/list", "tools")

    def read_resource(self, uri: str) -> Contents:
        """A resource's contents."""
        [contents] = cast("list[dict[str, Any]]", self.request("resources/read", {"uri": uri})["contents"])
        return Contents.of(contents)

    def request(self, method: str, params: JsonObject | None = None, meta: JsonObject | None = None) -> JsonObject:
        """The result of any request.

        Args:
            method: E.g. `prompts/list`.
            params: Its params, without `_meta`.
            meta: What `_meta` holds beside what the era wants there.
        """
        return self.wire.request(method, params or {}, meta or {})[0]

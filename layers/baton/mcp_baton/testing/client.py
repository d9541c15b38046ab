"""The client that a test holds."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self, cast

from mcp_baton import Server
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.record import PROGRESS
from mcp_baton.testing.answers import Answers
from mcp_baton.testing.clock import Clock
from mcp_baton.testing.function import Function
from mcp_baton.testing.invocations import Invocations, Kill
from mcp_baton.testing.params import naming, pages, without
from mcp_baton.testing.results import Contents, Result, Run, Task, own_meta
from mcp_baton.testing.script import Script
from mcp_baton.testing.store import Store
from mcp_baton.testing.wire import Era, Wire
from mcp_baton.workflow.names import TASK_ID


@dataclass(frozen=True, slots=True)
class Stage:
    """What the clients of one `connect` share.

    Attributes:
        server: The copy that is served.
        started: The workflow of each task that was begun here.
        deploy: Serves another version of the server over the same tasks.
    """

    server: Server
    function: Function
    invocations: Invocations
    store: Store
    clock: Clock
    script: Script
    answers: Answers
    started: dict[str, str]
    deploy: Callable[[Server], "Stage"]


@dataclass(frozen=True, slots=True)
class Controls:
    """What a test arranges: shared by every client of one `connect`, whoever its owner is."""

    stage: Stage
    owner: str | None
    era: Era
    claims: Mapping[str, Json] = field(default_factory=dict)

    def as_owner(self, name: str | None) -> Self:
        """Another owner's client of the same server; `None` for a caller without an identity. It has no claims."""
        return replace(self, owner=name, claims={})

    def with_claims(self, **claims: Json) -> Self:
        """The same owner's client with these claims, as an authorizer would have found them: `scope="orders:write"`."""
        return replace(self, claims=claims)

    def deployed(self, server: Server) -> Self:
        """A client of another version of the server, over the same tasks: as after a deployment.

        This client goes on with its own version, as a run does that was under way. Each version has `calls` of its own.

        Raises:
            WorkflowError: a workflow cannot work.
        """
        return replace(self, stage=self.stage.deploy(server))

    @property
    def clock(self) -> Clock:
        """The time: `clock.advance(seconds)`."""
        return self.stage.clock

    @property
    def store(self) -> Store:
        """The DynamoDB: `store.fails("UpdateItem")`."""
        return self.stage.store

    def calls(self, tool: str) -> list[dict[str, Json]]:
        """The arguments of each call of a tool so far, in order, as they were sent: by clients and by steps.

        Raises:
            ValueError: there is no such tool.
        """
        return self.stage.script.calls(tool)

    def tool_returns(self, tool: str, value: object, *, times: int | None = None) -> None:
        """Have a tool return this instead of running. Its arguments and its value are checked all the same.

        Args:
            tool: Its name.
            value: What its function would return, or JSON that makes it.
            times: How many calls; `None` for all of them, 0 for none any more.

        Raises:
            ValueError: there is no such tool.
        """
        self.stage.script.returns(tool, value, times)

    def tool_raises(
        self, tool: str, error: BaseException | type[BaseException] | str, *, times: int | None = None
    ) -> None:
        """Have a tool raise this instead of running; a text is a `ToolError`'s. As `tool_returns`."""
        self.stage.script.raises(tool, error, times)

    def during(self, tool: str, happens: Callable[[], object]) -> None:
        """Have something happen the next time that a tool is called, once, before it runs: `cancel` its task, for one.

        Args:
            tool: Its name.
            happens: Called without arguments. What it raises, the tool raises.

        Raises:
            ValueError: there is no such tool.
        """
        self.stage.script.happens_during(tool, happens)

    def answers(self, answers: Mapping[str, Json] | None) -> None:
        """Answer questions of tools, from now on and whenever they are asked, by their key or their text.

        Args:
            answers: The form's fields, or `"decline"` or `"cancel"`, to a form or a page; a text to a question to the
                model; a list of URIs for the roots. `None`: this client cannot be asked.
        """
        self.stage.answers.give(answers)

    def remaining_s(self, seconds: float) -> None:
        """Give every invocation from now on, and the rest of one under way, this much time; 120 s before."""
        self.stage.invocations.remaining_s(seconds)

    def killed_after(self, what: str) -> Kill:
        """Kill the function the next time that it has done this; the request that it works on raises `Killed`.

        What the store holds then stays, and nothing of that run reaches it any more. As a context manager, the block
        is left there, and has to be.

        Args:
            what: A DynamoDB operation that succeeds (`PutItem`, `UpdateItem`, …), or the name of a tool that returns.

        Raises:
            ValueError: there is neither.
        """
        if not self.store.knows(what):
            self.stage.script.check(what)
        return self.stage.invocations.kill_after(what)


@dataclass(frozen=True, slots=True)
class Client(Controls):
    """An MCP client of a server in this process. `connect` makes it.

    Every request raises `JsonRpcError` where the server answers with an error, `Unanswered` where it asks what
    `answers` does not say, and `Killed` after `killed_after`.
    """

    def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None, task: str | None = None) -> Run:
        """Get a prompt: run a workflow, or go on with a task."""
        params: JsonObject = {"name": name, "arguments": dict(arguments or {})}
        return self._begun(name, Run.of(self.request("prompts/get", params, naming(task))))

    def call_workflow(self, name: str, arguments: JsonObject | None = None, task: str | None = None) -> Run:
        """Call a workflow's tool: run it, or go on with a task."""
        given: JsonObject = {**(arguments or {}), **({} if task is None else {TASK_ID: task})}
        return self._begun(name, Run.of_tool(self.request("tools/call", {"name": name, "arguments": given})))

    def _begun(self, workflow: str, run: Run) -> Run:
        if "task_id" in run.meta:
            self.stage.started[run.task_id] = workflow
        return run

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
        params: dict[str, Json] = {"name": name, "arguments": dict(arguments or {})}
        result, invocation = self._wire.request("tools/call", params, naming(task))
        return Result.of(result, invocation.value)

    def task(self, task_id: str) -> Task:
        """A task as it stands, whole."""
        told = self.request("tasks/get", {"taskId": task_id}, {"mcp-baton/variables": "all"})
        status, result = str(told["status"]), told.get("result")
        if self.era == "2025" and status == "completed":
            result = self.request("tasks/result", {"taskId": task_id})["result"]
        return Task(task_id, status, own_meta(told), result, without(told, "result", "_meta"))

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
        return self._wire.request(method, params or {}, meta or {})[0]

    @property
    def _wire(self) -> Wire:
        return Wire(self.stage.function, self.stage.server, self.stage.answers, self.owner, self.era, self.claims)

"""The client that an asynchronous test holds: what sends a request is awaited."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.testing.client import Client, Controls, StartedTask
from mcp_baton.testing.results import Contents, Result, Run, Task, TaskState
from mcp_baton.testing.workers import WorkerRun


def _awaitable(run: Run) -> Run:
    """A run whose `answer` is awaited."""
    continued = run.continued
    if continued is None:
        return run

    async def answer(answers: JsonObject) -> Run:
        return _awaitable(await asyncio.to_thread(continued, answers))

    return replace(run, continued=answer)


@dataclass(frozen=True, slots=True)
class AsyncStartedTask:
    """As `StartedTask`, awaited: `(await task.poll()).status`."""

    task: StartedTask

    @property
    def task_id(self) -> str:
        """Its id."""
        return self.task.task_id

    async def poll(self) -> TaskState:
        """The task as it stands."""
        return await asyncio.to_thread(self.task.poll)

    async def answer(self, answers: Mapping[str, Json]) -> TaskState:
        """Answer questions that are open."""
        return await asyncio.to_thread(self.task.answer, answers)

    async def cancel(self) -> TaskState:
        """Cancel it; the task as it then is."""
        return await asyncio.to_thread(self.task.cancel)

    async def wait(self) -> TaskState:
        """Poll until it is over."""
        return await asyncio.to_thread(self.task.wait)


@dataclass(frozen=True, slots=True)
class AsyncClient(Controls):
    """As `Client`, each request in a thread of its own: several can be under way at once. `aconnect` makes it."""

    async def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None, task: str | None = None) -> Run:
        """Get a prompt: run a workflow, or go on with a task."""
        return _awaitable(await asyncio.to_thread(self._client.get_prompt, name, arguments, task))

    async def call_workflow(self, name: str, arguments: JsonObject | None = None, task: str | None = None) -> Run:
        """Call a workflow's tool: run it, or go on with a task."""
        return _awaitable(await asyncio.to_thread(self._client.call_workflow, name, arguments, task))

    async def resume(self, task_id: str, arguments: Mapping[str, str] | None = None) -> Run:
        """Go on with a task, with these arguments beside those of its first run."""
        return _awaitable(await asyncio.to_thread(self._client.resume, task_id, arguments))

    async def call_tool(self, name: str, arguments: JsonObject | None = None, task: str | None = None) -> Result:
        """Call a tool; with a task, as its continuation."""
        return await asyncio.to_thread(self._client.call_tool, name, arguments, task)

    async def start_task(self, name: str, arguments: JsonObject | None = None) -> AsyncStartedTask:
        """Call a tool that runs in the background; its task, which is not waited for."""
        return AsyncStartedTask(await asyncio.to_thread(self._client.start_task, name, arguments))

    async def run_worker(self) -> WorkerRun:
        """Have the worker work on the event that is due first."""
        return await asyncio.to_thread(self._client.run_worker)

    async def task(self, task_id: str) -> Task:
        """A task as it stands, whole."""
        return await asyncio.to_thread(self._client.task, task_id)

    async def tasks(self) -> list[Task]:
        """The owner's tasks, newest first, without their variables."""
        return await asyncio.to_thread(self._client.tasks)

    async def cancel(self, task_id: str) -> Task:
        """Cancel a task; the task as it then is."""
        return await asyncio.to_thread(self._client.cancel, task_id)

    async def complete(self, task_id: str, result: JsonObject) -> Task:
        """Complete a task with a result; the task as it then is."""
        return await asyncio.to_thread(self._client.complete, task_id, result)

    async def list_tools(self) -> list[dict[str, Any]]:
        """The tools, as they are listed."""
        return await asyncio.to_thread(self._client.list_tools)

    async def read_resource(self, uri: str) -> Contents:
        """A resource's contents."""
        return await asyncio.to_thread(self._client.read_resource, uri)

    async def request(
        self, method: str, params: JsonObject | None = None, meta: JsonObject | None = None
    ) -> JsonObject:
        """The result of any request."""
        return await asyncio.to_thread(self._client.request, method, params, meta)

    @property
    def _client(self) -> Client:
        return Client(self.stage, self.owner, self.era, self.claims)

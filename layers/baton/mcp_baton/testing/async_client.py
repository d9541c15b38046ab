"""The client of asynchronous tests: its requests are awaited."""

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
        """Return the task."""
        return await asyncio.to_thread(self.task.poll)

    async def answer(self, answers: Mapping[str, Json]) -> TaskState:
        """Answer open questions."""
        return await asyncio.to_thread(self.task.answer, answers)

    async def cancel(self) -> TaskState:
        """Cancel the task and return it."""
        return await asyncio.to_thread(self.task.cancel)

    async def wait(self) -> TaskState:
        """Poll until the task ends."""
        return await asyncio.to_thread(self.task.wait)


@dataclass(frozen=True, slots=True)
class AsyncClient(Controls):
    """As `Client`, with each request in its own thread, so that requests can run at once. `aconnect` makes it."""

    async def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None, task: str | None = None) -> Run:
        """Get a prompt: run a workflow, or resume a task."""
        return _awaitable(await asyncio.to_thread(self._client.get_prompt, name, arguments, task))

    async def call_workflow(self, name: str, arguments: JsonObject | None = None, task: str | None = None) -> Run:
        """Call a workflow's tool: run the workflow, or resume a task."""
        return _awaitable(await asyncio.to_thread(self._client.call_workflow, name, arguments, task))

    async def resume(self, task_id: str, arguments: Mapping[str, str] | None = None) -> Run:
        """Resume a task, with arguments in addition to those of its first run."""
        return _awaitable(await asyncio.to_thread(self._client.resume, task_id, arguments))

    async def call_tool(self, name: str, arguments: JsonObject | None = None, task: str | None = None) -> Result:
        """Call a tool. With a task, the call is a continuation of it."""
        return await asyncio.to_thread(self._client.call_tool, name, arguments, task)

    async def start_task(self, name: str, arguments: JsonObject | None = None) -> AsyncStartedTask:
        """Call a tool that runs in the background, and return its task without waiting."""
        return AsyncStartedTask(await asyncio.to_thread(self._client.start_task, name, arguments))

    async def run_worker(self) -> WorkerRun:
        """Let the worker process the event that is due first."""
        return await asyncio.to_thread(self._client.run_worker)

    async def task(self, task_id: str) -> Task:
        """Return a task with all its variables."""
        return await asyncio.to_thread(self._client.task, task_id)

    async def tasks(self) -> list[Task]:
        """Return the owner's tasks, newest first, without variables."""
        return await asyncio.to_thread(self._client.tasks)

    async def cancel(self, task_id: str) -> Task:
        """Cancel a task and return it."""
        return await asyncio.to_thread(self._client.cancel, task_id)

    async def complete(self, task_id: str, result: JsonObject) -> Task:
        """Complete a task with a result and return it."""
        return await asyncio.to_thread(self._client.complete, task_id, result)

    async def list_tools(self) -> list[dict[str, Any]]:
        """Return the listed tools."""
        return await asyncio.to_thread(self._client.list_tools)

    async def read_resource(self, uri: str) -> Contents:
        """Return a resource's contents."""
        return await asyncio.to_thread(self._client.read_resource, uri)

    async def request(
        self, method: str, params: JsonObject | None = None, meta: JsonObject | None = None
    ) -> JsonObject:
        """Send any request and return its result."""
        return await asyncio.to_thread(self._client.request, method, params, meta)

    @property
    def _client(self) -> Client:
        return Client(self.stage, self.owner, self.era, self.claims)

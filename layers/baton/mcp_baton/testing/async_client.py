"""The client of asynchronous tests: its requests are awaited."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from functools import update_wrapper
from typing import Any, Concatenate, cast

from mcp_baton.protocol.json import JsonObject
from mcp_baton.testing.client import Client
from mcp_baton.testing.controls import Controls
from mcp_baton.testing.results import Run
from mcp_baton.testing.started_task import StartedTask


def _in_thread[**Arguments, Target, Returned](
    method: Callable[Concatenate[Target, Arguments], Returned], target_of: Callable[[Any], Target]
) -> Callable[Concatenate[Any, Arguments], Coroutine[Any, Any, Returned]]:
    async def call(self: Any, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Returned:
        returned = await asyncio.to_thread(method, target_of(self), *args, **kwargs)
        return cast("Returned", _awaitable(returned)) if isinstance(returned, Run) else returned

    update_wrapper(call, method)
    return call


def _awaitable(run: Run) -> Run:
    """A run whose `answer` is awaited."""
    continuation = run.continued
    if continuation is None:
        return run

    async def answer(answers: JsonObject) -> Run:
        return _awaitable(await asyncio.to_thread(continuation, answers))

    return replace(run, continued=answer)


def _task(task: "AsyncStartedTask") -> StartedTask:
    return task.task


def _client(client: "AsyncClient") -> Client:
    return Client(client.stage, client.owner, client.era, client.claims)


@dataclass(frozen=True, slots=True)
class AsyncStartedTask:
    """As `StartedTask`, awaited: `(await task.poll()).status`. It has `poll`, `answer`, `cancel` and `wait`."""

    task: StartedTask

    @property
    def task_id(self) -> str:
        """Its id."""
        return self.task.task_id

    poll = _in_thread(StartedTask.poll, _task)
    answer = _in_thread(StartedTask.answer, _task)
    cancel = _in_thread(StartedTask.cancel, _task)
    wait = _in_thread(StartedTask.wait, _task)


@dataclass(frozen=True, slots=True)
class AsyncClient(Controls):
    """As `Client`, with each request in its own thread, so that requests can run at once. `aconnect` makes it.

    It has the methods of `Client`; await each that sends a request.
    """

    get_prompt = _in_thread(Client.get_prompt, _client)
    call_workflow = _in_thread(Client.call_workflow, _client)
    resume = _in_thread(Client.resume, _client)
    call_tool = _in_thread(Client.call_tool, _client)
    run_worker = _in_thread(Client.run_worker, _client)
    task = _in_thread(Client.task, _client)
    tasks = _in_thread(Client.tasks, _client)
    cancel = _in_thread(Client.cancel, _client)
    complete = _in_thread(Client.complete, _client)
    approvals = _in_thread(Client.approvals, _client)
    approve = _in_thread(Client.approve, _client)
    deny = _in_thread(Client.deny, _client)
    send_callback = _in_thread(Client.send_callback, _client)
    list_tools = _in_thread(Client.list_tools, _client)
    read_resource = _in_thread(Client.read_resource, _client)
    request = _in_thread(Client.request, _client)

    async def start_task(self, name: str, arguments: JsonObject | None = None) -> AsyncStartedTask:
        """Call a tool that runs in the background, and return its task without waiting."""
        return AsyncStartedTask(await asyncio.to_thread(_client(self).start_task, name, arguments))

"""The client of asynchronous tests: its requests are awaited."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from functools import update_wrapper
from typing import Any, Concatenate, cast

from mcp_baton.protocol.json import JsonObject
from mcp_baton.testing.client import Client, StartedTask
from mcp_baton.testing.controls import Controls
from mcp_baton.testing.results import Run


def _in_thread[**Arguments, Target, Returned](
    method: Callable[Concatenate[Target, Arguments], Returned],
) -> Callable[Concatenate[Any, Arguments], Coroutine[Any, Any, Returned]]:
    async def call(self: Any, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Returned:
        returned = await asyncio.to_thread(method, self.in_turn, *args, **kwargs)
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


@dataclass(frozen=True, slots=True)
class AsyncStartedTask:
    """As `StartedTask`, awaited: `(await task.poll()).status`. It has `poll`, `answer`, `cancel` and `wait`."""

    in_turn: StartedTask

    @property
    def task_id(self) -> str:
        """Its id."""
        return self.in_turn.task_id

    poll = _in_thread(StartedTask.poll)
    answer = _in_thread(StartedTask.answer)
    cancel = _in_thread(StartedTask.cancel)
    wait = _in_thread(StartedTask.wait)


@dataclass(frozen=True, slots=True)
class AsyncClient(Controls):
    """As `Client`, with each request in its own thread, so that requests can run at once. `aconnect` makes it.

    It has the methods of `Client`; await each that sends a request.
    """

    @property
    def in_turn(self) -> Client:
        """The client that sends one request after the other."""
        return Client(self.stage, self.owner, self.era, self.claims)

    get_prompt = _in_thread(Client.get_prompt)
    call_workflow = _in_thread(Client.call_workflow)
    resume = _in_thread(Client.resume)
    call_tool = _in_thread(Client.call_tool)
    run_worker = _in_thread(Client.run_worker)
    task = _in_thread(Client.task)
    tasks = _in_thread(Client.tasks)
    cancel = _in_thread(Client.cancel)
    complete = _in_thread(Client.complete)
    approvals = _in_thread(Client.approvals)
    approve = _in_thread(Client.approve)
    deny = _in_thread(Client.deny)
    send_callback = _in_thread(Client.send_callback)
    list_tools = _in_thread(Client.list_tools)
    read_resource = _in_thread(Client.read_resource)
    request = _in_thread(Client.request)

    async def start_task(self, name: str, arguments: JsonObject | None = None) -> AsyncStartedTask:
        """Call a tool that runs in the background, and return its task without waiting."""
        return AsyncStartedTask(await asyncio.to_thread(self.in_turn.start_task, name, arguments))

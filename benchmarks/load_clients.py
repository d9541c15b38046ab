"""The clients of `benchmarks/load.py`: each one runs a workflow again and again, and speaks MCP over HTTP.

Baton runs the workflow, and the client makes the calls that Baton hands to it. The peers have no workflows: the client
calls each tool. Clients of Baton send some requests two at a time, so that two processes write the same task.
"""

import asyncio
import itertools
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from benchmarks.functions.load_tools import SHAPES, Shape
from benchmarks.load_servers import OWNER_HEADER, SUPERVISOR, TIMEOUT_S, RunningServer

type Reply = dict[str, Any]
type Run = Callable[["Session"], Awaitable[None]]
"""Runs one workflow to its end."""

POLL_S = 0.1
AT_ONCE = 2
MAX_RESUMES = 10
HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
REVISION, STATELESS_REVISION = "2025-11-25", "2026-07-28"


class WrongReply(Exception):
    """A server did not reply as it should."""


@dataclass(slots=True)
class Tally:
    """The results of the clients.

    Attributes:
        seconds: How long they ran.
        latencies: The time of each request, in seconds.
        workflows: How many workflows reached their end.
        errors: How often a workflow failed, by its error.
    """

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    workflows: int = 0
    errors: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Session:
    """One client.

    Attributes:
        owner: The owner of its tasks.
        url: The server.
        addresses: The folder with the addresses of callbacks.
        http: Its connections.
        tally: Counts its requests.
    """

    owner: str
    url: str
    addresses: Path
    http: httpx.AsyncClient
    tally: Tally
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    async def send(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Reply:
        """Send a request, and return the JSON of the reply."""
        all_headers = {**HEADERS, OWNER_HEADER: self.owner, **(headers or {})}
        content = None if body is None else json.dumps(body)
        start_s = time.perf_counter()
        response = await self.http.request(method, self.url + path, content=content, headers=all_headers)
        self.tally.latencies.append(time.perf_counter() - start_s)
        if response.status_code != 200:
            raise WrongReply(f"{method} {path.partition('?')[0][:12]}: {response.status_code} {response.text[:200]}")
        reply: Reply = response.json()
        return reply

    async def request(self, method: str, params: Reply, headers: Mapping[str, str] | None = None) -> Reply:
        """Send an MCP request, and return its result."""
        message = {"jsonrpc": "2.0", "id": next(self.numbers), "method": method, "params": params}
        reply = await self.send("POST", "/mcp", message, headers or {"MCP-Protocol-Version": REVISION})
        if "result" not in reply or reply["result"].get("isError"):
            raise WrongReply(f"{method}: {json.dumps(reply)[:400]}")
        result: Reply = reply["result"]
        return result

    async def call(self, name: str, arguments: Reply, meta: Reply | None = None) -> Reply:
        """Call a tool."""
        return await self.request("tools/call", {"name": name, "arguments": arguments, "_meta": meta or {}})


async def warm_up(running: RunningServer, run: Run, count: int, seconds: float) -> Tally:
    """Let one client for each process reach the end of the workflow. Then let all clients begin, and stop them."""
    tally = Tally()
    await _run_clients(running, run, len(running.processes), seconds / 2, tally)
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds / 2):
            await _run_clients(running, run, count, seconds / 2, tally)
    return tally


async def measure(running: RunningServer, run: Run, count: int, seconds: float) -> Tally:
    """Let clients run a workflow again and again. Each one completes its last workflow."""
    tally = Tally()
    start_s = time.monotonic()
    await _run_clients(running, run, count, seconds, tally)
    tally.seconds = time.monotonic() - start_s
    return tally


async def _run_clients(running: RunningServer, run: Run, count: int, seconds: float, tally: Tally) -> None:
    end_s = time.monotonic() + seconds

    async def client(number: int) -> None:
        url = running.urls[number % len(running.urls)]
        # A client has its own connections. `verify` only matters for TLS, and would read all certificates.
        async with httpx.AsyncClient(timeout=TIMEOUT_S, verify=False, trust_env=False) as http:  # noqa: S501
            session = Session(f"owner-{number}", url, running.addresses, http, tally)
            while time.monotonic() < end_s:
                try:
                    await run(session)
                    tally.workflows += 1
                except (WrongReply, httpx.HTTPError, KeyError) as error:
                    tally.errors[f"{type(error).__name__}: {error}"] += 1

    await asyncio.gather(*map(client, range(count)))


# Workflows of Baton


def run_shape(name: str) -> Run:
    """Return the client of a workflow of `SHAPES`."""
    shape = SHAPES[name]

    async def run(session: Session) -> None:
        task = _task_id(await session.call(name, {"task_id": "new"}), "working")
        await session.request("tasks/get", {"taskId": task})
        numbers = range(shape.before, shape.before + shape.by_client)
        for batch in itertools.batched(numbers, AT_ONCE):
            await asyncio.gather(*(_continue(session, task, number, shape) for number in batch))
        if shape.after:
            _task_id(await session.call(name, {"task_id": task}), "completed")
            return
        task_view = await session.request("tasks/cancel", {"taskId": task, "result": {"done": True}})
        if task_view.get("status") != "completed":
            raise WrongReply(f"tasks/cancel: {task_view}")

    return run


async def _continue(session: Session, task: str, number: int, shape: Shape) -> None:
    """Call the tool of the next step of the client, with the task."""
    arguments = {"step": number, "kb": shape.kb, "who": "kim"}
    result = await session.call("decide", arguments, {"_task_id": task})
    if result["_meta"].get("recorded") is not True:
        raise WrongReply(f"step {number} was not recorded: {result['_meta']}")


def _task_id(result: Reply, status: str) -> str:
    """The id of the task of a workflow, which has this status."""
    meta = result["_meta"]
    if meta.get("task_status") != status:
        raise WrongReply(f"the task is not {status}: {json.dumps(meta)[:400]}")
    task: str = meta["task_id"]
    return task


async def guarded(session: Session) -> None:
    """Start a refund. A supervisor approves it while the client already lets the server continue."""
    result = await session.call("guarded", {"order": _new_order(session)})
    task = _task_id(result, "working")
    path = f"/approvals/{result['_meta']['pause_reason']['approvalId']}"
    supervisor = {OWNER_HEADER: SUPERVISOR}
    approval = await session.send("GET", path, headers=supervisor)
    decision = {"decision": "approve", "digest": approval["digest"]}
    await asyncio.gather(session.send("POST", path, decision, supervisor), session.call("guarded", {"task_id": task}))
    await _resume(session, "guarded", task)


async def waiting(session: Session) -> None:
    """Start a build. The build server calls back twice at once while the client lets the server continue."""
    order = _new_order(session)
    task = _task_id(await session.call("waiting", {"order": order}), "working")
    file = session.addresses / order
    path = file.read_text().removeprefix(session.url)
    file.unlink()
    callbacks = (session.send("POST", path, {"image": order}) for _ in range(AT_ONCE))
    await asyncio.gather(*callbacks, session.call("waiting", {"task_id": task}))
    await _resume(session, "waiting", task)


async def _resume(session: Session, name: str, task: str) -> None:
    """Let the server continue until the task is completed."""
    for _ in range(MAX_RESUMES):
        result = await session.call(name, {"task_id": task})
        if result["_meta"].get("task_status") == "completed":
            return
        await asyncio.sleep(POLL_S)
    raise WrongReply(f"{name} does not end: {json.dumps(result['_meta'])[:400]}")


_orders = itertools.count()
"""Counts over all sessions: an order of the warm-up may still run, and an equal call would get its task."""


def _new_order(session: Session) -> str:
    return f"{session.owner}-{next(_orders)}"


RUNS: dict[str, Run] = {**{name: run_shape(name) for name in SHAPES}, "guarded": guarded, "waiting": waiting}
"""The client of each workflow of Baton."""


# The same tools of the peers


def tool_by_tool(name: str) -> Run:
    """Return a client that calls the tools of a workflow of `SHAPES` one after the other."""
    return _client_driven(SHAPES[name], lambda session, tool, arguments: session.call(tool, arguments))


def task_by_task(name: str) -> Run:
    """Return a client that calls each tool as a background task, and polls until it has ended."""
    return _client_driven(SHAPES[name], _call_as_task)


def _client_driven(shape: Shape, call: Callable[[Session, str, Reply], Awaitable[Reply]]) -> Run:
    async def run(session: Session) -> None:
        previous_result: Any = None
        for number in range(shape.before + shape.by_client + shape.after):
            arguments: Reply = {"step": number, "kb": shape.kb}
            if shape.before <= number < shape.before + shape.by_client:
                result = await call(session, "decide", {**arguments, "who": "kim"})
            else:
                result = await call(session, "fetch", {**arguments, "after": previous_result})
            previous_result = result["structuredContent"]

    return run


async def _call_as_task(session: Session, name: str, arguments: Reply) -> Reply:
    task = (await _stateless(session, "tools/call", name, {"name": name, "arguments": arguments}))["taskId"]
    while True:
        task_view = await _stateless(session, "tasks/get", task, {"taskId": task})
        if task_view["status"] == "completed":
            result: Reply = task_view["result"]
            return result
        if task_view["status"] != "working":
            raise WrongReply(f"{name}: {json.dumps(task_view)[:400]}")
        await asyncio.sleep(POLL_S)


async def _stateless(session: Session, method: str, name: str, params: Reply) -> Reply:
    """Send a request of the revision that has the extension for tasks."""
    capabilities: Reply = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    meta = {
        "io.modelcontextprotocol/protocolVersion": STATELESS_REVISION,
        "io.modelcontextprotocol/clientInfo": {"name": "load", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    }
    headers = {"MCP-Protocol-Version": STATELESS_REVISION, "Mcp-Method": method, "Mcp-Name": name}
    return await session.request(method, {**params, "_meta": meta}, headers)


async def fixed(session: Session) -> None:
    """Send one request to a floor."""
    await session.request("tools/list", {})

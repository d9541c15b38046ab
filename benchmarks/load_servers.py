"""The servers of `benchmarks/load.py`, each in several processes."""

import multiprocessing
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, override

from botocore.awsrequest import AWSPreparedRequest, AWSResponse

from benchmarks.contenders import COMMON, DEPLOYED
from benchmarks.layers import LAYERS, interpreter
from emulators.runtime_api import RuntimeApi
from mcp_baton.local.dynamodb import create_table, embedded_client
from mcp_baton.local.embedded import EmbeddedEngine
from mcp_baton.local.http_server import LOOPBACK, HttpFunction, LocalServer, dynamodb_app

FUNCTIONS = Path(__file__).parent / "functions"
TABLE = "tasks"
OWNER_HEADER = "X-User"
SUPERVISOR = "supervisor"
TIMEOUT_S = 60.0
READY_WITHIN_S = 60.0
CONNECTIONS = 1_024
"""How many connections may wait until a server accepts them: all clients can connect at once."""
WRITES = frozenset({"PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems"})


class NotAvailable(Exception):
    """A server cannot run here. The message says what is missing."""


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that runs.

    Attributes:
        urls: Its addresses. The clients are spread over them.
        processes: The ids of the processes that handle requests. The front and the database are not among them.
        addresses: The folder to which Baton's tool writes the addresses of callbacks.
        writes: Returns how many writes DynamoDB has refused and received until now.
    """

    urls: Sequence[str]
    processes: Sequence[int]
    addresses: Path = Path()
    writes: Callable[[], tuple[int, int]] = lambda: (0, 0)


# Baton: function environments behind a front


@contextmanager
def baton(count: int) -> Iterator[RunningServer]:
    """Function environments that share one DynamoDB. Each handles one request at a time, as on Lambda."""
    with _child(_serve_dynamodb) as database, _front() as (runtime_api, url), _folder() as addresses:
        variables = {
            "AWS_ENDPOINT_URL_DYNAMODB": database.recv(),
            "BATON_TABLE": TABLE,
            "BATON_APPROVERS": f'{{"supervisors": ["{SUPERVISOR}"]}}',
            "BATON_BASE_URL": url,
            "LOAD_ADDRESSES": str(addresses),
            **DEPLOYED,
        }

        def writes() -> tuple[int, int]:
            database.send(None)
            refused, received = database.recv()
            return refused, received

        with _environments("load_baton.handler", count, runtime_api, variables) as processes:
            yield RunningServer([url], processes, addresses, writes)


@contextmanager
def front_floor(count: int) -> Iterator[RunningServer]:
    """The same function environments with a fixed reply."""
    with _front() as (runtime_api, url), _environments("bare_streamed.handler", count, runtime_api, {}) as processes:
        yield RunningServer([url], processes)


@contextmanager
def _environments(handler: str, count: int, runtime_api: str, variables: dict[str, str]) -> Iterator[list[int]]:
    command = [sys.executable, "-P", "-m", "mcp_baton.transport.runtime"]
    runtime = {"AWS_LAMBDA_RUNTIME_API": runtime_api, "_HANDLER": handler, "PYTHONPATH": str(FUNCTIONS)}
    with ExitStack() as stack:
        yield [stack.enter_context(_process(command, {**COMMON, **runtime, **variables})).pid for _ in range(count)]


@contextmanager
def _front() -> "Iterator[tuple[str, str]]":
    """API Gateway and the Runtime API in a process of their own. Yields the address of each."""
    with _child(_serve_front) as front:
        runtime_api, url = front.recv()
        yield runtime_api, url


def _serve_front(parent: Connection) -> None:
    api = RuntimeApi()

    def invoke(event: dict[str, Any], _context: object) -> dict[str, Any]:
        delivery = api.invoke(event).wait(TIMEOUT_S)
        if delivery.kind != "response" or not delivery.whole:
            raise RuntimeError(f"the function failed: {delivery.body[:600]!r}")
        return {**delivery.prelude, "body": delivery.streamed.decode()}

    server = LocalServer(LOOPBACK, 0, HttpFunction(invoke, TIMEOUT_S, OWNER_HEADER)).start()
    server.socket.listen(CONNECTIONS)
    parent.send((api.address, f"http://{server.address}"))
    with suppress(EOFError):
        parent.recv()


class CountingEngine(EmbeddedEngine):
    """An embedded DynamoDB that counts the writes and those that it refuses because their condition is false."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self.refused = self.received = 0

    @override
    def answer(self, request: AWSPreparedRequest, **kwargs: object) -> AWSResponse:
        response = super().answer(request, **kwargs)
        if str(request.headers["X-Amz-Target"]).rpartition(".")[2] in WRITES:
            with self._lock:
                self.received += 1
                self.refused += response.status_code == 400 and b"ConditionalCheckFailed" in response.content
        return response


def _serve_dynamodb(parent: Connection) -> None:
    engine = CountingEngine()
    create_table(embedded_client(engine), TABLE)
    server = LocalServer(LOOPBACK, 0, dynamodb_app(engine)).start()
    parent.send(f"http://{server.address}")
    with suppress(EOFError):
        while True:
            parent.recv()
            parent.send((engine.refused, engine.received))


@contextmanager
def _child(serve: Callable[[Connection], None]) -> Iterator[Connection]:
    """A process of this module. It ends when the connection is closed."""
    spawning = multiprocessing.get_context("spawn")
    connection, child_connection = spawning.Pipe()
    process = spawning.Process(target=serve, args=(child_connection,), daemon=True)
    process.start()
    child_connection.close()
    try:
        yield connection
    finally:
        connection.close()
        process.terminate()
        process.join()


# The peers: ASGI applications under uvicorn


@contextmanager
def official(count: int) -> Iterator[RunningServer]:
    """The official SDK. It has no tasks."""
    with _asgi("load_official", "official", count) as running:
        yield running


@contextmanager
def fastmcp(count: int) -> Iterator[RunningServer]:
    """FastMCP with its tasks in one Redis. Each process also has a worker of docket, FastMCP's queue."""
    program = shutil.which("redis-server")
    if program is None:
        raise NotAvailable("FastMCP's tasks need the program redis-server (the package of Debian has the same name)")
    port = _free_port()
    with _folder() as folder:
        options = ["--port", str(port), "--bind", LOOPBACK, "--dir", str(folder), "--save", "", "--appendonly", "no"]
        with _process([program, *options], {}):
            _await_port(port)
            with _asgi("load_fastmcp", "fastmcp_tasks", count, LOAD_REDIS=f"redis://{LOOPBACK}:{port}/0") as running:
                yield running


@contextmanager
def asgi_floor(count: int) -> Iterator[RunningServer]:
    """The same HTTP server with a fixed reply."""
    with _asgi("load_fixed", "official", count) as running:
        yield running


@contextmanager
def _asgi(module: str, layer: str, count: int, **variables: str) -> Iterator[RunningServer]:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{FUNCTIONS}:{LAYERS / layer / 'python'}", **variables}
    # A client may wait longer for a processor than uvicorn keeps an idle connection by default.
    options = ["--log-level", "warning", "--no-access-log", "--timeout-keep-alive", str(int(TIMEOUT_S))]
    ports = [_free_port() for _ in range(count)]
    with ExitStack() as stack:
        processes = []
        for port in ports:
            command = [interpreter(), "-P", "-m", "uvicorn", f"{module}:app", "--port", str(port), *options]
            processes.append(stack.enter_context(_process(command, environment)).pid)
        for port in ports:
            _await_port(port)
        yield RunningServer([f"http://{LOOPBACK}:{port}" for port in ports], processes)


# Processes


@contextmanager
def _process(command: Sequence[str], environment: dict[str, str]) -> "Iterator[subprocess.Popen[str]]":
    """A program. If the benchmark fails, its output is in the error."""
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output, text=True)
        try:
            yield process
            if process.poll() is not None:
                raise RuntimeError(f"a process of the server ended with {process.returncode}")
        except Exception as error:
            output.seek(0)
            error.add_note(f"{command} printed:\n{output.read()[-4_000:]}")
            raise
        finally:
            process.kill()
            process.wait()


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def _free_port() -> int:
    with socket.create_server((LOOPBACK, 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _await_port(port: int) -> None:
    end_s = time.monotonic() + READY_WITHIN_S
    while True:
        try:
            socket.create_connection((LOOPBACK, port), timeout=1).close()
        except OSError:
            if time.monotonic() > end_s:
                raise
            time.sleep(0.05)
        else:
            return

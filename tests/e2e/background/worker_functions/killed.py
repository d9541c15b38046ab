"""A worker that is killed: before or after one of its store's calls, or at a random moment of an invocation.

What runs here keeps the modules that workers need, and forks a worker each time that one has died, as Lambda starts a
runtime anew within its container. The worker speaks to the pool itself, and is killed by signal 9.

Time goes faster for the store than for the machine, so that a dead worker's claim is over soon. The environment says
where things are: `DATABASE` (a URL), `JOURNAL` (a file), `PLANS` (a folder), `EPOCH_MS` and `SPEED`.
"""

import importlib
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_baton import Context, Server
from mcp_baton.aws import LambdaContext, dynamodb_store, handler
from mcp_baton.local.dynamodb import http_client
from mcp_baton.local.worker_process import STARTED, Channel
from mcp_baton.protocol.json import JsonObject, dumps
from mcp_baton.settings import Settings
from mcp_baton.tasks.jobs import Dispatcher

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

TABLE = "killed"
RANDOM_MOMENT_S = 0.12
DAY_MS = 86_400_000
server = Server("killed", version="1.0.0")


def note(*said: object) -> None:
    """Write a line into the journal: whole, and before anything else happens."""
    journal = os.open(os.environ["JOURNAL"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(journal, (dumps(list(said)) + "\n").encode())
    os.close(journal)


def work(number: int, context: Context) -> dict[str, int]:
    """Have an effect in the middle."""
    note("begun", number, os.getpid(), context.attempt)
    time.sleep(0.01)
    note("effect", number, os.getpid())
    time.sleep(0.01)
    return {"number": number, "pid": os.getpid(), "attempt": context.attempt}


@server.tool(task="required")
def repeatable(number: int, context: Context) -> dict[str, int]:
    """Have an effect that may happen again."""
    return work(number, context)


@server.tool(task="required", idempotent=False)
def once(number: int, context: Context) -> dict[str, int]:
    """Have an effect that must not happen again."""
    return work(number, context)


def store_ms() -> int:
    """The store's time, epoch milliseconds."""
    epoch_ms = int(os.environ["EPOCH_MS"])
    return epoch_ms + int((time.time() * 1000 - epoch_ms) * float(os.environ["SPEED"]))


def make(dispatcher: Dispatcher, client: "DynamoDBClient") -> Callable[[dict[str, Any], LambdaContext], dict[str, Any]]:
    """The server's handler, over the database."""
    settings = Settings(table=TABLE, allow_anonymous=True, default_ttl_ms=DAY_MS, state_key=b"k" * 32)
    store = dynamodb_store(TABLE, settings, connect=lambda: client, now_ms=store_ms)
    return handler(server, settings=settings, store=store, dispatcher=dispatcher)


class Plan:
    """How this worker's invocation is to end.

    `PLANS/<task>` holds `before 3` or `after 3`, for whichever invocation comes first. The files in `PLANS/random` are
    one kill each, for whichever has none: some time after it has begun, or, twice as often, after its first call.
    """

    def __init__(self, client: "DynamoDBClient") -> None:
        self._folder = Path(os.environ["PLANS"])
        self._lock = threading.Lock()
        self._side, self._at, self._calls = "", 0, 0
        self._ticket: Path | None = None
        client.meta.events.register("before-call.dynamodb", self._before)
        client.meta.events.register("after-call.dynamodb", self._after)

    def begin(self, task_id: str) -> None:
        """Find out how the invocation is to end."""
        self._side, self._at, self._calls, self._ticket = "", 0, 0, None
        taken = self._taken(self._folder / task_id)
        if taken is not None:
            self._side, at = taken.read_text().split()
            self._at = int(at)
            return
        for ticket in (self._folder / "random").iterdir():
            self._ticket = self._taken(ticket)
            if self._ticket is not None:
                self._side, self._at = "timed", random.choice((0, 1, 1))
                self._start_timer()
                return

    def end(self) -> None:
        """The invocation has ended otherwise; what it was to end by is for another one."""
        with self._lock:
            ticket, self._ticket = self._ticket, None
        if ticket is not None:
            ticket.rename(self._folder / "random" / ticket.name.partition("-")[2])

    def _taken(self, path: Path) -> Path | None:
        taken = self._folder / "taken" / f"{os.getpid()}-{path.name}"
        try:
            path.rename(taken)
        except FileNotFoundError:
            return None
        return taken

    def _start_timer(self) -> None:
        """Be killed at a random moment from now on, once it has come to that."""
        if self._ticket is not None and (self._side, self._at) == ("timed", self._calls):
            timer = threading.Timer(random.uniform(0, RANDOM_MOMENT_S), self._fire, [self._ticket])
            timer.daemon = True
            timer.start()

    def _fire(self, ticket: Path) -> None:
        with self._lock:
            if self._ticket is ticket:
                die("at random", 0)

    def _before(self, **_: object) -> None:
        self._calls += 1
        if (self._side, self._at) == ("before", self._calls):
            die("before", self._at)

    def _after(self, **_: object) -> None:
        if (self._side, self._at) == ("after", self._calls):
            die("after", self._at)
        self._start_timer()


def die(when: str, call: int) -> None:
    """End as by the kernel's hand."""
    note("killed", os.getpid(), when, call)
    os.kill(os.getpid(), signal.SIGKILL)


def run(channel: Channel, said: int, client: "DynamoDBClient") -> None:
    """Work for as long as it lasts."""
    channel.listen()
    plan = Plan(client)
    answer = make(channel, client)

    def watched(event: dict[str, Any], context: Any) -> dict[str, Any]:
        os.write(said, f"{context.aws_request_id}\n".encode())
        plan.begin(event["batonTask"]["taskId"])
        return answer(event, context)

    while True:
        channel.invoke(watched)
        plan.end()


class Kept:
    """A dispatcher that keeps events."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def dispatch(self, event: JsonObject) -> None:
        """Keep it."""
        self.events.append(event)


def load_once() -> None:
    """Load what a worker loads, so that no worker has to. A process of its own finds out what that is: what is forked
    must not have run threads."""
    heard, said = os.pipe()
    if os.fork() == 0:
        work_once()
        os.write(said, " ".join(sys.modules).encode())
        os._exit(0)
    os.close(said)
    with os.fdopen(heard) as names:
        for name in names.read().split():
            if name.startswith(("mcp_baton.", "pydantic", "botocore.", "asyncio", "concurrent.")):
                importlib.import_module(name)
    os.wait()


def work_once() -> None:
    """Make a call of a task and work on it, over a DynamoDB in memory."""
    from tests.e2e.support import about_task, proxy_event
    from tests.fakes import FunctionContext
    from tests.memory_dynamodb import MemoryDynamoDB, memory_client

    memory, kept = MemoryDynamoDB(), Kept()
    memory.create(TABLE)
    os.environ["JOURNAL"] = os.devnull
    answer = make(kept, memory_client(memory))
    message, headers = about_task("tools/call", "repeatable", {"name": "repeatable", "arguments": {"number": 0}})
    answer(proxy_event(json.dumps(message), "kim", headers), FunctionContext())
    answer(kept.events[0], FunctionContext())


def supervise() -> None:
    """Fork a worker, wait until it has died, report that to the pool, and again."""
    channel = Channel()
    load_once()
    channel.reply(STARTED, None)
    client = http_client(os.environ["DATABASE"])  # it has no connection yet, so each worker may go on with it
    while True:
        heard, said = os.pipe()
        pid = os.fork()
        if pid == 0:
            run(channel, said, client)
        os.close(said)
        with os.fdopen(heard) as lines:
            *_, last = ["", *lines]
        _, status = os.waitpid(pid, 0)
        channel.reply(last.strip(), f"exit status {status}")


def read_journal() -> list[list[Any]]:
    """What was noted, in order."""
    path = Path(os.environ["JOURNAL"])
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[4]))
    supervise()

"""Measures the most expensive request of up to 2 KB of each kind: its reads and writes, its answer, and its waits.

Run at the root of the repository: `uv run python -m costs.expensive --update`. This puts the table into
costs/expensive.md; a test compares it with the code. The real handler runs in this process over an embedded DynamoDB,
with a clock that advances only when code sleeps. Units are computed from the sizes of items (`costs/metering.py`).
"""

import argparse
import json
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from math import floor, log10
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from costs.client import Client
from costs.metering import EmulatorTime, Meter, Usage
from mcp_baton import ListStep, Server, Settings, ToolError, ToolStep, Workflow, item, step_output
from mcp_baton.aws import compose, dynamodb_store
from mcp_baton.local.dynamodb import create_table, embedded_client
from mcp_baton.local.embedded import EmbeddedEngine
from mcp_baton.present.mcp_task import VARIABLES_KEY
from mcp_baton.protocol.envelope import CAPABILITIES_KEY, TASK_ID_KEY, TASKS_EXTENSION, VERSION_KEY
from mcp_baton.protocol.json import JsonObject
from mcp_baton.tasks.record import RESULT_PREFIX
from mcp_baton.transport.exchange import stream_opener

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

PAGE = Path(__file__).with_suffix(".md")
BEGIN, END = "<!-- python -m costs.expensive --update: begin -->", "<!-- end -->"

MAX_REQUEST_BYTES = 2_048
"""The maximum length of a request's body, bytes."""

VALUE_CHARS = 2_450_000
"""The length of the stored value. It hardly compresses, and is near the limit of 1.9 MB when compressed."""

TASKS = 100
"""The number of the owner's tasks."""

TABLE = "expensive"


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a request.

    Attributes:
        request_bytes: The length of its body.
        answer_bytes: The length of its answer.
        wait_s: How long it waited, seconds.
    """

    request_bytes: int
    usage: Usage
    answer_bytes: int
    wait_s: float


class ByteCounter:
    """The receiver of a streamed answer. It counts the bytes."""

    def __init__(self) -> None:
        self.count = 0

    def open(self, _status: int, _headers: object) -> "ByteCounter":
        """Accept the head of the answer."""
        return self

    def write(self, data: bytes) -> None:
        """Count the bytes of a piece."""
        self.count += len(data)


def server(*, is_open: bool = True) -> Server:
    """Return a server with two workflows that store a large value or list and pause, an echo tool, and a background
    tool.

    Args:
        is_open: Whether the calls for the elements of the list succeed.
    """
    instance = Server("s")
    value = b64encode(Random(0).randbytes(VALUE_CHARS * 3 // 4)).decode()

    @instance.tool
    def large() -> str:
        return value

    @instance.tool
    def decline() -> None:
        raise ToolError("declined")

    @instance.tool
    def echo(text: str) -> str:
        return text

    @instance.tool(task="optional")
    def later() -> str:
        return "done"

    @instance.tool
    def rows() -> list[dict[str, Any]]:
        return [{"number": number, "text": value[number * 2_400 :][:2_400]} for number in range(1_000)]

    @instance.tool
    def use(number: int) -> int:
        if not is_open:
            raise ToolError("closed")
        return number

    each = ListStep("use", tool=use, each=step_output("rows"), arguments={"number": item("number")})
    instance.add_workflow(Workflow(name="list", description="Use a list", steps=[ToolStep("rows", tool=rows), each]))
    steps = [ToolStep("large", tool=large), ToolStep("decline", tool=decline), ToolStep("echo", tool=echo)]
    instance.add_workflow(Workflow(name="flow", description="Keep a value", steps=steps))
    return instance


class VirtualTime:
    """A clock that advances only when code sleeps."""

    def __init__(self) -> None:
        self.s = 1_800_000_000.0

    def now_ms(self) -> int:
        """Return the time, epoch milliseconds."""
        return round(self.s * 1000)

    def monotonic(self) -> float:
        """Return the time, seconds."""
        return self.s

    def sleep(self, seconds: float) -> None:
        """Advance the clock."""
        self.s += seconds


class Queue:
    """A worker's queue. It accepts events but never delivers them."""

    def dispatch(self, event: JsonObject) -> None:
        """Accept an event."""


class Costs:
    """Sends requests, and measures each.

    Args:
        client: The DynamoDB client of the handler.
        meter: Counts its requests.
    """

    def __init__(self, client: "DynamoDBClient", meter: Meter) -> None:
        self._time, self._meter = VirtualTime(), meter
        self._client = client

    def client(self, *, is_open: bool = True) -> Client:
        """Return a client of a new handler. The time limit is that of the template."""
        time, settings = self._time, Settings(table=TABLE)
        store = dynamodb_store(
            TABLE,
            settings,
            connect=lambda: self._client,
            now_ms=time.now_ms,
            monotonic=time.monotonic,
            sleep=time.sleep,
            random=lambda: 0.99,
        )
        handler = compose(
            server(is_open=is_open), settings, store=store, dispatcher=Queue(), clock=time.monotonic, sleep=time.sleep
        )
        start_s = time.s
        return Client(handler, "alice", lambda: 120_000 - round((time.s - start_s) * 1000))

    def measure(self, body: str, headers: dict[str, str]) -> Cost:
        """Measure a request.

        Raises:
            ValueError: the body is too long.
        """
        if len(body) > MAX_REQUEST_BYTES:
            raise ValueError(f"a request of {len(body)} bytes")
        client, counter = self.client(), ByteCounter()
        self._meter.take()
        start_s, token = self._time.s, stream_opener.set(counter.open)
        try:
            response = client.post(body, headers)
        finally:
            stream_opener.reset(token)
        wait_s = self._time.s - start_s
        return Cost(len(body), self._meter.take(), counter.count + len(response.body.encode()), wait_s)


HANDSHAKE = {"MCP-Protocol-Version": "2025-11-25"}
STATELESS = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen"}
STATELESS_META = {VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: {"extensions": {TASKS_EXTENSION: {}}}}


def message(method: str, params: dict[str, Any], number: int = 1) -> dict[str, Any]:
    """Return a request."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def compact_json(messages: object) -> str:
    """Return a body: compact JSON."""
    return json.dumps(messages, separators=(",", ":"))


def single(method: str, params: dict[str, Any]) -> str:
    """Return the body of one request."""
    return compact_json(message(method, params))


@contextmanager
def measuring() -> Iterator[Costs]:
    """Set up the server over a DynamoDB in memory, with a meter."""
    engine = EmbeddedEngine()
    with closing(embedded_client(engine)) as counted, closing(embedded_client(engine)) as uncounted:
        create_table(uncounted, TABLE)
        yield Costs(counted, Meter(counted, EmulatorTime(), reader=uncounted))


def requests(costs: Costs) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yield the name, the body and the headers of each kind of request."""
    client = costs.client()
    background_call = {"name": "later", "arguments": {}, "task": {"ttl": 600_000}}
    open_tasks = [client.request("tools/call", background_call).result["task"]["taskId"] for _ in range(TASKS)]
    task: str = client.request("prompts/get", {"name": "flow"}).meta["task_id"]
    value = {"uri": f"baton://tasks/{task}/{RESULT_PREFIX}large"}
    task_meta = {"_meta": {TASK_ID_KEY: task}}
    all_variables = {"taskId": task, "_meta": {VARIABLES_KEY: "all"}}
    echo_call = {"name": "echo", "arguments": {"text": "<output from large>"}} | task_meta
    yield "`tools/list`", single("tools/list", {}), HANDSHAKE
    yield (
        "`tools/call` with 1.9 KB of text",
        single("tools/call", {"name": "echo", "arguments": {"text": "x" * 1_900}}),
        HANDSHAKE,
    )
    yield "`tasks/list`", single("tasks/list", {}), HANDSHAKE
    yield "`tasks/get` with all variables", single("tasks/get", all_variables), HANDSHAKE
    yield "`resources/read` of a stored value", single("resources/read", value), HANDSHAKE
    yield "`tasks/result` of a task that is not over", single("tasks/result", {"taskId": open_tasks[0]}), HANDSHAKE
    subscription = {"notifications": {"taskIds": open_tasks[:32]}, "_meta": STATELESS_META}
    yield "`subscriptions/listen` to 32 tasks", single("subscriptions/listen", subscription), STATELESS
    yield "`tools/call` with `<output from …>` of a stored value", single("tools/call", echo_call), HANDSHAKE
    yield (
        "`prompts/get` that resumes a task with a stored value",
        single("prompts/get", {"name": "flow"} | task_meta),
        HANDSHAKE,
    )
    yield "`prompts/get` of a workflow that stores 2.5 MB", single("prompts/get", {"name": "flow"}), HANDSHAKE
    rows: str = costs.client(is_open=False).request("prompts/get", {"name": "list"}).meta["task_id"]
    call = {"name": "use", "arguments": {"number": 0}, "_meta": {TASK_ID_KEY: rows}}
    yield "`tools/call` of one element of a stored list of 2.4 MB", single("tools/call", call), HANDSHAKE


def table() -> list[str]:
    """Return the table's lines."""
    lines = ["| request | bytes | read units | write units | answer KB | waits, s |", "|---|---:|---:|---:|---:|---:|"]
    with measuring() as costs:
        for name, body, headers in requests(costs):
            cost = costs.measure(body, headers)
            figures = (cost.usage.reads, cost.usage.writes, cost.answer_bytes / 1_000, cost.wait_s)
            lines.append(f"| {name} | {' | '.join(map(rounded, (cost.request_bytes, *figures)))} |")
    return lines


def rounded(figure: float) -> str:
    """Return a number with two significant digits."""
    if figure == 0:
        return "0"
    digits = 1 - floor(log10(abs(figure)))
    return f"{round(figure, digits):,.{max(digits, 0)}f}".removesuffix(".0")


def main() -> None:
    """Measure the requests, and print the table or write it into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="put the table into costs/expensive.md")
    lines = "\n".join(table())
    if not parser.parse_args().update:
        print(lines)
        return
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{lines}\n\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()

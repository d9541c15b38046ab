"""The handler's CPU time for requests about tasks of many steps or variables, in process.

Run in the root of the repository: `uv run python -m benchmarks.task_cpu`. An embedded DynamoDB answers instead of
botocore's HTTP session. Its time and that of sockets are left out; the time that botocore takes to write requests and
to read responses is included. Figures are milliseconds of CPU per request.

The last line compares a run of four steps with its two DynamoDB requests: the same client sends them again, without
Baton, in turns with the runs. There, a process of its own answers over HTTP, and the time of sockets is included.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from botocore.awsrequest import AWSPreparedRequest, AWSResponse

from emulators.gateway_requests import Event, prompts_get, tools_call
from emulators.small_dynamodb import running_dynamodb
from mcp_baton import Argument, Server, ToolError, ToolStep, Workflow, constant, prompt_arg, step_output
from mcp_baton.aws import handler
from mcp_baton.clients import dynamodb_client
from mcp_baton.local.dynamodb import create_table, embedded_client
from mcp_baton.local.embedded import EmbeddedEngine
from mcp_baton.settings import Settings

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

STEPS = 100
FEW_STEPS = 4
VARIABLES = 5_000
TABLE = "tasks"


class InvocationContext:
    """The part of Lambda's context object that the handler uses."""

    aws_request_id = "8476a536-e9f4-11e8-9739-2dfe598c3fcd"
    function_name = "benchmark"

    def get_remaining_time_in_millis(self) -> int:
        """Return a constant: deadlines do not matter here."""
        return 30_000


class Table(EmbeddedEngine):
    """An embedded DynamoDB, with a client as Baton creates it.

    Attributes:
        spent_ns: The CPU time of the engine.
    """

    def __init__(self) -> None:
        super().__init__()
        self.spent_ns = 0
        self.admin = embedded_client(self)
        create_table(self.admin, TABLE)
        self.client: Any = dynamodb_client()
        # botocore uses the return value of a `before-send` handler as the response; its stubs do not allow one.
        answer: Any = self.answer
        self.client.meta.events.register("before-send.dynamodb", answer)

    def answer(self, request: AWSPreparedRequest, **kwargs: object) -> AWSResponse:
        """Answer a request, and measure the time."""
        start_ns = time.process_time_ns()
        response = super().answer(request, **kwargs)
        self.spent_ns += time.process_time_ns() - start_ns
        return response

    def task_item(self) -> dict[str, Any]:
        """Return the item of the only task."""
        [item] = [item for item in self.admin.scan(TableName=TABLE)["Items"] if item["sk"]["S"].startswith("TASK#")]
        return dict(item)

    def clear(self) -> None:
        """Delete all items."""
        for item in self.admin.scan(TableName=TABLE)["Items"]:
            self.admin.delete_item(TableName=TABLE, Key={"pk": item["pk"], "sk": item["sk"]})


def make_server() -> Server:
    """Return a server with workflows of many and of few steps that complete, and one that stops at its last step."""
    server = Server("benchmark", version="1.0.0")

    @server.tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool
    def fails(a: int) -> int:
        """Fail."""
        raise ToolError(f"no {a}")

    first = ToolStep("step 0", tool="add", arguments={"a": prompt_arg("start"), "b": constant(1)})
    for name, count, is_failing in (("through", STEPS, False), ("stopped", STEPS, True), ("few", FEW_STEPS, False)):
        steps = [first]
        for number in range(1, count):
            is_last = is_failing and number == count - 1
            sources = {"a": step_output(f"step {number - 1}")} | ({} if is_last else {"b": constant(number)})
            steps.append(ToolStep(f"step {number}", tool="fails" if is_last else "add", arguments=sources))
        argument = Argument("start", "Where to begin", required=True, type=int)
        server.add_workflow(Workflow(name=name, description="add", arguments=[argument], steps=steps))
    return server


class MeasuredHandler:
    """The handler, with a table of its own."""

    def __init__(self) -> None:
        self.table = Table()
        self.handler = make_handler(self.table.client)

    def send(self, event: Event) -> tuple[float, str]:
        """Send a request. Return the milliseconds of CPU, and the body of the response."""
        event_copy = json.loads(json.dumps(event))
        engine_ns, start_ns = self.table.spent_ns, time.process_time_ns()
        response = self.handler(event_copy, InvocationContext())
        cpu_ns = time.process_time_ns() - start_ns - (self.table.spent_ns - engine_ns)
        return cpu_ns / 1_000_000, response["body"]


def make_handler(client: Any) -> Callable[..., Any]:
    """Return the handler of the server, with a client of DynamoDB."""
    return handler(make_server(), settings=Settings(table=TABLE, allow_anonymous=True), dynamodb=client)


def check_run(body: str) -> None:
    """Raise `RuntimeError` unless an answer shows a stored run that is complete."""
    meta = json.loads(body)["result"]["_meta"]
    if "persisted" in meta or {step["status"] for step in meta["steps"]} != {"completed"}:
        raise RuntimeError(f"a wrong answer: {body[-600:]}")


def run(count: int, workflow: str = "through") -> list[float]:
    """Measure durable runs of all steps."""
    function, event, times = MeasuredHandler(), prompts_get(workflow, start="1").event, []
    for _ in range(count):
        function.table.clear()
        cpu_ms, body = function.send(event)
        check_run(body)
        times.append(cpu_ms)
    return times


def serve_dynamodb(address: "Connection[str, str]") -> None:
    """Answer requests over HTTP until the other end closes. Sends the address first."""
    with running_dynamodb() as dynamodb, suppress(EOFError):
        address.send(dynamodb.url)
        address.recv()


def run_and_requests(count: int) -> tuple[list[float], list[float]]:
    """Measure durable runs of few steps and, after each, its two requests alone."""
    processes = multiprocessing.get_context("spawn")
    address, other_end = processes.Pipe()
    processes.Process(target=serve_dynamodb, args=(other_end,), daemon=True).start()
    os.environ["AWS_ENDPOINT_URL_DYNAMODB"] = address.recv()
    client: Any = dynamodb_client()
    sent: list[dict[str, Any]] = []
    client.meta.events.register("provide-client-params.dynamodb", lambda params, **_: sent.append(params))
    function, event, runs, requests = make_handler(client), prompts_get("few", start="1").event, [], []
    for _ in range(count):
        sent.clear()
        times = [time.process_time_ns()]
        response = function(event, InvocationContext())
        times.append(time.process_time_ns())
        created, ended = sent
        client.put_item(**created)
        client.update_item(**ended)
        times.append(time.process_time_ns())
        check_run(response["body"])
        runs.append((times[1] - times[0]) / 1_000_000)
        requests.append((times[2] - times[1]) / 1_000_000)
    return runs, requests


def continuation(count: int, variables: int = 0) -> list[float]:
    """Measure continuations of a task whose only open step is its last one."""
    function = MeasuredHandler()
    function.send(prompts_get("stopped", start="1").event)
    item = function.table.task_item()
    for number in range(variables):
        item["variables"]["M"][f"variable {number}"] = {"S": json.dumps({"total": number})}
    event = tools_call().event
    body = json.loads(event["body"])
    body["params"]["_meta"] = {"_task_id": item["sk"]["S"].removeprefix("TASK#")}
    body["params"]["arguments"] = {"a": 2, "b": 1}
    event["body"] = json.dumps(body)
    times = []
    for _ in range(count):
        function.table.admin.put_item(TableName=TABLE, Item=item)
        cpu_ms, text = function.send(event)
        if json.loads(text)["result"]["_meta"].get("recorded") is not True:
            raise RuntimeError(f"a wrong answer: {text[:600]}")
        times.append(cpu_ms)
    return times


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument(
        "--profile", choices=("few", "run", "continuation", "variables"), help="print where the time goes"
    )
    options = parser.parse_args()
    os.environ |= {
        "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_ACCESS_KEY_ID": "made-up",
        "AWS_SECRET_ACCESS_KEY": "made-up",
    }
    measurements: dict[str, Callable[[int], list[float]]] = {
        "few": lambda count: run(count, "few"),
        "run": run,
        "continuation": continuation,
        "variables": lambda count: continuation(count, VARIABLES),
    }
    titles = {
        "few": f"a run of {FEW_STEPS} steps",
        "run": f"a run of {STEPS} steps",
        "continuation": f"a continuation, {STEPS} steps",
        "variables": f"a continuation, {VARIABLES} variables and {STEPS} steps",
    }
    if options.profile:
        import cProfile
        import pstats

        with cProfile.Profile() as profile:
            measurements[options.profile](options.calls)
        pstats.Stats(profile).sort_stats("cumulative").print_stats(90)
        return
    print("| request | median ms of CPU | least | 9 in 10 under |\n|---|---:|---:|---:|")
    for name, measure in measurements.items():
        times = sorted(measure(options.calls + 5)[5:])
        print(
            f"| {titles[name]} | {statistics.median(times):.1f} | {times[0]:.1f} | {times[len(times) * 9 // 10]:.1f} |"
        )
    runs, requests = run_and_requests(options.calls + 5)
    ratio = statistics.median(run / alone for run, alone in zip(runs[5:], requests[5:], strict=True))
    run_ms = statistics.median(runs)
    print(f"\nA run of {FEW_STEPS} steps takes {ratio:.2f} times the CPU of its two requests: {run_ms:.2f} ms")


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        main()

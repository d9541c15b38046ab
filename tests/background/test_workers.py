"""The workers of the local server, and the logs and metrics of a worker's invocation."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from queue import SimpleQueue
from threading import Barrier, Event
from typing import Any

import pytest

from mcp_baton import Server, ToolStep, Workflow, constant
from mcp_baton.aws import dynamodb_store
from mcp_baton.exceptions import NotDispatched
from mcp_baton.local.gateway import InvocationContext
from mcp_baton.local.worker_pool import Pool
from mcp_baton.protocol.http import HttpRequest
from mcp_baton.server.endpoint import Endpoint
from mcp_baton.settings import Settings
from mcp_baton.telemetry import Collector
from tests.fakes import Line, services_of
from tests.support.background import Queue
from tests.support.client import Table, about_task

BOUND_S = 60

type Handler = Callable[[dict[str, Any], InvocationContext], None]
type MakePool = Callable[..., Pool]


@pytest.fixture
def pool() -> Iterator[MakePool]:
    with ExitStack() as stack:

        def make(handler: Handler, retry_after_s: Sequence[float] = (0.01, 0.01)) -> Pool:
            new_pool = Pool(handler, BOUND_S, retry_after_s)
            stack.callback(new_pool.stop, BOUND_S)
            return new_pool

        yield make


def test_each_event_is_an_invocation_with_an_id_and_a_deadline(pool: MakePool) -> None:
    handled = SimpleQueue[tuple[Any, str, int]]()
    workers = pool(
        lambda event, context: handled.put((event, context.aws_request_id, context.get_remaining_time_in_millis()))
    )
    workers.dispatch({"number": 1})
    event, first_id, remaining_ms = handled.get(timeout=BOUND_S)
    workers.dispatch({"number": 2})

    assert (event, handled.get(timeout=BOUND_S)[1] != first_id) == ({"number": 1}, True)
    assert 0 < remaining_ms <= BOUND_S * 1000


def test_a_failed_invocation_is_repeated_and_then_given_up(pool: MakePool, caplog: pytest.LogCaptureFixture) -> None:
    request_ids = SimpleQueue[str]()

    def fail(_event: dict[str, Any], context: InvocationContext) -> None:
        request_ids.put(context.aws_request_id)
        raise RuntimeError("the bank said no")

    workers = pool(fail)
    workers.dispatch({"number": 1})

    assert len({request_ids.get(timeout=BOUND_S) for _ in range(3)}) == 1
    workers.stop(BOUND_S)
    assert request_ids.empty()
    assert "attempt 1 of an event failed (RuntimeError: the bank said no): retry in 0.01 s" in caplog.text
    assert 'discarded after 3 attempts (RuntimeError: the bank said no): {"number":1}' in caplog.text


def test_two_workers_run_at_once_and_the_third_event_waits(pool: MakePool) -> None:
    both, gate, started = Barrier(3), Event(), SimpleQueue[int]()

    def wait(event: dict[str, Any], _context: InvocationContext) -> None:
        started.put(event["number"])
        if event["number"] < 3:
            both.wait(BOUND_S)
            assert gate.wait(BOUND_S)

    workers = pool(wait)
    for number in (1, 2, 3):
        workers.dispatch({"number": number})
    both.wait(BOUND_S)
    assert {started.get(), started.get()} == {1, 2}
    assert started.empty()
    gate.set()
    assert started.get(timeout=BOUND_S) == 3


def test_a_worker_may_dispatch_another_event(pool: MakePool) -> None:
    handled = SimpleQueue[int]()

    def handle(event: dict[str, Any], _context: InvocationContext) -> None:
        handled.put(event["number"])
        if event["number"] == 1:
            workers.dispatch({"number": 2})

    workers = pool(handle)
    workers.dispatch({"number": 1})

    assert [handled.get(timeout=BOUND_S) for _ in range(2)] == [1, 2]


def test_stopping_waits_for_invocations_and_refuses_events(pool: MakePool, caplog: pytest.LogCaptureFixture) -> None:
    started, gate, ended = Event(), Event(), Event()

    def wait(_event: dict[str, Any], _context: InvocationContext) -> None:
        started.set()
        assert gate.wait(BOUND_S)
        ended.set()

    workers = pool(wait)
    workers.dispatch({})
    assert started.wait(BOUND_S)
    workers.stop(0)
    assert "running workers: 1, and for waiting events: 0" in caplog.text
    with pytest.raises(NotDispatched):
        workers.dispatch({})
    gate.set()
    workers.stop(BOUND_S)
    assert ended.is_set()


def test_each_handover_is_counted_and_all_invocations_have_the_id_of_one_request(table: Table) -> None:
    server, remaining_ms = Server("shop", version="1.0.0"), [0]

    @server.tool
    def step(number: int) -> int:
        remaining_ms[0] -= 8_000
        return number

    steps = [ToolStep(f"step_{number}", tool=step, arguments={"number": constant(number)}) for number in range(4)]
    server.add_workflow(Workflow(name="long", description="take four steps", steps=steps, background=True))
    settings = Settings(table=table.name, worker="baton-worker:live")
    telemetry, queue, request_ids = Collector(), Queue(), list[str]()
    telemetry.begin(request_ids.append)
    store = dynamodb_store(table.name, settings, lambda: table.client)
    endpoint = Endpoint(services_of(server, store, settings, telemetry=telemetry, dispatcher=queue))
    message, headers = about_task("tools/call", "long", {"name": "long", "arguments": {}})
    lower_headers = {name.lower(): value for name, value in headers.items()}
    request = HttpRequest(
        "POST", "/mcp", {"content-type": "application/json", **lower_headers}, json.dumps(message).encode(), "kim"
    )
    endpoint(request, Line(request_id="gateway-7", can_stream=False))
    telemetry.take()
    assert request_ids == []

    outcomes = []
    while queue.events:
        remaining_ms[0] = 20_000
        line = Line(request_id="invocation-1", can_stream=False, left_ms=lambda: remaining_ms[0])
        event: Any = queue.events.pop()
        outcomes.append(endpoint.work(event["batonTask"], line)["outcome"])

    handovers = outcomes.count("handed over")
    assert outcomes == ["handed over"] * handovers + ["completed"]
    assert handovers >= 1
    counts = Counter(measurement.metric.name for measurement in telemetry.take().measurements)
    assert (counts["TasksHandedOver"], counts["TasksDispatched"]) == (handovers, handovers)
    assert request_ids == ["gateway-7"] * (handovers + 1)

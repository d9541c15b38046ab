"""The worker processes of the local server, and the logs and metrics of a worker's invocation.

Each invocation of the probe connects to the test, which sends it instructions. The connection ends with the process.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest

from mcp_baton import Server, Step, Workflow, constant
from mcp_baton.aws import dynamodb_store
from mcp_baton.exceptions import NotDispatched
from mcp_baton.local import worker_pool
from mcp_baton.local.worker_pool import Pool
from mcp_baton.local.worker_process import Launch
from mcp_baton.protocol.http import HttpRequest
from mcp_baton.server.endpoint import Endpoint
from mcp_baton.settings import Settings
from mcp_baton.telemetry import Collector
from tests.e2e.background_support import Queue
from tests.e2e.support import Table, about_task
from tests.fakes import Line, services_of

BOUND_S = 60
PROBE = (sys.executable, str(Path(__file__).with_name("worker_functions") / "probe.py"))
UNSTARTABLE = (sys.executable, "-c", "from mcp_baton.local.worker_process import work; work(lambda _: 1 / 0)")
LAUNCH = Launch("probe.py", "t", "http://127.0.0.1:1", Settings())


@dataclass
class Invocation:
    connection: socket.socket
    report: dict[str, Any]

    @classmethod
    def of(cls, connection: socket.socket) -> Self:
        connection.settimeout(BOUND_S)
        invocation = cls(connection, {})
        invocation.report = invocation.read()
        return invocation

    def read(self) -> Any:
        with self.connection.makefile() as lines:
            return json.loads(lines.readline())

    def instruct(self, instruction: str) -> None:
        self.connection.sendall(f"{instruction}\n".encode())

    def has_ended(self) -> bool:
        """Wait until the other end has closed the connection. Return whether it sent nothing before."""
        try:
            return self.connection.recv(1) == b""
        except ConnectionResetError:
            return True


class Probe:
    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(BOUND_S)
        self.event = {"port": self.listener.getsockname()[1]}
        self._connections: list[socket.socket] = []

    def next(self) -> Invocation:
        """Wait for the next invocation and return it."""
        connection, _ = self.listener.accept()
        self._connections.append(connection)
        return Invocation.of(connection)

    def close(self) -> None:
        for connection in (self.listener, *self._connections):
            connection.close()

    def has_next(self) -> bool:
        """Return whether another invocation has connected."""
        self.listener.setblocking(False)
        try:
            self.listener.accept()
        except BlockingIOError:
            return False
        finally:
            self.listener.settimeout(BOUND_S)
        return True


@pytest.fixture
def probe() -> Iterator[Probe]:
    probe = Probe()
    yield probe
    probe.close()


type MakePool = Callable[..., Pool]


@pytest.fixture
def pool() -> Iterator[MakePool]:
    """Creates pools of workers. All their processes end with the test."""
    with ExitStack() as stack:

        def make(*, retry_after_s: Sequence[float] = (0.01, 0.01), timeout_s: float = BOUND_S, **options: Any) -> Pool:
            new_pool = Pool(lambda: LAUNCH, timeout_s, retry_after_s, **{"command": PROBE, **options})
            stack.callback(new_pool.stop, 0)
            return new_pool

        yield make


def test_a_worker_handles_one_event_after_the_other(pool: MakePool, probe: Probe) -> None:
    workers = pool()
    workers.dispatch({**probe.event, "number": 1})
    first = probe.next()
    first.instruct("return")
    assert first.has_ended()
    workers.dispatch({**probe.event, "number": 2})
    second = probe.next()
    assert [first.report["event"]["number"], second.report["event"]["number"]] == [1, 2]
    assert first.report["request_id"] != second.report["request_id"]
    assert 0 < first.report["remaining_ms"] <= BOUND_S * 1000
    second.instruct("return")


def test_a_handler_that_raises_is_invoked_again_with_the_same_id(
    pool: MakePool, probe: Probe, caplog: pytest.LogCaptureFixture
) -> None:
    pool().dispatch(probe.event)
    first = probe.next()
    first.instruct("raise")
    second = probe.next()
    assert second.report["request_id"] == first.report["request_id"]
    second.instruct("return")
    assert "attempt 1 of an event failed (RuntimeError: the bank said no)" in caplog.text


def test_after_a_file_has_changed_the_next_event_goes_to_a_new_process(pool: MakePool, probe: Probe) -> None:
    workers, pids = pool(at_once=1), list[int]()
    for renew_while_at_work in (True, False, None):
        workers.dispatch(probe.event)
        invocation = probe.next()
        pids.append(invocation.report["pid"])
        if renew_while_at_work:
            workers.renew()
        invocation.instruct("return")
        assert invocation.has_ended()
        if renew_while_at_work is False:
            workers.renew()
    assert len(set(pids)) == 3


def test_with_two_workers_the_third_event_waits(pool: MakePool, probe: Probe) -> None:
    workers = pool()
    for _ in range(3):
        workers.dispatch(probe.event)
    first, second = probe.next(), probe.next()
    assert first.report["pid"] != second.report["pid"]
    assert not probe.has_next()
    assert len(workers.processes) == 2
    first.instruct("return")
    third = probe.next()
    assert third.report["pid"] == first.report["pid"]
    second.instruct("return")
    third.instruct("return")


def test_an_event_whose_process_dies_is_retried_and_then_given_up(
    pool: MakePool, probe: Probe, caplog: pytest.LogCaptureFixture
) -> None:
    workers, reports = pool(), list[dict[str, Any]]()
    workers.dispatch(probe.event)
    for code in (7, 8, 9):
        invocation = probe.next()
        reports.append(invocation.report)
        invocation.instruct(f"exit {code}")
    workers.dispatch({**probe.event, "next": True})
    invocation = probe.next()
    assert invocation.report["event"]["next"] is True
    invocation.instruct("return")
    assert len({report["pid"] for report in reports}) == 3
    assert len({report["request_id"] for report in reports}) == 1
    assert f"worker {reports[0]['pid']} ended unexpectedly with exit code 7" in caplog.text
    assert "discarded after 3 attempts (the worker ended with exit code 9)" in caplog.text
    assert json.dumps(probe.event, separators=(",", ":")) in caplog.text


def test_an_event_that_waited_too_long_is_discarded(
    pool: MakePool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(worker_pool, "MAX_AGE_S", -1)
    pool().dispatch({"number": 1})
    wait_for(lambda: 'discarded after 0 attempts (it is older than -1 s): {"number":1}' in caplog.text)


def test_an_invocation_that_times_out_is_killed_with_its_child_processes(
    pool: MakePool, probe: Probe, caplog: pytest.LogCaptureFixture
) -> None:
    workers = pool(timeout_s=5, retry_after_s=())
    workers.dispatch(probe.event)
    invocation = probe.next()
    invocation.instruct("child")
    child = probe.next()
    assert invocation.has_ended()
    assert child.has_ended()
    workers.dispatch(probe.event)
    probe.next().instruct("return")
    assert f"worker {invocation.report['pid']} did not finish within 5 s and is killed" in caplog.text
    assert "discarded after 1 attempts (the worker did not finish within 5 s)" in caplog.text


def test_a_worker_that_cannot_be_started_fails_the_attempt(pool: MakePool, caplog: pytest.LogCaptureFixture) -> None:
    workers = pool(command=UNSTARTABLE, retry_after_s=())
    workers.dispatch({})
    cause = "it could not be started: ZeroDivisionError: division by zero"
    wait_for(lambda: f"discarded after 1 attempts ({cause})" in caplog.text)


def test_a_worker_imports_no_modules_from_the_working_directory(
    pool: MakePool, caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "queue.py").write_text("raise AssertionError")
    monkeypatch.chdir(tmp_path)
    pool(command=worker_pool.COMMAND, retry_after_s=()).dispatch({})
    wait_for(lambda: "(it could not be started: LoadError: no such file: probe.py)" in caplog.text)


def test_a_tool_reads_an_empty_input_and_may_print_and_send_events(pool: MakePool, probe: Probe) -> None:
    pool().dispatch(probe.event)
    invocation = probe.next()
    invocation.instruct("read")
    assert invocation.read() == ""
    invocation.instruct("send")
    second = probe.next()
    assert second.report["event"] == {**probe.event, "sent": True}
    invocation.instruct("return")
    second.instruct("return")


def test_stopping_waits_for_invocations_that_end_within_the_grace_period(pool: MakePool, probe: Probe) -> None:
    workers = pool()
    workers.dispatch(probe.event)
    invocation = probe.next()
    invocation.instruct("return")
    workers.stop(BOUND_S)
    assert invocation.has_ended()
    wait_for(lambda: not workers.processes)
    with pytest.raises(NotDispatched):
        workers.dispatch(probe.event)


def test_stopping_kills_invocations_after_the_grace_period(
    pool: MakePool, probe: Probe, caplog: pytest.LogCaptureFixture
) -> None:
    workers = pool()
    workers.dispatch(probe.event)
    invocation = probe.next()
    workers.stop(0)
    assert invocation.has_ended()
    assert "1 workers were still running" in caplog.text


def test_a_worker_ends_with_its_server_even_if_the_server_is_killed(probe: Probe) -> None:
    script = f"""
import sys
from tests.e2e.background.test_workers import LAUNCH, PROBE
from mcp_baton.local.worker_pool import Pool
pool = Pool(lambda: LAUNCH, command=PROBE)
pool.dispatch({probe.event})
pool.dispatch({probe.event})
sys.stdin.read()
"""
    root = str(Path(__file__).parents[3])
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, cwd=root) as server:
        invocation, idle_invocation = probe.next(), probe.next()
        idle_invocation.instruct("return")
        idle_invocation.connection.close()
        server.send_signal(signal.SIGKILL)
        assert invocation.has_ended()
    for process in (invocation, idle_invocation):
        wait_for(lambda pid=process.report["pid"]: not is_running(pid))  # type: ignore[misc]


def is_running(pid: int) -> bool:
    """Return whether the process exists and is not a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not (stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z")


def wait_for(condition: Callable[[], bool]) -> None:
    from time import monotonic, sleep

    deadline = monotonic() + BOUND_S
    while not condition():
        assert monotonic() < deadline, "it did not happen"
        sleep(0.01)


def test_each_handover_is_counted_and_all_invocations_have_the_id_of_one_request(table: Table) -> None:
    server, remaining_ms = Server("shop", version="1.0.0"), [0]

    @server.tool
    def step(number: int) -> int:
        """Take eight seconds of the function's time."""
        remaining_ms[0] -= 8_000
        return number

    steps = [Step(f"step_{number}", tool=step, arguments={"number": constant(number)}) for number in range(4)]
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

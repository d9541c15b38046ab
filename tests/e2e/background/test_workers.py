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
class Held:
    connection: socket.socket
    reported: dict[str, Any]

    @classmethod
    def of(cls, connection: socket.socket) -> Self:
        connection.settimeout(BOUND_S)
        held = cls(connection, {})
        held.reported = held.read()
        return held

    def read(self) -> Any:
        with self.connection.makefile() as lines:
            return json.loads(lines.readline())

    def tell(self, what: str) -> None:
        self.connection.sendall(f"{what}\n".encode())

    def ended(self) -> bool:
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

    def next(self) -> Held:
        """Wait for the next invocation and return it."""
        connection, _ = self.listener.accept()
        self._connections.append(connection)
        return Held.of(connection)

    def close(self) -> None:
        for connection in (self.listener, *self._connections):
            connection.close()

    def waiting(self) -> bool:
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
            made = Pool(lambda: LAUNCH, timeout_s, retry_after_s, **{"command": PROBE, **options})
            stack.callback(made.stop, 0)
            return made

        yield make


def test_a_worker_handles_one_event_after_the_other(pool: MakePool, probe: Probe) -> None:
    workers = pool()
    workers.dispatch({**probe.event, "number": 1})
    first = probe.next()
    first.tell("return")
    assert first.ended()
    workers.dispatch({**probe.event, "number": 2})
    second = probe.next()
    assert [first.reported["event"]["number"], second.reported["event"]["number"]] == [1, 2]
    assert first.reported["request_id"] != second.reported["request_id"]
    assert 0 < first.reported["remaining_ms"] <= BOUND_S * 1000
    second.tell("return")


def test_a_handler_that_raises_is_invoked_again_with_the_same_id(
    pool: MakePool, probe: Probe, caplog: pytest.LogCaptureFixture
) -> None:
    pool().dispatch(probe.event)
    first = probe.next()
    first.tell("raise")
    again = probe.next()
    assert again.reported["request_id"] == first.reported["request_id"]
    again.tell("return")
    assert "attempt 1 of an event failed (RuntimeError: the bank said no)" in caplog.text


def test_after_a_file_has_changed_the_next_event_goes_to_a_new_process(pool: MakePool, probe: Probe) -> None:
    workers, pids = pool(at_once=1), list[int]()
    for renew_while_at_work in (True, False, None):
        workers.dispatch(probe.event)
        held = probe.next()
        pids.append(held.reported["pid"])
        if renew_while_at_work:
            workers.renew()
        held.tell("return")
        assert held.ended()
        if renew_while_at_work is False:
            workers.renew()
    assert len(set(pids)) == 3


def test_with_two_workers_the_third_event_waits(pool: MakePool, probe: Probe) -> None:
    workers = pool()
    for _ in range(3):
        workers.dispatch(probe.event)
    first, second = probe.next(), probe.next()
    assert first.reported["pid"] != second.reported["pid"]
    assert not probe.waiting()
    assert len(workers.processes) == 2
    first.tell("return")
    third = probe.next()
    assert third.reported["pid"] == first.reported["pid"]
    second.tell("return")
    third.tell("return")


def test_an_event_whose_process_dies_is_retried_and_then_given_up(
    pool: MakePool, probe: Probe, caplog: pytest.LogCaptureFixture
) -> None:
    workers, killed = pool(), list[dict[str, Any]]()
    workers.dispatch(probe.event)
    for code in (7, 8, 9):
        held = probe.next()
        killed.append(held.reported)
        held.tell(f"exit {code}")
    workers.dispatch({**probe.event, "next": True})
    held = probe.next()
    assert held.reported["event"]["next"] is True
    held.tell("return")
    assert len({reported["pid"] for reported in killed}) == 3
    assert len({reported["request_id"] for reported in killed}) == 1
    assert f"worker {killed[0]['pid']} ended unexpectedly with exit code 7" in caplog.text
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
    held = probe.next()
    held.tell("child")
    child = probe.next()
    assert held.ended()
    assert child.ended()
    workers.dispatch(probe.event)
    probe.next().tell("return")
    assert f"worker {held.reported['pid']} did not finish within 5 s and is killed" in caplog.text
    assert "discarded after 1 attempts (the worker did not finish within 5 s)" in caplog.text


def test_a_worker_that_cannot_be_started_fails_the_attempt(pool: MakePool, caplog: pytest.LogCaptureFixture) -> None:
    workers = pool(command=UNSTARTABLE, retry_after_s=())
    workers.dispatch({})
    why = "it could not be started: ZeroDivisionError: division by zero"
    wait_for(lambda: f"discarded after 1 attempts ({why})" in caplog.text)


def test_a_worker_imports_no_modules_from_the_working_directory(
    pool: MakePool, caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "queue.py").write_text("raise AssertionError")
    monkeypatch.chdir(tmp_path)
    pool(command=worker_pool.COMMAND, retry_after_s=()).dispatch({})
    wait_for(lambda: "(it could not be started: LoadError: no such file: probe.py)" in caplog.text)


def test_a_tool_reads_an_empty_input_and_may_print_and_send_events(pool: MakePool, probe: Probe) -> None:
    pool().dispatch(probe.event)
    held = probe.next()
    held.tell("read")
    assert held.read() == ""
    held.tell("send")
    sent = probe.next()
    assert sent.reported["event"] == {**probe.event, "sent": True}
    held.tell("return")
    sent.tell("return")


def test_stopping_waits_for_invocations_that_end_within_the_grace_period(pool: MakePool, probe: Probe) -> None:
    workers = pool()
    workers.dispatch(probe.event)
    held = probe.next()
    held.tell("return")
    workers.stop(BOUND_S)
    assert held.ended()
    wait_for(lambda: not workers.processes)
    with pytest.raises(NotDispatched):
        workers.dispatch(probe.event)


def test_stopping_kills_invocations_after_the_grace_period(
    pool: MakePool, probe: Probe, caplog: pytest.LogCaptureFixture
) -> None:
    workers = pool()
    workers.dispatch(probe.event)
    held = probe.next()
    workers.stop(0)
    assert held.ended()
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
        held, idle = probe.next(), probe.next()
        idle.tell("return")
        idle.connection.close()
        server.send_signal(signal.SIGKILL)
        assert held.ended()
    for process in (held, idle):
        wait_for(lambda pid=process.reported["pid"]: not is_running(pid))  # type: ignore[misc]


def is_running(pid: int) -> bool:
    """Return whether the process exists and is not a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not (stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z")


def wait_for(happened: Callable[[], bool]) -> None:
    from time import monotonic, sleep

    end = monotonic() + BOUND_S
    while not happened():
        assert monotonic() < end, "it did not happen"
        sleep(0.01)


def test_each_handover_is_counted_and_all_invocations_have_the_id_of_one_request(table: Table) -> None:
    server, left_ms = Server("shop", version="1.0.0"), [0]

    @server.tool
    def step(number: int) -> int:
        """Take eight seconds of the function's time."""
        left_ms[0] -= 8_000
        return number

    steps = [Step(f"step_{number}", tool=step, arguments={"number": constant(number)}) for number in range(4)]
    server.add_workflow(Workflow(name="long", description="take four steps", steps=steps, background=True))
    settings = Settings(table=table.name, worker="baton-worker:live")
    telemetry, queue, correlated = Collector(), Queue(), list[str]()
    telemetry.begin(correlated.append)
    store = dynamodb_store(table.name, settings, lambda: table.client)
    endpoint = Endpoint(services_of(server, store, settings, telemetry=telemetry, dispatcher=queue))
    message, headers = about_task("tools/call", "long", {"name": "long", "arguments": {}})
    lower = {name.lower(): value for name, value in headers.items()}
    request = HttpRequest(
        "POST", "/mcp", {"content-type": "application/json", **lower}, json.dumps(message).encode(), "kim"
    )
    endpoint(request, Line(request_id="gateway-7", can_stream=False))
    telemetry.take()
    assert correlated == []

    outcomes = []
    while queue.events:
        left_ms[0] = 20_000
        line = Line(request_id="invocation-1", can_stream=False, left_ms=lambda: left_ms[0])
        event: Any = queue.events.pop()
        outcomes.append(endpoint.work(event["batonTask"], line)["outcome"])

    hops = outcomes.count("handed over")
    assert outcomes == ["handed over"] * hops + ["completed"]
    assert hops >= 1
    counts = Counter(measured.metric.name for measured in telemetry.take().measurements)
    assert (counts["TasksHandedOver"], counts["TasksDispatched"]) == (hops, hops)
    assert correlated == ["gateway-7"] * (hops + 1)

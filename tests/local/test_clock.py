"""The clock of `baton serve` (docs/background.md, On this machine)."""

from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from mcp_baton.local import serve
from mcp_baton.local.gateway import InvocationContext
from mcp_baton.local.http_server import LocalServer
from mcp_baton.local.worker_pool import LocalClock

BOUND_S = 60


def test_the_clock_sweeps_repeatedly_even_if_a_sweep_fails() -> None:
    events, third = list[dict[str, Any]](), Event()

    def handler(event: dict[str, Any], context: InvocationContext) -> dict[str, Any]:
        assert 0 < context.get_remaining_time_in_millis() <= 20_000
        events.append(event)
        if len(events) == 3:
            third.set()
        raise ValueError("raised by the test")

    clock = LocalClock(handler, 20, minute_s=0.001)
    assert third.wait(BOUND_S)
    clock.stop()
    assert events[:3] == [{"batonSweep": {}}] * 3


@pytest.mark.parametrize(("setting", "clocks"), [("", 1), ("on", 1), ("off", 0)])
def test_the_local_server_has_a_clock_unless_sweeps_are_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, clocks: int
) -> None:
    file = tmp_path / f"clocked_{setting}.py"
    file.write_text("from mcp_baton import Server\nserver = Server('s')\n")
    start_timeouts, stop_timeouts = list[float](), list[float]()

    class RecordingClock:
        def __init__(self, _handler: object, timeout_s: float) -> None:
            start_timeouts.append(timeout_s)

        def stop(self) -> None:
            stop_timeouts.extend(start_timeouts)

    def run(server: LocalServer, _ready: object, stop: Callable[[], None]) -> int:
        stop()
        server.server_close()
        return 0

    monkeypatch.setattr(serve, "LocalClock", RecordingClock)
    monkeypatch.setattr(serve, "run", run)
    monkeypatch.setenv("BATON_SWEEP", setting)
    options = serve.ServeOptions(str(file), "127.0.0.1", 0, "embedded", "tasks", None, 77.0)

    assert (serve.serve(options), start_timeouts, stop_timeouts) == (0, [77.0] * clocks, [77.0] * clocks)

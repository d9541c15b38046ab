"""Running a function in another thread than its request."""

import asyncio
import contextvars
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest

from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tools.running import tool_threads as worker_module
from mcp_baton.tools.running.tool_threads import (
    CallerGone,
    Ending,
    Raised,
    Returned,
    TimedOut,
    ToolThread,
    run_and_deliver,
)

PATIENCE_S = 60.0
"""How long a test waits for an event. A passing test never waits that long."""


@dataclass
class RecordingClient:
    """A client that keeps its messages and runs a test's callbacks."""

    notifications: list[tuple[str, dict[str, Json]]] = field(default_factory=list)
    requests: list[tuple[str, str, JsonObject]] = field(default_factory=list)
    quiet: int = 0
    gone: bool = False
    on_notify: Callable[[], None] = lambda: None
    on_quiet: Callable[[], None] = lambda: None

    def notify(self, method: str, params: dict[str, Json]) -> None:
        self.notifications.append((method, params))
        self.on_notify()

    def request(self, identifier: str, method: str, params: JsonObject) -> None:
        self.requests.append((identifier, method, params))

    def keep_alive(self) -> None:
        self.quiet += 1
        self.on_quiet()


def run(
    function: Callable[..., object],
    *,
    thread: ToolThread | None = None,
    client: RecordingClient | None = None,
    is_async: bool = False,
    left_s: Callable[[], float | None] | None = None,
    stay: bool = False,
    pulse: Callable[[], float] = lambda: PATIENCE_S,
    **arguments: Any,
) -> Ending:
    deadline = time.monotonic() + PATIENCE_S
    remaining_s = left_s or (lambda: deadline - time.monotonic())
    thread = thread or ToolThread(function)
    return run_and_deliver(
        thread.unless_given_up(function, is_async=is_async),
        arguments,
        thread,
        client or RecordingClient(),
        is_async=is_async,
        left_s=remaining_s,
        stay=stay,
        pulse=pulse,
    )


def test_a_functions_value_is_returned_for_any_names_of_its_parameters() -> None:
    async def later(a: int) -> int:
        await asyncio.sleep(0)
        return a

    assert run(lambda a: a + 1, a=1) == Returned(2)
    assert run(later, is_async=True, a=1) == Returned(1)
    assert run(lambda **keywords: sorted(keywords), context=1, callable=2) == Returned(["callable", "context"])


@pytest.mark.parametrize("error", [RuntimeError("x"), SystemExit(3), KeyboardInterrupt(), GeneratorExit()], ids=repr)
@pytest.mark.parametrize("is_async", [False, True])
def test_any_exception_is_reported_and_the_next_function_runs(error: BaseException, is_async: bool) -> None:
    def broken() -> None:
        raise error

    async def broken_later() -> None:
        raise error

    async def fine() -> int:
        return 1

    assert run(broken_later if is_async else broken, is_async=is_async) == Raised(error)
    assert run(fine, is_async=True) == Returned(1)
    assert run(lambda: 1) == Returned(1)


def test_a_task_left_behind_by_a_function_cannot_stop_the_loop() -> None:
    tasks: list[asyncio.Task[None]] = []

    async def fatal() -> None:
        raise SystemExit

    async def leave() -> None:
        tasks.append(asyncio.create_task(fatal()))

    async def stop() -> None:
        asyncio.get_running_loop().stop()

    async def fine() -> int:
        await asyncio.sleep(0)
        return 1

    assert run(leave, is_async=True) == Returned(None)
    assert run(fine, is_async=True) == Returned(1)
    assert run(stop, is_async=True) == Returned(None)
    assert run(fine, is_async=True) == Returned(1)
    assert isinstance(tasks[0].exception(), SystemExit)


def test_a_synchronous_function_on_the_loop_is_a_type_error() -> None:
    ending = run(lambda: 1, is_async=True)

    assert isinstance(ending, Raised)
    assert isinstance(ending.error, TypeError)


def test_notifications_are_delivered_on_the_requests_thread() -> None:
    thread = ToolThread(len)
    threads: list[str] = []
    client = RecordingClient(on_notify=lambda: threads.append(threading.current_thread().name))

    run(lambda: thread.notify("m", {}), thread=thread, client=client)

    assert threads == [threading.current_thread().name]


def test_the_stream_of_a_silent_function_is_kept_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "KEEP_ALIVE_S", 0.001)
    enough = threading.Event()
    client = RecordingClient()
    client.on_quiet = lambda: enough.set() if client.quiet == 3 else None

    assert run(lambda: enough.wait(PATIENCE_S), client=client) == Returned(True)
    assert client.quiet >= 3


@pytest.mark.parametrize("is_async", [False, True])
def test_a_generator_without_an_end_is_read_no_further_after_it_was_abandoned(is_async: bool) -> None:
    ended, started = threading.Event(), threading.Event()

    def forever() -> Iterator[int]:
        try:
            while True:
                started.set()
                yield 1
        finally:
            ended.set()

    async def asynchronous() -> Iterator[int]:
        return forever()

    thread = ToolThread(forever)
    function = asynchronous if is_async else forever
    ending = run(function, thread=thread, is_async=is_async, left_s=lambda: 0.0 if started.is_set() else PATIENCE_S)
    thread.abandon()
    assert isinstance(ending, TimedOut)
    assert ended.wait(PATIENCE_S)


def test_an_abandoned_thread_does_not_block_other_functions() -> None:
    release = threading.Event()
    started = threading.Event()

    def wait_for_release() -> None:
        started.set()
        release.wait(PATIENCE_S)

    assert run(wait_for_release, left_s=lambda: 0.0 if started.is_set() else 0.01) == TimedOut(0.01)

    assert run(lambda: 1) == Returned(1)
    release.set()


@pytest.mark.parametrize("stay", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_function_is_abandoned_when_its_client_disconnects_unless_it_may_stay(is_async: bool, stay: bool) -> None:
    thread, release, client = ToolThread(len), threading.Event(), RecordingClient()

    def disconnect() -> None:
        client.gone = True
        if stay:
            release.set()

    def speak() -> str:
        thread.notify("m", {})
        release.wait(PATIENCE_S)
        return "done"

    async def speak_later() -> str:
        return await asyncio.get_running_loop().run_in_executor(None, speak)

    client.on_notify = disconnect
    function = speak_later if is_async else speak
    if stay:
        assert run(function, thread=thread, client=client, is_async=is_async, stay=True) == Returned("done")
    else:
        with pytest.raises(CallerGone):
            run(function, thread=thread, client=client, is_async=is_async)
    release.set()


CURRENT = contextvars.ContextVar("current", default="the default")


@pytest.mark.parametrize("is_async", [False, True])
def test_a_function_sees_context_variables_of_its_request_but_cannot_change_them(is_async: bool) -> None:
    def read() -> str:
        value = CURRENT.get()
        CURRENT.set("the function's")
        return value

    async def read_later() -> str:
        return read()

    token = CURRENT.set("the request's")
    try:
        assert run(read_later if is_async else read, is_async=is_async) == Returned("the request's")
        assert CURRENT.get() == "the request's"
    finally:
        CURRENT.reset(token)
    assert run(read_later if is_async else read, is_async=is_async) == Returned("the default")


def test_asynchronous_functions_share_one_loop() -> None:
    async def loop_id() -> int:
        return id(asyncio.get_running_loop())

    assert len({repr(run(loop_id, is_async=True)) for _ in range(3)}) == 1


def test_functions_of_simultaneous_requests_run_simultaneously() -> None:
    barrier = threading.Barrier(3)

    with ThreadPoolExecutor(3) as requests:
        endings = list(requests.map(lambda _: run(lambda: barrier.wait(PATIENCE_S) >= 0), range(3)))

    assert endings == [Returned(True)] * 3


def test_the_requests_thread_calls_the_pulse_while_a_function_runs() -> None:
    is_done, threads = threading.Event(), list[int]()

    def pulse() -> float:
        threads.append(threading.get_ident())
        if len(threads) == 5:
            is_done.set()
        return 0.001

    assert run(lambda: is_done.wait(PATIENCE_S), pulse=pulse) == Returned(True)
    assert set(threads) == {threading.get_ident()}


def test_a_thread_is_reused_as_soon_as_its_function_has_ended() -> None:
    class SlowThread(ToolThread):
        def returned(self, value: object) -> None:
            super().returned(value)
            time.sleep(0.05)

    assert run(threading.get_ident, thread=SlowThread(len)) == run(threading.get_ident)


def test_the_pulse_is_called_before_a_function_starts() -> None:
    calls: list[str] = []

    def pulse() -> float:
        calls.append("what is due")
        return PATIENCE_S

    run(lambda: calls.append("the function"), pulse=pulse)
    assert calls == ["what is due", "the function"]


def test_the_pulse_is_called_while_a_function_sends_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    client, thread = RecordingClient(), ToolThread(len)
    delivered_at_pulse: list[int] = []

    def talk(_function: Callable[..., object], _arguments: dict[str, Any], thread: ToolThread) -> Callable[[], None]:
        for _ in range(3):
            thread.notify("m", {})
        thread.returned(1)
        return lambda: None

    def pulse() -> float:
        delivered_at_pulse.append(len(client.notifications))
        return PATIENCE_S

    monkeypatch.setattr(worker_module, "_start_thread", talk)
    assert run(lambda: 1, thread=thread, client=client, pulse=pulse) == Returned(1)
    assert delivered_at_pulse == [0, 1, 2, 3]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_process_has_its_own_tool_threads() -> None:
    assert run(lambda: 1) == Returned(1)

    child = os.fork()
    if child == 0:
        os._exit(0 if run(lambda: 2) == Returned(2) else 1)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert run(lambda: 3) == Returned(3)

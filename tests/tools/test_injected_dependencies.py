"""Dependencies of functions, through the real handler (docs/tools.md, Dependencies)."""

import asyncio
import contextlib
import contextvars
import functools
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Annotated, Any

import pytest

from mcp_baton import (
    Argument,
    Context,
    Depends,
    RegistrationError,
    Server,
    ToolError,
    ToolStep,
    Workflow,
    constant,
    prompt_arg,
)
from mcp_baton.settings import Settings
from mcp_baton.testing import Client, connect
from mcp_baton.tools.running import dependencies
from mcp_baton.tools.running.dependencies import FactoryTimeout, WaitMode
from tests.support.client import BOUND_S
from tests.support.handler import MakeClient

RESERVE_MS = Settings().write_reserve_ms


@dataclass
class Log:
    """The events in order, and one factory of each kind that records them."""

    events: list[str] = field(default_factory=list)

    def generator(self) -> Iterator[str]:
        self.events.append("open generator")
        try:
            yield "generator"
        except ToolError as error:
            self.events.append(f"roll back: {error}")
            raise
        finally:
            self.events.append("close generator")

    async def async_generator(self) -> AsyncIterator[str]:
        await asyncio.sleep(0)
        self.events.append("open async generator")
        try:
            yield "async generator"
        finally:
            await asyncio.sleep(0)
            self.events.append("close async generator")

    async def coroutine(self) -> str:
        await asyncio.sleep(0)
        return "coroutine"

    def plain(self) -> str:
        self.events.append("make plain")
        return "plain"

    @contextlib.contextmanager
    def manager(self) -> Iterator[str]:
        self.events.append("open manager")
        yield "manager"
        self.events.append("close manager")


class Database:
    """An asynchronous context manager that must be created in a running event loop."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()

    async def __aenter__(self) -> "Database":
        return self

    async def __aexit__(self, *_: object) -> None:
        assert asyncio.get_running_loop() is self.loop


def server_of(log: Log, *, is_async: bool) -> Server:
    server = Server("shop")

    def refund(
        order_id: str,
        first: Annotated[str, Depends(log.generator)],
        second: Annotated[str, Depends(log.async_generator)],
        third: Annotated[str, Depends(log.coroutine)],
        fourth: Annotated[str, Depends(log.plain)],
        fifth: Annotated[str, Depends(log.manager)],
        sixth: Annotated[Database, Depends(Database)],
    ) -> list[str]:
        log.events.append("run")
        if order_id == "bad":
            raise ToolError("no such order")
        return [first, second, third, fourth, fifth, type(sixth).__name__]

    @functools.wraps(refund)
    async def refund_async(*values: Any, **keywords: Any) -> list[str]:
        await asyncio.sleep(0)
        return refund(*values, **keywords)

    server.add_tool(refund_async if is_async else refund, name="refund")
    return server


def text_after(event: threading.Event, make_client: MakeClient, function: Callable[..., object]) -> str:
    """Call a tool whose request is out of time as soon as the event is set. Return the text of the result."""
    server = Server("shop")
    server.add_tool(function, name="ask")
    client = make_client(server, remaining_ms=lambda: RESERVE_MS if event.is_set() else RESERVE_MS + 10)
    return str(client.call_tool("ask").result["content"][0]["text"])


@contextlib.contextmanager
def asked(function: Callable[..., object]) -> Iterator[Client]:
    """Return a client of a server whose tool `ask` is this function."""
    server = Server("shop")
    server.add_tool(function, name="ask")
    with connect(server, settings=Settings(write_reserve_ms=0)) as client:
        yield client


def server_with(*factories: Callable[..., object], **options: Any) -> Server:
    """Return a server whose tool `ask` depends on these factories and returns the value of the last one."""
    first, last = Depends(factories[0], **options), Depends(factories[-1], **options)

    def ask(other_value: Any = first, value: Any = last) -> Any:
        return value

    server = Server("shop")
    server.add_tool(ask, name="ask")
    return server


OPENED = ["open generator", "open async generator", "make plain", "open manager", "run"]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("order_id", "closed"),
    [
        ("A-17", ["close manager", "close async generator", "close generator"]),
        # The manager has no `finally`, so the code after its `yield` does not run.
        ("bad", ["close async generator", "roll back: no such order", "close generator"]),
    ],
)
def test_dependencies_of_every_kind_are_passed_and_closed_in_reverse_order_before_the_answer(
    is_async: bool, order_id: str, closed: list[str]
) -> None:
    log = Log()
    with connect(server_of(log, is_async=is_async)) as client:
        result = client.call_tool("refund", {"order_id": order_id})

        values = ["generator", "async generator", "coroutine", "plain", "manager", "Database"]
        assert result.text == "no such order" if result.is_error else result.value == values
        assert (result.is_error, log.events) == (order_id == "bad", [*OPENED, *closed])
        [tool] = client.list_tools()
        assert list(tool["inputSchema"]["properties"]) == ["order_id"]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("number", [2, 0])
def test_a_generator_runs_with_its_context_before_its_dependencies_are_closed(is_async: bool, number: int) -> None:
    events: list[object] = []

    def letters() -> Iterator[str]:
        yield "ab"
        events.append("closed")

    def spell(ctx: Context, text: Annotated[str, Depends(letters)], number: int) -> Iterable[str]:
        for index in range(number):
            ctx.report_progress(index, number)
            events.append(index)
            yield text[index]
        if number == 0:
            raise ToolError("nothing to spell")

    async def spell_async(ctx: Context, text: Annotated[str, Depends(letters)], number: int) -> Iterable[str]:
        return spell(ctx, text, number)

    server = Server("shop")
    server.add_tool(spell_async if is_async else spell, name="spell")
    with connect(server) as client:
        result = client.call_tool("spell", {"number": number})
    assert (result.text, result.is_error) == (('["a","b"]', False) if number else ("nothing to spell", True))
    assert events == ([0, 1, "closed"] if number else [])


def test_each_call_makes_one_instance_and_factories_can_use_the_context_and_other_factories() -> None:
    owners: list[object] = []

    def database(ctx: Context) -> object:
        owners.append(ctx.owner)
        return object()

    def orders(db: Annotated[object, Depends(database)]) -> object:
        return db

    server = Server("shop")

    @server.tool
    def same(
        db: Annotated[object, Depends(database)], orders_db: Annotated[object, Depends(orders)], ctx: Context
    ) -> bool:
        return db is orders_db

    with connect(server, owner="kim") as client:
        assert client.call_tool("same").value is True
        assert client.call_tool("same").value is True
    assert owners == ["kim", "kim"]


def test_a_process_makes_one_instance_at_its_first_use_even_if_calls_are_simultaneous() -> None:
    created_from: list[int] = []
    started = threading.Barrier(4, timeout=BOUND_S)

    def inner() -> int:
        return 1

    async def slow(inner: Annotated[int, Depends(inner, scope="process")]) -> object:
        created_from.append(inner)
        await asyncio.sleep(0.05)
        return object()

    server = Server("shop")

    def enter() -> None:
        started.wait()

    @server.tool
    def plain(_gate: Annotated[None, Depends(enter)], value: Annotated[object, Depends(slow, scope="process")]) -> int:
        return id(value)

    @server.tool
    async def asynchronous(value: Annotated[object, Depends(slow, scope="process")]) -> int:
        return id(value)

    with connect(server) as client, ThreadPoolExecutor(8) as pool:
        assert created_from == []
        calls = [pool.submit(client.call_tool, "plain") for _ in range(4)]
        calls += [pool.submit(client.call_tool, "asynchronous") for _ in range(4)]
        values = {call.result(BOUND_S).value for call in calls}
        later_call = client.call_tool("asynchronous")
    assert len(values) == 1
    assert values == {later_call.value}
    assert created_from == [1]


@pytest.mark.parametrize("scope", ["request", "process"])
def test_an_error_of_a_factory_is_masked_and_the_next_call_tries_again(scope: Any) -> None:
    attempts: list[int] = []

    def database() -> str:
        attempts.append(1)
        if len(attempts) == 1:
            raise OSError("postgres://secret")
        if len(attempts) == 2:
            raise ToolError("the database is down")
        return "up"

    with connect(server_with(database, scope=scope)) as client:
        first, second, third = (client.call_tool("ask") for _ in range(3))
    assert "internal error in ask" in first.text
    assert "secret" not in first.text
    assert (second.is_error, second.text) == (True, "the database is down")
    assert third.value == "up"


def test_open_dependencies_are_closed_when_a_later_factory_fails() -> None:
    log = Log()

    def broken() -> str:
        raise ToolError("no")

    with connect(server_with(log.async_generator, broken)) as client:
        assert client.call_tool("ask").text == "no"
    assert log.events == ["open async generator", "close async generator"]


@pytest.mark.parametrize("error", [OSError("disk"), SystemExit(1)])
def test_an_error_while_closing_is_logged_and_does_not_change_the_result(
    caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    log = Log()

    def broken() -> Iterator[str]:
        yield "value"
        raise error

    with connect(server_with(log.generator, broken)) as client, caplog.at_level(logging.ERROR):
        assert client.call_tool("ask").value == "value"
    assert log.events == ["open generator", "close generator"]
    assert [record.message for record in caplog.records if "broken" in record.message]


def test_a_manager_that_swallows_errors_does_not_change_the_result() -> None:
    def swallowing() -> Iterator[str]:
        with contextlib.suppress(ToolError):
            yield "value"

    def ask(value: Annotated[str, Depends(swallowing)]) -> None:
        raise ToolError("declined")

    with asked(ask) as client:
        assert client.call_tool("ask").text == "declined"


@pytest.mark.parametrize("is_async", [False, True])
def test_dependencies_of_an_abandoned_tool_are_closed_when_it_ends(make_client: MakeClient, is_async: bool) -> None:
    closed, started, release = threading.Event(), threading.Event(), threading.Event()

    def database() -> Iterator[str]:
        try:
            yield "db"
        finally:
            closed.set()

    def plain(db: str = Depends(database)) -> None:
        started.set()
        release.wait(BOUND_S)

    async def asynchronous(db: str = Depends(database)) -> None:
        started.set()
        await asyncio.sleep(BOUND_S)

    assert text_after(started, make_client, asynchronous if is_async else plain).startswith("timed out: ")
    release.set()
    assert closed.wait(BOUND_S)


def test_a_tool_does_not_start_if_its_dependencies_used_all_the_time(make_client: MakeClient) -> None:
    closed, started, release, tool_ran = (threading.Event() for _ in range(4))

    def slow() -> Iterator[str]:
        started.set()
        try:
            release.wait(BOUND_S)
            yield "db"
        finally:
            closed.set()

    def ask(db: Annotated[str, Depends(slow)]) -> None:
        tool_ran.set()

    assert text_after(started, make_client, ask) == (
        f"not started: the time for this request was over: its dependency {slow.__qualname__!r} was not ready. "
        "Nothing was run."
    )
    release.set()
    assert closed.wait(BOUND_S)
    assert not tool_ran.is_set()


def test_resources_prompts_completions_and_steps_have_dependencies_too() -> None:
    log = Log()
    server = Server("shop")

    @server.resource("docs://{topic}")
    async def docs(topic: str, text: Annotated[str, Depends(log.generator)]) -> str:
        return f"{topic}: {text}"

    @server.prompt
    def greeting(name: str, text: Annotated[str, Depends(log.async_generator)]) -> str:
        return f"{name}: {text}"

    @server.completion("docs://{topic}", "topic")
    def topics(value: str, ctx: Context, text: Annotated[str, Depends(log.coroutine)]) -> list[str]:
        return [value, text, str(ctx.owner)]

    @server.tool
    def step(order_id: str, text: Annotated[str, Depends(log.plain)]) -> str:
        return f"{order_id}: {text}"

    steps = [ToolStep("step", tool="step", arguments={"order_id": prompt_arg("order_id")})]
    order = Argument("order_id", required=True)
    server.add_workflow(Workflow(name="go", description="go", arguments=[order], steps=steps))
    with connect(server) as client:
        assert client.read_resource("docs://a").text == "a: generator"
        assert client.get_prompt("greeting", {"name": "Kim"}).messages[0].text == "Kim: async generator"
        ref = {"ref": {"type": "ref/resource", "uri": "docs://{topic}"}, "argument": {"name": "topic", "value": "x"}}
        completion: Any = client.request("completion/complete", ref)
        assert completion["completion"]["values"] == ["x", "coroutine", "tester"]
        run = client.get_prompt("go", {"order_id": "A-17"})
        assert run.completed
        assert client.task(run.task_id).variables["_workflow.result.step"] == "A-17: plain"


def test_a_client_cannot_pass_a_dependency_as_an_argument() -> None:
    server = server_of(Log(), is_async=False)
    with connect(server) as client:
        assert "first" in client.call_tool("refund", {"order_id": "A-17", "first": "mine"}).text
    step = ToolStep("refund", tool="refund", arguments={"first": constant("mine")})
    server.add_workflow(Workflow(name="go", description="go", steps=[step]))
    with pytest.raises(RegistrationError, match="no parameter 'first'"):
        server.check()


@pytest.fixture
def override_parts() -> tuple[Server, Callable[[], str], list[str]]:
    events: list[str] = []

    def database() -> str:
        events.append("real")
        return "real"

    def orders(db: Annotated[str, Depends(database, scope="process")]) -> str:
        return f"orders of {db}"

    return server_with(orders, scope="process"), database, events


def test_an_override_replaces_a_factory_everywhere_until_it_ends(
    override_parts: tuple[Server, Callable[[], str], list[str]],
) -> None:
    server, database, events = override_parts

    def fake() -> Iterator[str]:
        yield "fake"
        events.append("fake closed")

    with connect(server) as client:
        assert client.call_tool("ask").value == "orders of real"
        with client.override(database, fake):
            assert client.call_tool("ask").value == "orders of fake"
            assert client.call_tool("ask").value == "orders of fake"
            with client.override(database, lambda: "inner"):
                assert client.call_tool("ask").value == "orders of inner"
            assert events == ["real"]
        assert events == ["real", "fake closed"]
        assert client.call_tool("ask").value == "orders of real"
    assert events == ["real", "fake closed"]


def test_an_invalid_override_is_refused(override_parts: tuple[Server, Callable[[], str], list[str]]) -> None:
    server, database, _ = override_parts

    def wrap(real: Annotated[str, Depends(database)]) -> str:
        return real

    def with_context(ctx: Context) -> str:
        return ""

    wrong_override: Any = "fake"
    cases: list[tuple[Callable[[], str], Any, str]] = [
        (str, lambda: "", "nothing of this server depends on it"),
        (database, wrong_override, "lambda: 'fake'"),
        (database, wrap, "wrap -> .*wrap"),
        (database, with_context, "Context"),
    ]
    with connect(server) as client:
        for factory, override, cause in cases:
            with pytest.raises(RegistrationError, match=cause), client.override(factory, override):
                pytest.fail("it was accepted")


class Hang:
    """One factory of each kind that hangs until the test releases it."""

    def __init__(self) -> None:
        self.hangs, self.release_event = True, threading.Event()
        self.started = threading.Semaphore(0)
        self.closed = threading.Semaphore(0)
        hang = self

        class Manager:
            def __init__(self) -> None:
                hang.started.release()
                if hang.hangs:
                    hang.release_event.wait(BOUND_S)

            def __enter__(self) -> str:
                return "db"

            def __exit__(self, *_: object) -> None:
                hang.closed.release()

        self.manager = Manager

    def plain(self) -> Iterator[str]:
        self.started.release()
        if self.hangs:
            self.release_event.wait(BOUND_S)
        try:
            yield "db"
        finally:
            self.closed.release()

    async def asynchronous(self) -> AsyncIterator[str]:
        self.started.release()
        try:
            if self.hangs:
                await asyncio.sleep(BOUND_S)
            yield "db"
        finally:
            self.closed.release()

    def server(self, factory: Callable[..., object], *, is_async: bool, timeout_s: float = 0.01) -> Server:
        """Return a server whose tools depend on the factory, once for each process: `ask` for a short time, and `wait`
        for a time that no machine exceeds."""
        server = Server("shop")
        for name, limit_s in (("ask", timeout_s), ("wait", BOUND_S)):
            dependency = Depends(factory, scope="process", timeout_s=limit_s)

            def ask(db: str = dependency) -> str:
                return db

            async def ask_async(db: str = dependency) -> str:
                return db

            server.add_tool(ask_async if is_async else ask, name=name)
        return server


@pytest.mark.parametrize(
    ("kind", "is_async"), [("manager", False), ("manager", True), ("asynchronous", False), ("asynchronous", True)]
)
def test_a_factory_that_hangs_fails_its_calls_and_the_next_call_tries_again(
    kind: str, is_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    hang = Hang()
    factory = getattr(hang, kind)
    with connect(hang.server(factory, is_async=is_async)) as client:
        # On a busy machine the time can be over before the factory starts.
        while not hang.started.acquire(blocking=False):
            result = client.call_tool("ask")
            assert result.is_error
            assert result.text == (
                f"the dependency {factory.__qualname__!r} was not ready after 0.01 s. The function was not run."
            )
        assert "longer timeout_s" in caplog.text
        hang.hangs = False
        assert client.call_tool("wait").text == "db"
        # A dependency that is ready too late is closed.
        hang.release_event.set()
        assert hang.closed.acquire(timeout=BOUND_S)


def test_calls_that_wait_for_a_hanging_factory_fail_together(monkeypatch: pytest.MonkeyPatch) -> None:
    hang, waiting = Hang(), threading.Semaphore(0)
    wait = WaitMode.wait

    async def counted_wait(mode: WaitMode, finished: Future[None], limit_s: float) -> bool:
        waiting.release()
        return await wait(mode, finished, limit_s)

    def time_out_when_three_wait(outcome: Future[object], limit_s: float | None) -> object:
        assert all(waiting.acquire(timeout=BOUND_S) for _ in range(3))
        assert outcome.cancel()
        raise FactoryTimeout

    monkeypatch.setattr(WaitMode, "wait", counted_wait)
    monkeypatch.setattr(dependencies, "_result_of", time_out_when_three_wait)
    with connect(hang.server(hang.plain, is_async=False)) as client, ThreadPoolExecutor(4) as pool:
        first = pool.submit(client.call_tool, "wait")
        assert hang.started.acquire(timeout=BOUND_S)
        calls = [first, *(pool.submit(client.call_tool, "wait") for _ in range(3))]
        texts = [call.result(BOUND_S).text for call in calls]
        hang.release_event.set()
    assert [text.startswith("the dependency 'Hang.plain' was not ready") for text in texts] == [True] * 4
    assert not hang.started.acquire(blocking=False)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("for_ever", [False, True])
def test_a_factory_that_hangs_in_ten_calls_is_called_again_after_one_of_them_ends_or_after_a_while(
    is_async: bool, for_ever: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    hang = Hang()
    with connect(hang.server(hang.plain, is_async=is_async, timeout_s=0.001)) as client:
        texts = (client.call_tool("ask").text for _ in range(1_000))
        # An attempt that times out before its thread has started does not count as hanging.
        refusal = next(text for text in texts if "was not ready" not in text)
        assert refusal.startswith("the dependency 'Hang.plain' cannot be made: 10 attempts at it hang.")
        assert "The server tries again 60 s after the last attempt." in refusal
        assert [hang.started.acquire(timeout=BOUND_S) for _ in range(10)] == [True] * 10
        assert not hang.started.acquire(blocking=False)
        hang.hangs = False
        assert next(texts) == refusal
        if for_ever:
            monkeypatch.setattr(dependencies, "HANGING_RETRY_S", 0.0)  # the while is over
            assert client.call_tool("wait").text == "db"
        hang.release_event.set()
        for _ in range(10):
            assert hang.closed.acquire(timeout=BOUND_S)
        assert "db" in (client.call_tool("wait").text for _ in range(1_000))


def test_a_factory_that_cannot_be_stopped_is_called_again_by_the_call_after_the_one_that_waited() -> None:
    first_attempts: SimpleQueue[asyncio.Future[None]] = SimpleQueue()
    values = iter(["late", "db"])

    async def database() -> str:
        value = next(values)
        if value == "late":
            released = asyncio.get_running_loop().create_future()
            first_attempts.put(released)
            while not released.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.shield(released)
        return value

    server = Server("shop")

    @server.tool
    async def ask(db: Annotated[str, Depends(database, scope="process", timeout_s=0.1)]) -> str:
        return db

    @server.tool
    async def wait(db: Annotated[str, Depends(database, scope="process", timeout_s=BOUND_S)]) -> str:
        return db

    with connect(server) as client, ThreadPoolExecutor(1) as pool:
        first = pool.submit(client.call_tool, "ask")
        released = first_attempts.get(timeout=BOUND_S)
        assert "was not ready" in client.call_tool("ask").text
        assert client.call_tool("wait").text == "db"
        released.get_loop().call_soon_threadsafe(released.set_result, None)
        first.result(BOUND_S)
        assert client.call_tool("ask").text == "db"


@pytest.mark.parametrize("is_generator", [False, True])
def test_a_plain_function_sees_the_context_variables_that_its_async_dependency_has_set(is_generator: bool) -> None:
    who = contextvars.ContextVar("who", default="nobody")

    async def caller() -> str:
        who.set("kim")
        return "kim"

    async def caller_until_the_end() -> AsyncIterator[str]:
        yield await caller()

    dependency = Depends(caller_until_the_end if is_generator else caller)

    def read(_: str = dependency) -> str:
        return who.get()

    with asked(read) as client:
        assert client.call_tool("ask").text == "kim"
    assert who.get() == "nobody"


def test_a_plain_factory_that_needs_the_event_loop_is_called_on_it() -> None:
    def loop() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    dependency = Depends(loop, scope="process")

    async def ask(its_loop: Any = dependency) -> bool:
        return its_loop is asyncio.get_running_loop()

    with asked(ask) as client:
        assert client.call_tool("ask").value is True


@pytest.mark.parametrize(
    ("options", "cause"),
    [({"timeout_s": 5}, "timeout_s needs scope='process'"), ({"scope": "process", "timeout_s": 0}, "above 0")],
)
def test_an_invalid_time_limit_is_refused(options: dict[str, Any], cause: str) -> None:
    with pytest.raises(RegistrationError, match=cause):
        Depends(lambda: 1, **options)

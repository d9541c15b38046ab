"""Calls of user code: every failure becomes an outcome, never an exception."""

import asyncio
import threading
from collections.abc import Callable

import pytest
from pydantic import Field

from mcp_baton import (
    Argument,
    Audio,
    Context,
    EmbeddedResource,
    Fetch,
    Image,
    Message,
    Server,
    ToolError,
    ToolStep,
    Workflow,
)
from mcp_baton.exceptions import Abandoned, ProtocolError
from mcp_baton.protocol.envelope import RELATED_TASK_KEY, Envelope, Era
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.protocol.jsonrpc import INVALID_PARAMS
from mcp_baton.server.methods.prompts import get_prompt
from mcp_baton.server.methods.resources import read
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.telemetry import ABANDONED_THREADS, SILENT, Collector, Telemetry
from mcp_baton.tools.calls import ToolCall
from mcp_baton.tools.content import ResourceContent
from mcp_baton.tools.labels import Labels
from mcp_baton.tools.outcomes import Failed, Outcome, Succeeded
from mcp_baton.tools.prompt import Prompt, messages_of
from mcp_baton.tools.resource import Resource
from mcp_baton.tools.running.runner import bound_prompt
from mcp_baton.tools.tool import Tool
from mcp_baton.workflow.direct_calls import call_alone, outcome_alone
from mcp_baton.workflow.engine_host import ServerHost
from mcp_baton.workflow.request import Request
from tests.fakes import Line, request_of
from tests.typed import returning


def call(
    server: Server | None = None,
    line: Line | None = None,
    meta: dict[str, Json] | None = None,
    telemetry: Telemetry = SILENT,
    **params: Json,
) -> Request:
    envelope = Envelope(Era.STATELESS, "2026-07-28", meta or {}, {}, "t", None)
    server = server or Server("shop")
    return request_of("prompts/get", params, line, server=server, envelope=envelope, telemetry=telemetry)


def outcome_in(request: Request, function: Callable[..., object], **arguments: Json) -> Outcome:
    return outcome_alone(request, Tool(function, "do", Labels()), arguments)


def outcome_of(function: Callable[..., object], **arguments: Json) -> Outcome:
    return outcome_in(call(), function, **arguments)


def function_raising(error: BaseException) -> Callable[[], None]:
    def do() -> None:
        raise error

    return do


class Wordless(ToolError):
    def __str__(self) -> str:
        raise RuntimeError


class Quiet(Exception): ...


@pytest.mark.parametrize(
    ("error", "reported"),
    [
        (ToolError("no such order"), None),
        (ToolError(), "ToolError"),
        (ValueError("bad"), None),
        (Quiet(), "Quiet"),
        (Wordless(), "Wordless"),
        (KeyError("x"), "'x'"),
        (SystemExit("over"), None),
        (Abandoned(), "Abandoned"),
    ],
    ids=repr,
)
def test_an_exception_of_a_tool_is_a_failure_with_a_text(error: BaseException, reported: str | None) -> None:
    async def later() -> None:
        raise error

    words = reported or str(error)
    masked = words if isinstance(error, ToolError) else "internal error in do (id r-1)"
    for function in (function_raising(error), later):
        assert outcome_of(function) == Failed(masked)
        assert outcome_in(call(Server("shop", mask_errors=False)), function) == Failed(words)


MEANT, NOT_MEANT, INNER = ToolError("meant"), OSError("not meant"), ExceptionGroup("inner", [ToolError("inner")])


@pytest.mark.parametrize(
    ("errors", "cause"),
    [
        ([MEANT], MEANT),
        ([NOT_MEANT], NOT_MEANT),
        ([INNER], INNER.exceptions[0]),
        ([MEANT, INNER], MEANT),
        ([MEANT, NOT_MEANT], None),
        ([NOT_MEANT, INNER], None),
    ],
    ids=str,
)
def test_the_only_exception_or_the_first_tool_error_of_a_group_is_the_failure(
    errors: list[Exception], cause: Exception | None
) -> None:
    group = ExceptionGroup("unhandled errors in a TaskGroup", errors)
    outcome = outcome_of(function_raising(group))
    assert isinstance(outcome, Failed)
    assert outcome.cause is (cause or group)


def test_only_exceptions_other_than_tool_errors_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    outcome_of(function_raising(ToolError("meant")))
    assert caplog.records == []

    outcome_of(function_raising(RuntimeError("not meant")))
    assert [record.exc_info is not None for record in caplog.records] == [True]


def test_invalid_arguments_are_a_failure_that_names_them() -> None:
    def do(amount: float) -> None: ...

    for arguments in ({}, {"amount": "x"}, {"amount": 1.0, "typo": 1}):
        outcome = outcome_of(do, **arguments)
        assert isinstance(outcome, Failed)
        assert outcome.error.startswith("Invalid arguments for tool do: ")


def test_a_tool_gets_its_context_and_its_tasks_variables() -> None:
    def do(name: str, ctx: Context | None = None) -> list[Json]:
        assert ctx is not None
        assert ctx.task is not None
        ctx.task["seen"] = name
        return [ctx.owner, ctx.request_id]

    variables = TaskVariables({})
    outcome = outcome_alone(call(), Tool(do, "do", Labels()), {"name": "x"}, ToolCall(variables=variables))

    assert outcome == Succeeded(["kim", "r-1"])
    assert variables.changed == {"seen": "x"}


def test_the_write_reserve_is_subtracted_from_the_time_left() -> None:
    assert call(line=Line(left_ms=lambda: 7_000)).left_ms() == 2_000
    assert call().left_ms() is None


def resource(function: Callable[..., object], uri: str = "docs://x", mime_type: str | None = None) -> Resource:
    return Resource(uri, function, "docs", Labels(), mime_type)


@pytest.mark.parametrize(
    ("value", "mime_type", "content", "member"),
    [
        ("text", "text/plain", "text", {"text": "text"}),
        (b"\x00\xff", "application/octet-stream", b"\x00\xff", {"blob": "AP8="}),
        (bytearray(b""), "application/octet-stream", b"", {"blob": ""}),
        ({"a": [1.0]}, "application/json", '{"a":[1.0]}', {"text": '{"a":[1.0]}'}),
        (None, "application/json", "null", {"text": "null"}),
    ],
)
def test_a_resource_is_text_bytes_or_json(
    value: object, mime_type: str, content: str | bytes, member: dict[str, str]
) -> None:
    untyped = resource(returning(value))
    typed = resource(returning(value), mime_type="x/y")

    contents = read(call(), untyped, "docs://x", {})
    assert contents == ResourceContent("docs://x", content, mime_type)
    assert contents.to_json() == {"uri": "docs://x", "mimeType": mime_type, **member}
    assert read(call(), typed, "docs://x", {}).mime_type == "x/y"


def test_a_resources_arguments_are_converted() -> None:
    def page(number: int) -> str:
        return repr(number)

    pages = resource(page, "docs://{number}")

    assert read(call(), pages, "docs://7", {"number": "7"}).content == "7"
    with pytest.raises(ProtocolError, match="docs://x: number: ") as raised:
        read(call(), pages, "docs://x", {"number": "x"})
    assert raised.value.code == INVALID_PARAMS


def text(words: str, role: str = "user") -> JsonObject:
    return {"role": role, "content": {"type": "text", "text": words}}


@pytest.mark.parametrize(
    ("value", "messages"),
    [
        ("hello", [text("hello")]),
        (["hello", {"role": "assistant", "content": "hi"}], [text("hello"), text("hi", "assistant")]),
        (text("hello"), [text("hello")]),
        ((text("hello"),), [text("hello")]),
        ([], []),
        (Image(b""), [{"role": "user", "content": Image(b"").to_json()}]),
        (Message("assistant", "hi"), [text("hi", "assistant")]),
        (
            ["hi", Audio(b""), Message("assistant", EmbeddedResource("a://b", "c"))],
            [
                text("hi"),
                {"role": "user", "content": Audio(b"").to_json()},
                {"role": "assistant", "content": EmbeddedResource("a://b", "c").to_json()},
            ],
        ),
    ],
)
def test_a_prompt_returns_texts_content_and_messages(value: object, messages: list[Json]) -> None:
    assert messages_of(value) == messages
    assert call_alone(call(), bound_prompt(Prompt(returning(value), "p", Labels())), {}) == messages


@pytest.mark.parametrize(
    "value", [None, 7, {"content": "no role"}, {"role": "user"}, [{"role": "user", "content": 5}], b"x"]
)
def test_a_prompt_that_returns_something_else_is_a_protocol_error(value: object) -> None:
    with pytest.raises(ProtocolError):
        messages_of(value)


@pytest.fixture
def server() -> Server:
    shop = Server("shop")

    @shop.prompt
    def ask(times: int = Field(ge=1), name: str = "you") -> str:
        return f"{name} {times}"

    @shop.resource("docs://{topic}")
    def docs(topic: str, ctx: Context) -> str:
        for step in (1, 2):
            ctx.report_progress(step)
        return topic

    @shop.resource("docs://faq")
    def faq() -> str:
        return "asked"

    @shop.tool
    def pack(ctx: Context) -> str:
        for progress, total in ((0, 10), (5, 10), (6, 100), (9, 10), (10, 10), (-1, 10)):
            ctx.report_progress(progress, total)
        return "packed"

    return shop


@pytest.mark.parametrize("arguments", [{}, {"times": "0"}, {"times": "x"}, {"times": "1", "typo": "x"}])
def test_invalid_arguments_of_a_prompt_are_refused(server: Server, arguments: dict[str, Json]) -> None:
    with pytest.raises(ProtocolError) as error_info:
        get_prompt(call(server, name="ask", arguments=arguments))

    assert error_info.value.code == INVALID_PARAMS
    assert ("typo" if "typo" in arguments else "times") in error_info.value.message


def test_the_progress_of_a_run_only_increases(server: Server) -> None:
    steps = [
        Fetch("read", resources=["docs://a", "docs://b"]),
        ToolStep("pack", tool="pack", resources=["docs://{topic}"]),
        ToolStep("again", tool="pack"),
    ]
    server.add_workflow(Workflow(name="w", description="d", arguments=[Argument("topic")], steps=steps))
    line = Line()

    get_prompt(call(server, line=line, name="w", arguments={"topic": "x"}))

    assert line.progress == sorted(set(line.progress))
    assert {1, 2, 3} <= set(line.progress)
    assert len(line.progress) > 6
    assert max(line.progress) < 4


def test_no_step_starts_near_the_end_of_the_functions_time(server: Server) -> None:
    remaining_ms = 0
    host = ServerHost(call(server, line=Line(left_ms=lambda: remaining_ms)))

    verdicts = {}
    for remaining_ms in (0, 5_000, 6_000, 6_001, 60_000):
        verdicts[remaining_ms] = host.may_start()

    assert verdicts == {0: False, 5_000: False, 6_000: False, 6_001: True, 60_000: True}
    assert ServerHost(call(server)).may_start()


@pytest.mark.parametrize(
    ("meta", "task"),
    [
        ({}, None),
        ({"_task_id": "a"}, "a"),
        ({"_task_id": None}, None),
        ({RELATED_TASK_KEY: {"taskId": "a"}}, "a"),
        ({"mcp-baton/task_id": "a"}, "a"),
        ({"_task_id": "a", "mcp-baton/task_id": "a", RELATED_TASK_KEY: {"taskId": "a"}}, "a"),
        ({RELATED_TASK_KEY: None}, None),
        ({"_task_id": "a/refund"}, "a/refund"),
        ({"_task_id": "a/notify/3", "mcp-baton/task_id": "a", RELATED_TASK_KEY: {"taskId": "a"}}, "a/notify/3"),
        ({RELATED_TASK_KEY: {"taskId": "a/refund"}}, "a"),
    ],
)
def test_a_request_names_its_task_with_any_of_the_keys(server: Server, meta: dict[str, Json], task: str | None) -> None:
    named = call(server, meta=meta).bound_step()
    assert (named and named.text) == task


@pytest.mark.parametrize("others", ["b", "b/refund", "a/mail", "a/refund/0"])
def test_a_request_names_one_task_and_one_step(server: Server, others: str) -> None:
    with pytest.raises(ProtocolError, match="names two tasks"):
        call(server, meta={"_task_id": "a/refund", "mcp-baton/task_id": others}).bound_step()


def test_asynchronous_tools_report_progress_while_they_run() -> None:
    line = Line()

    async def do(ctx: Context) -> int:
        ctx.report_progress(1)
        await asyncio.sleep(0)
        ctx.report_progress(2)
        return 3

    assert outcome_in(call(line=line), do) == Succeeded(3)
    assert line.progress == [1, 2]


def test_an_abandoned_thread_is_counted_once() -> None:
    collector, line, may_end = Collector(), Line(), threading.Event()
    times_out = True
    line.remaining_ms = lambda: 0 if started.is_set() and times_out else 1_000_000
    started = threading.Event()

    def do(ctx: Context) -> None:
        started.set()
        ctx.report_progress(1)
        may_end.wait(60)

    def abandoned_threads() -> list[float]:
        outcome_alone(call(line=line, telemetry=collector), Tool(do, "do", Labels()), {})
        return [item.value for item in collector.take().measurements if item.metric is ABANDONED_THREADS]

    assert abandoned_threads() == [1]
    may_end.set()
    times_out = False
    assert abandoned_threads() == []

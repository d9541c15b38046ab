"""Callbacks: another system sends the result of a waiting step (docs/waiting.md), through the real handler."""

import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

import pytest

from mcp_baton import (
    Approval,
    BatonError,
    Callback,
    Context,
    ProtocolError,
    Server,
    Settings,
    ToolError,
    ToolStep,
    Wait,
    Workflow,
    constant,
    or_default,
    step,
)
from mcp_baton import wait_for_callback as wait
from mcp_baton.callbacks.endpoint import MAX_CALLBACK_BYTES
from mcp_baton.exceptions import EventError
from mcp_baton.local.gateway import proxy_event
from mcp_baton.protocol.json import Json
from mcp_baton.testing import Client, connect
from mcp_baton.testing.store import TABLE

HOURS = timedelta(hours=1)


@dataclass
class Build:
    """The body that a build server sends."""

    passed: bool
    url: str


GREEN: dict[str, Json] = {"passed": True, "url": "https://builds.example.com/7"}
RED: dict[str, Json] = {"passed": False, "url": "https://builds.example.com/8"}


class Shop:
    """A server that starts builds."""

    def __init__(self, on_timeout: Literal["fail", "skip"] = "fail", *, background: bool = False) -> None:
        self.urls: list[str] = []
        self.deployed: list[str] = []
        self.server = Server("ci")
        self.server.add_tool(self.start_build)
        self.server.add_tool(self.deploy)

        @self.server.workflow(background=background)
        def release(branch: str) -> None:
            step(self.start_build)(branch=branch)
            build = wait("build", Build, within=2 * HOURS, on_timeout=on_timeout)
            url = or_default(build.url, "none") if on_timeout == "skip" else build.url
            step(self.deploy)(url=url)

    def start_build(self, ctx: Context, branch: str) -> str:
        self.urls.append(ctx.callback_url("build"))
        return f"{branch}: the server calls {self.urls[-1]}"

    def deploy(self, url: str) -> str:
        self.deployed.append(url)
        return url


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def client(shop: Shop) -> Iterator[Client]:
    with connect(shop.server) as client:
        yield client


def waiting_task(client: Client) -> str:
    run = client.call_workflow("release", {"branch": "main"})
    assert run.pause.type == "waiting"
    return str(run.task_id)


def post(client: Client, target: str, body: bytes, *, method: str = "POST", **headers: str) -> tuple[int, Any]:
    """Send a request without credentials. Return the status and the JSON of the reply."""
    event = proxy_event(method, target, [*headers.items()], body, request_id="test", owner_header="X-Owner")
    response, _ = client.stage.function.invoke(event, None)
    client.stage.worker.process_due()
    return response["statusCode"], json.loads(response["body"])


def path(url: str) -> str:
    return url.removeprefix("https://server.test")


def items(client: Client) -> str:
    scan = client.store.client.get_paginator("scan").paginate(TableName=TABLE)
    return str([item for page in scan for item in page["Items"]])


def test_a_run_waits_and_continues_with_the_body_of_the_callback(shop: Shop, client: Client) -> None:
    run = client.call_workflow("release", {"branch": "main"})
    deadline = run.pause.until
    assert run.pause.fields == {"blockedStep": "build", "for": "callback", "until": deadline, "suggestedTool": ""}
    assert shop.deployed == []

    client.send_callback(str(run.task_id), "build", GREEN)
    assert client.task(str(run.task_id)).shown["statusMessage"] == "paused: its wait is over; continue it"
    assert client.resume(str(run.task_id)).completed
    assert shop.deployed == [GREEN["url"]]


def test_a_waiting_task_shows_what_it_waits_for_and_when_to_poll(client: Client) -> None:
    task = client.task(waiting_task(client))

    def interval_ms() -> Any:
        return client.task(task.task_id).shown["pollIntervalMs"]

    assert task.shown["statusMessage"] == f"paused: waits for a callback until {task.pause.until}"
    assert interval_ms() == 900_000
    client.clock.advance(2 * HOURS - timedelta(minutes=20))
    assert 590_000 < interval_ms() <= 600_000
    client.clock.advance(timedelta(minutes=20) - timedelta(seconds=10))
    assert interval_ms() == 15_000


def test_a_run_without_a_task_does_not_let_the_model_wait_for_a_callback() -> None:
    server = Server("shop")
    server.add_workflow(Workflow(name="buy", description="buy", steps=[Wait("paid", callback=Callback(str, HOURS))]))
    with connect(server, settings=Settings(max_tasks_per_owner=1)) as client:
        assert client.call_workflow("buy").task_id
        text = client.call_workflow("buy", {"task_id": "new"}).text
        assert text.endswith("so no callback reaches it: do not wait, and start the workflow again later.")


def test_the_handoff_tells_the_model_that_there_is_nothing_to_do(client: Client) -> None:
    run = client.call_workflow("release", {"branch": "main"})
    assert "waits for a callback of another system, until" in run.text
    assert "Until then, nothing needs to be done." in run.text
    assert f'After the callback, call release with {{"task_id": "{run.task_id}"}}' in run.text
    assert f'To check, call release with {{"task_id": "{run.task_id}", "task_action": "show"}}.' in run.text
    assert [call["tool"] for call in run.next] == ["release"]


@pytest.mark.parametrize("is_ended", [False, True])
def test_a_repeated_callback_is_accepted_and_a_different_one_is_refused(client: Client, *, is_ended: bool) -> None:
    task = waiting_task(client)
    client.send_callback(task, "build", GREEN, key="delivery-1")
    if is_ended:
        assert client.resume(task).completed
    client.send_callback(task, "build", dict(reversed(GREEN.items())))
    client.send_callback(task, "build", {**GREEN, "url": "other"}, key="delivery-1")
    with pytest.raises(BatonError, match="HTTP 409: Another callback was accepted before"):
        client.send_callback(task, "build", RED)
    with pytest.raises(BatonError, match="HTTP 409"):
        client.send_callback(task, "build", RED, key="delivery-2")
    assert client.task(task).variables["_workflow.result.build"] == GREEN


def test_a_body_of_another_type_is_refused_with_its_fields_and_nothing_is_stored(shop: Shop, client: Client) -> None:
    task = waiting_task(client)
    items_before = items(client)
    status, reply = post(client, path(shop.urls[0]), b'{"passed": "perhaps"}')
    assert (status, [entry["field"] for entry in reply["invalidFields"]]) == (422, ["url", "passed"])
    assert items(client) == items_before
    client.send_callback(task, "build", GREEN)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"", 400),
        (b'{"passed": NaN}', 400),
        (b'"' + b"x" * (MAX_CALLBACK_BYTES - 1) + b'"', 413),
        (b"[]", 422),
    ],
)
def test_an_invalid_body_is_refused(shop: Shop, client: Client, body: bytes, status: int) -> None:
    task = waiting_task(client)
    assert post(client, path(shop.urls[0]), body)[0] == status
    assert client.task(task).steps["build"] == "pending"


def test_unknown_forged_and_expired_addresses_have_the_same_reply(shop: Shop, client: Client) -> None:
    waiting_task(client)
    url = path(shop.urls[0])
    body = json.dumps(GREEN).encode()
    replies = [post(client, target, body) for target in (url[:-1], url + "x", "/callbacks/", "/callbacks/a/b")]
    client.clock.advance(timedelta(days=2))
    replies.append(post(client, url, body))
    assert replies == [(404, {"error": "There is no such callback."})] * 5


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE"])
def test_other_methods_change_nothing(shop: Shop, client: Client, method: str) -> None:
    waiting_task(client)
    items_before = items(client)
    assert post(client, path(shop.urls[0]), json.dumps(GREEN).encode(), method=method)[0] == 405
    assert items(client) == items_before


def test_after_the_timeout_the_callback_is_refused_the_step_fails_and_no_call_is_suggested(
    shop: Shop, client: Client
) -> None:
    task = waiting_task(client)
    client.clock.advance(2 * HOURS + timedelta(seconds=1))
    with pytest.raises(BatonError, match="HTTP 410: The task no longer waits"):
        client.send_callback(task, "build", GREEN)
    run = client.resume(task)
    assert (run.pause.error, run.pause.wait_over) == ("timed out: no callback within 2 hours", True)
    assert 'no callback within 2 hours". It cannot be repeated.' in run.text
    assert (run.next, "release" in run.text.partition("timed out")[2]) == ([], False)
    with pytest.raises(BatonError, match="HTTP 410"):
        client.send_callback(task, "build", GREEN)
    assert (client.resume(task).pause.type, shop.deployed) == ("toolError", [])


def test_a_timeout_can_skip_the_step() -> None:
    shop = Shop("skip")
    with connect(shop.server) as client:
        task = waiting_task(client)
        client.clock.advance(2 * HOURS + timedelta(seconds=1))
        run = client.resume(task)
        assert (run.completed, run.steps["build"], shop.deployed) == (True, "skipped", ["none"])
        with pytest.raises(BatonError, match="HTTP 410"):
            client.send_callback(task, "build", GREEN)


@pytest.mark.parametrize("end", ["cancel", "complete"])
def test_a_callback_after_the_end_of_its_task_is_refused(client: Client, end: str) -> None:
    task = waiting_task(client)
    if end == "cancel":
        client.cancel(task)
    else:
        client.complete(task, {"content": []})
    with pytest.raises(BatonError, match="HTTP 410"):
        client.send_callback(task, "build", GREEN)


def test_the_address_is_hidden_in_results_and_items_and_logs(
    shop: Shop, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    run = client.get_prompt("release", {"branch": "main"})
    client.send_callback(str(run.task_id), "build", GREEN)
    post(client, path(shop.urls[0]), b"{")
    token = shop.urls[0].rpartition("/")[2]
    result = client.task(str(run.task_id)).variables["_workflow.result.start_build"]
    assert result == "main: the server calls https://server.test/callbacks/<secret callback of build>"
    for text in (str(run), str(client.task(str(run.task_id))), items(client), caplog.text):
        assert token not in text


@pytest.mark.parametrize(
    ("make_error", "shown"),
    [
        (OSError, "internal error in leak: its traceback has a callback's address"),
        (lambda text: ProtocolError(-32_000, text, {"cause": text}), "/callbacks/<secret callback of paid>"),
    ],
)
def test_the_address_is_hidden_in_errors_and_tracebacks_too(
    caplog: pytest.LogCaptureFixture, make_error: Callable[[str], Exception], shown: str
) -> None:
    server, urls = Server("leaky"), list[str]()

    @server.tool
    def leak(ctx: Context) -> None:
        urls.append(ctx.callback_url("paid"))
        ctx.report_progress(1, message=urls[0])
        raise make_error(f"cannot reach {urls[0]}")

    steps = [ToolStep(leak), Wait("paid", callback=Callback(int, HOURS))]
    server.add_workflow(Workflow(name="pay", description="pay", steps=steps))
    with connect(server) as client:
        run = client.call_workflow("pay")
        views = f"{run}{items(client)}{caplog.text}{client.task(str(run.task_id))}"
    assert urls[0].rpartition("/")[2] not in views
    assert shown in views


def test_an_address_needs_a_stored_task(shop: Shop, client: Client) -> None:
    result = client.call_tool("start_build", {"branch": "main"})
    assert result.is_error
    assert "callback_url('build'): this call is not one of a stored task" in result.text


def test_an_address_of_an_unknown_step_is_an_error_for_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """The model cannot correct the tool, so the handoff does not ask for the same call."""
    server = Server("ci")

    @server.tool
    def begin(ctx: Context) -> str:
        name = "bild"
        return ctx.callback_url(name)

    steps = [ToolStep(begin), Wait("build", callback=Callback(int, HOURS))]
    server.add_workflow(Workflow(name="release", description="release", steps=steps))
    with connect(server) as client:
        run = client.call_workflow("release")
        shown = client.call_tool("release", {"task_id": run.task_id, "task_action": "show"})
    assert [call for call in run.next if call["tool"] == "begin"] == []
    for text in (run.text, shown.text):
        assert "internal error in begin (id " in text
        assert "tell the user" in text
        assert "Call begin" not in text
    assert (
        "the workflow 'release' has no step of this name that waits for a callback; did you mean 'build'?"
        in caplog.text
    )


def test_a_continuation_can_make_an_address(shop: Shop, client: Client) -> None:
    task = waiting_task(client)
    assert not client.call_tool("start_build", {"branch": "main"}, task=task).is_error
    assert post(client, path(shop.urls[-1]), json.dumps(GREEN).encode()) == (200, {"accepted": True})
    assert client.resume(task).completed


def test_an_event_delivers_a_callback(shop: Shop, client: Client) -> None:
    task = waiting_task(client)
    token = shop.urls[0].rpartition("/")[2]
    with pytest.raises(EventError, match="refused with 404"):
        client.stage.function.invoke({"batonCallback": {"token": "\ud800", "payload": GREEN}}, None)
    event = {"batonCallback": {"token": token, "id": "e-1 \ud800", "payload": GREEN}}
    assert client.stage.function.invoke(event, None)[0] == {"accepted": True}
    assert client.resume(task).completed


@pytest.mark.parametrize("levels", [65, 1_000, 100_000])
def test_a_callback_that_is_nested_too_deep_is_refused(shop: Shop, client: Client, levels: int) -> None:
    task = waiting_task(client)
    body = b'{"a":' * levels + b"1" + b"}" * levels
    status, reply = post(client, path(shop.urls[0]), body[:262_144])
    # Python's parser stops before the end of the deepest text, which is cut here.
    assert (status, reply) == (400, {"error": "The body is nested deeper than 64 levels: send less nested JSON"})
    payload: Any = 1
    for _ in range(levels):
        payload = {"a": payload}
    event = {"batonCallback": {"token": shop.urls[0].rpartition("/")[2], "payload": payload}}
    with pytest.raises(EventError, match="the callback's payload is nested deeper than 64 levels"):
        client.stage.function.invoke(event, None)
    assert client.task(task).pause.type == "waiting"


def test_a_number_that_is_not_finite_is_refused_and_its_field_is_named() -> None:
    server, urls = Server("shop"), list[str]()

    @server.tool
    def start(ctx: Context) -> None:
        urls.append(ctx.callback_url("paid"))

    @server.workflow
    def sell() -> None:
        step(start)()
        wait("paid", dict[str, float], within=2 * HOURS)

    with connect(server) as client:
        client.call_workflow("sell")
        for text in ("nan", "1e999"):
            status, reply = post(client, path(urls[0]), json.dumps({"amount": text}).encode())
            assert (status, reply["invalidFields"][0]["field"]) == (422, "amount")
        token = urls[0].rpartition("/")[2]
        event = {"batonCallback": {"token": token, "payload": {"amount": float("nan")}}}
        with pytest.raises(BatonError, match=r"`payload` is not JSON"):
            client.stage.function.invoke(event, None)


def test_the_waits_of_a_workflow_must_fit_into_the_lifetime_of_its_tasks() -> None:
    server = Server("long")
    wait_step = Wait("signed", callback=Callback(str, timedelta(days=3)))
    server.add_workflow(Workflow(name="sign", description="sign", steps=[wait_step], ttl=timedelta(days=2)))
    message = r"needs 73 hours \(72 hours for 'signed', and 1 hour more\), and its ttl is 48 hours; make ttl longer, or"
    with pytest.raises(BatonError, match=message), connect(server, settings=Settings(max_ttl_ms=10**9)):
        pass


def test_the_waits_of_a_workflow_must_fit_into_the_operators_limit() -> None:
    server = Server("long")
    steps = [Wait(name, callback=Callback(str, timedelta(days=1))) for name in ("a", "b")]
    server.add_workflow(Workflow(name="sign", description="sign", steps=steps))
    message = (
        r"it needs 49 hours \(24 hours for 'a', 24 hours for 'b', and 1 hour more\), and the operator allows 48 hours; "
        r"raise MaxTtlMs \(BATON_MAX_TTL_MS\), or lower the approval's expires or the wait's time"
    )
    with pytest.raises(BatonError, match=message), connect(server):
        pass
    # Both steps wait at the same time, so one day is enough.
    parallel_server = Server("long")
    parallel_server.add_workflow(Workflow(name="sign", description="sign", steps=steps, parallel=2))
    with connect(parallel_server, settings=Settings(max_ttl_ms=25 * 3_600_000)):
        pass


def test_an_approval_and_a_wait_of_four_hours_fit_into_the_default_limits() -> None:
    server = Server("shop")

    @server.tool(approval=Approval("treasury"))
    def pay(amount: float) -> None:
        """Pay."""

    wait_step = Wait("delivered", callback=Callback(bool, timedelta(hours=4)))
    steps = [ToolStep("pay", tool=pay, arguments={"amount": constant(1)}), wait_step]
    server.add_workflow(Workflow(name="order", description="order", steps=steps))
    with connect(server) as client:
        run = client.call_workflow("order", {})
        assert client.task(run.task_id).shown["ttlMs"] == 29 * 3_600_000
    message = r"24 hours for the approval of 'pay', 4 hours for 'delivered'.*ttl is 28 hours|operator allows 28 hours"
    with pytest.raises(BatonError, match=message), connect(server, settings=Settings(max_ttl_ms=28 * 3_600_000)):
        pass


def test_a_client_cannot_shorten_the_lifetime_of_a_waiting_task() -> None:
    shop = Shop()
    with connect(shop.server, era="2025") as client:
        run = client.request("prompts/get", {"name": "release", "arguments": {"branch": "main"}, "task": {"ttl": 1000}})
        meta: Any = run["_meta"]
        assert client.task(meta["task_id"]).shown["ttl"] == 3 * 3_600_000


def test_a_callback_for_a_skipped_step_is_refused() -> None:
    server = Server("maybe")

    @server.tool
    def request(ctx: Context) -> bool:
        """Create the callback's address, and return that no callback is needed."""
        ctx.callback_url("paid")
        return False

    @server.tool
    def fails() -> None:
        raise ToolError("so it is")

    @server.workflow
    def pay() -> None:
        needs_callback = step(request)()
        wait("paid", int, within=HOURS, when=needs_callback == True)  # noqa: E712
        step(fails)()

    with connect(server) as client:
        task = str(client.call_workflow("pay").task_id)
        assert client.task(task).steps["paid"] == "skipped"
        with pytest.raises(BatonError, match="HTTP 410"):
            client.send_callback(task, "paid", 1)

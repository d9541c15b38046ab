"""A process is killed after a tool's effect and before the write: replies that may repeat the step name it and its
idempotency key (docs/workflows.md, When a run is killed)."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from io import StringIO
from threading import Event
from typing import Any, override

import pytest
from rich.console import Console

from mcp_baton import (
    Argument,
    Context,
    Server,
    ToolError,
    ToolStep,
    Workflow,
    constant,
    is_in,
    prompt_arg,
    sleep_until,
    step,
    step_output,
)
from mcp_baton.cli.remote.client import Remote
from mcp_baton.cli.remote.printing import print_run
from mcp_baton.tasks.record import LEASE_MS
from mcp_baton.testing import Client, Era, Run, connect
from mcp_baton.testing.function import Killed
from tests.hosts.phrases import read

INTERRUPTED = "an earlier run ended before it recorded what it did"


class Payments:
    """A server that charges cards, and the idempotency keys that its tools received."""

    def __init__(self) -> None:
        self.keys: dict[str, list[str]] = {"quote": [], "charge": [], "mail": []}
        self.declines = False
        server = self.server = Server("payments")

        @server.tool
        def quote(order_id: str, ctx: Context) -> dict[str, Any]:
            self.keys["quote"].append(ctx.idempotency_key)
            return {"total": 12.5}

        @server.tool
        def charge(order_id: str, amount: float, ctx: Context) -> str:
            self.keys["charge"].append(ctx.idempotency_key)
            if self.declines:
                raise ToolError("declined")
            return "charged"

        @server.tool
        def mail(receipt: str, ctx: Context) -> str:
            self.keys["mail"].append(ctx.idempotency_key)
            return "sent"

        steps = [
            ToolStep("quote", tool=quote, arguments={"order_id": prompt_arg("order_id")}, checkpoint=True),
            ToolStep(
                "charge",
                tool=charge,
                arguments={"order_id": prompt_arg("order_id"), "amount": step_output("quote", "total")},
            ),
            ToolStep("mail", tool=mail, arguments={"receipt": step_output("charge")}),
        ]
        order = Argument("order_id", "The order", required=True)
        server.add_workflow(Workflow(name="pay", description="pay an order", arguments=[order], steps=steps))

    def step_text(self, step: str) -> str:
        """Return a step with its key, as texts name it."""
        [key] = set(self.keys[step])
        return f"'{step}' (idempotency key {key})"


@pytest.fixture
def payments() -> Payments:
    return Payments()


@pytest.fixture(params=["2025", "2026"])
def client(request: pytest.FixtureRequest, payments: Payments) -> Iterator[Client]:
    """A client whose first run was killed after the charge, which is therefore not recorded."""
    era: Era = request.param
    with connect(payments.server, era=era) as client:
        with client.killed_after("charge"):
            client.get_prompt("pay", {"order_id": "A-17"})
        yield client


def task_of(client: Client) -> str:
    [task] = client.tasks()
    return task.task_id


def expire_claim(client: Client) -> None:
    client.clock.advance(LEASE_MS / 1000 + 1)


def assert_done(run: Run, payments: Payments, text: str) -> None:
    assert run.completed
    assert len(payments.keys["charge"]) == 2
    warning = (
        f"Steps {payments.step_text('charge')} and {payments.step_text('mail')} may have run twice: {INTERRUPTED}."
    )
    assert warning in text
    steps = [{"step": name, "idempotency_key": payments.keys[name][0]} for name in ("charge", "mail")]
    assert run.meta["may_have_run_twice"] == steps


def test_a_resume_says_which_steps_it_may_have_repeated(client: Client, payments: Payments) -> None:
    expire_claim(client)
    run = client.get_prompt("pay", task=task_of(client))
    assert_done(run, payments, run.messages[-2].text)


def test_the_workflow_tool_says_which_steps_it_may_have_repeated(client: Client, payments: Payments) -> None:
    expire_claim(client)
    run = client.call_workflow("pay", task=task_of(client))
    assert_done(run, payments, run.text)
    structure: Any = run.structured
    assert structure["warning"] in run.text


@pytest.mark.parametrize("is_claimed", [True, False], ids=["while the claim lasts", "afterwards"])
def test_a_continuation_names_steps_that_may_have_run(client: Client, payments: Payments, is_claimed: bool) -> None:
    """The killed run holds its claim until the lease ends. Until then, it may still be alive."""
    if not is_claimed:
        expire_claim(client)
    cause = "another run of this task has not recorded what it did"
    task = {"task_id": task_of(client)}
    quote_answer = client.call_tool("quote", {"order_id": "A-17", **task})
    assert f"Steps {payments.step_text('charge')} and 'mail' may already have run: {cause}." in quote_answer.text
    [next_call] = read(quote_answer.text).calls
    assert (next_call.tool, next_call.arguments) == ("pay", task)
    reply = client.call_tool("charge", {"order_id": "A-17", "amount": 12.5, **task})
    assert f"Step {payments.step_text('charge')} may have run twice: {cause}." in reply.text
    assert reply.meta["may_have_run_twice"] == [{"step": "charge", "idempotency_key": payments.keys["charge"][0]}]
    mail_answer = client.call_tool("mail", {"receipt": "charged"}, task=task_of(client))
    steps: Any = mail_answer.meta["may_have_run_twice"]
    assert [step["step"] for step in steps] == ["mail"]
    assert "may_have_run" not in mail_answer.meta


def test_the_board_names_steps_that_may_have_run(client: Client, payments: Payments) -> None:
    expire_claim(client)
    view = client.call_workflow("pay", {"task_id": task_of(client), "task_action": "show"})
    structure: Any = view.structured
    assert f"Steps {payments.step_text('charge')} and 'mail' may already have run" in structure["warning"]
    assert structure["warning"] in view.text


def test_without_an_interrupted_run_no_steps_are_named(payments: Payments) -> None:
    with connect(payments.server) as client:
        payments.declines = True
        run = client.call_workflow("pay", {"order_id": "A-17"})
        payments.declines = False
        continuation = client.call_tool("charge", {"order_id": "A-17", "amount": 12.5, "task_id": run.task_id})
        last_run = client.call_workflow("pay", task=run.task_id)
        assert last_run.completed
        for answer in (run, continuation, last_run):
            assert "may have" not in answer.text
            assert not {"may_have_run", "may_have_run_twice"} & answer.meta.keys()


def test_a_key_of_a_call_with_a_secret_is_not_shown() -> None:
    """A key is a digest. With the key, an attacker could try all PINs."""
    server = Server("bank")

    @server.tool
    def transfer(pin: str) -> str:
        return "done"

    @server.tool
    def note(text: str) -> str:
        return text

    steps = [
        ToolStep("transfer", tool=transfer, arguments={"pin": prompt_arg("pin")}),
        ToolStep("note", tool=note, arguments={"text": constant("with {pin}")}),
    ]
    pin = Argument("pin", "The PIN", required=True, secret=True)
    server.add_workflow(Workflow(name="send", description="send money", arguments=[pin], steps=steps))
    with connect(server) as client:
        with client.killed_after("transfer"):
            client.call_workflow("send", {"pin": "4711"})
        expire_claim(client)
        view = client.call_workflow("send", {"task_id": task_of(client), "task_action": "show"})
        run = client.call_workflow("send", {"pin": "4711"}, task=task_of(client))
    assert "Steps 'transfer' and 'note' may already have run: " in view.text
    assert f"Steps 'transfer' and 'note' may have run twice: {INTERRUPTED}." in run.text
    assert run.meta["may_have_run_twice"] == [{"step": "transfer"}, {"step": "note"}]


class LocalRemote(Remote):
    """Sends the requests of the commands to the test's server."""

    def __init__(self, client: Client) -> None:
        self.client = client

    @override
    def result(self, method: str, params: Any = None, meta: Any = None, **_: Any) -> dict[str, Any]:
        return dict(self.client.request(method, params, meta))


def test_baton_resume_names_repeated_steps_of_a_completed_workflow(client: Client, payments: Payments) -> None:
    expire_claim(client)
    result = LocalRemote(client).run("pay", {}, task_of(client))
    console = Console(file=StringIO(), width=1_000)
    print_run(result, console)
    assert isinstance(console.file, StringIO)
    warning = (
        f"Steps {payments.step_text('charge')} and {payments.step_text('mail')} may have run twice: {INTERRUPTED}."
    )
    assert warning in console.file.getvalue()
    assert result.to_json()["note"] == warning


@pytest.mark.parametrize("outcome", ["handed over", "waits"])
def test_the_last_worker_tells_what_an_earlier_one_may_have_repeated(outcome: str) -> None:
    server, keys = Server("shop"), list[str]()

    @server.tool
    def charge(ctx: Context) -> None:
        keys.append(ctx.idempotency_key)

    @server.tool
    def mail() -> None:
        """Send a mail."""

    @server.workflow(background=True)
    def pay(waits: bool) -> None:
        """Charge, perhaps wait, then mail."""
        step(charge)()
        sleep_until("pause", timedelta(minutes=5), when=is_in(waits, [True]))
        step(mail)()

    with connect(server, era="2026") as client:
        with suppress(Killed), client.killed_after("charge"):
            client.start_task("pay", {"waits": outcome == "waits"})
        if outcome == "handed over":
            client.during("charge", lambda: client.remaining_s(2))
            client.during("mail", lambda: client.remaining_s(900))
        client.clock.advance(3_000)
        outcomes = [run.outcome for run in client.worker_runs]
        [task_id] = {run.event.task_id for run in client.worker_runs}
        result: Any = client.request("tasks/get", {"taskId": task_id})["result"]

    first, *later_steps = result["_meta"]["may_have_run_twice"]
    assert outcomes[:2] == ["killed", outcome]
    assert first == {"step": "charge", "idempotency_key": keys[0]}
    # The killed run may also have made the call of a step that was open when a later run claimed the task.
    assert [repeat["step"] for repeat in later_steps] == ([] if outcome == "handed over" else ["mail"])
    assert "'charge' (idempotency key" in result["content"][0]["text"]


def test_a_background_call_does_not_tell_what_another_one_may_have_repeated() -> None:
    server = Server("shop")

    @server.tool
    def charge() -> None: ...

    @server.tool
    def mail() -> None: ...

    @server.workflow(background=True)
    def pay() -> None:
        """Charge, then mail."""
        step(charge)()
        step(mail)()

    with connect(server, era="2026") as client:
        client.tool_raises("mail", ToolError("no"), times=1)
        with suppress(Killed), client.killed_after("charge"):
            client.start_task("pay")
        client.clock.advance(3_000)
        first: Any = client.request("tasks/get", {"taskId": client.worker_runs[0].event.task_id})["result"]
        task_id = first["structuredContent"]["task_id"]
        call = client.start_task("pay", {"task_id": task_id})
        second: Any = client.request("tasks/get", {"taskId": call.task_id})["result"]

    repeats = [[entry["step"] for entry in result["_meta"]["may_have_run_twice"]] for result in (first, second)]
    assert repeats == [["charge", "mail"], ["mail"]]
    assert second["structuredContent"]["task_status"] == "completed"


def test_parallel_steps_that_may_have_run_twice_are_named_in_their_order() -> None:
    server, ended = Server("shop"), Event()

    @server.tool
    def slow() -> None:
        ended.wait(60)

    @server.tool
    def fast() -> None:
        ended.set()

    @server.workflow(parallel=2)
    def both() -> None:
        """Do both."""
        step(slow)()
        step(fast)()

    with connect(server) as client:
        with suppress(Killed), client.killed_after("fast"):
            client.call_workflow("both")
        ended.clear()
        expire_claim(client)
        run = client.call_workflow("both", task=task_of(client))

    repeats: Any = run.meta["may_have_run_twice"]
    assert [repeat["step"] for repeat in repeats] == ["slow", "fast"]

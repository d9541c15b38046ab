"""A process is killed after a tool's effect and before the write: replies that may repeat the step name it and its
idempotency key (docs/workflows.md, When a run is killed)."""

from collections.abc import Iterator
from io import StringIO
from typing import Any, override

import pytest
from rich.console import Console

from mcp_baton import Argument, Context, Server, Step, ToolError, Workflow, constant, prompt_arg, step_output
from mcp_baton.cli.remote.client import Remote
from mcp_baton.cli.remote.printing import print_run
from mcp_baton.tasks.record import LEASE_MS
from mcp_baton.testing import Client, Era, Run, connect
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
            Step("quote", tool=quote, arguments={"order_id": prompt_arg("order_id")}, checkpoint=True),
            Step(
                "charge",
                tool=charge,
                arguments={"order_id": prompt_arg("order_id"), "amount": step_output("quote", "total")},
            ),
            Step("mail", tool=mail, arguments={"receipt": step_output("charge")}),
        ]
        order = Argument("order_id", "The order", required=True)
        server.add_workflow(Workflow(name="pay", description="pay an order", arguments=[order], steps=steps))

    def keyed(self, step: str) -> str:
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


def lapse(client: Client) -> None:
    client.clock.advance(LEASE_MS / 1000 + 1)


def charged_twice(payments: Payments) -> str:
    return f"Step {payments.keyed('charge')} may have run twice: {INTERRUPTED}."


def assert_done(run: Run, payments: Payments, said: str) -> None:
    assert run.completed
    assert len(payments.keys["charge"]) == 2
    twice = f"Steps {payments.keyed('charge')} and {payments.keyed('mail')} may have run twice: {INTERRUPTED}."
    assert twice in said
    reported = [{"step": name, "idempotency_key": payments.keys[name][0]} for name in ("charge", "mail")]
    assert run.meta["may_have_run_twice"] == reported


def test_a_resume_says_which_steps_it_may_have_repeated(client: Client, payments: Payments) -> None:
    lapse(client)
    run = client.get_prompt("pay", task=task_of(client))
    assert_done(run, payments, run.messages[-1].text)


def test_the_workflow_tool_says_which_steps_it_may_have_repeated(client: Client, payments: Payments) -> None:
    lapse(client)
    run = client.call_workflow("pay", task=task_of(client))
    assert_done(run, payments, run.text)
    structure: Any = run.structured
    assert structure["warning"] in run.text


def test_a_handoff_names_steps_that_may_have_run(client: Client, payments: Payments) -> None:
    lapse(client)
    payments.declines = True
    for run in (
        client.get_prompt("pay", task=task_of(client)),
        client.call_workflow("pay", task=task_of(client)),
    ):
        said = run.text if run.structured else run.handoff
        assert charged_twice(payments) in said
        still = f"Steps {payments.keyed('charge')} and 'mail' may already have run: {INTERRUPTED}. Check before"
        assert still in said
        assert run.meta["may_have_run"] == [
            {"step": "charge", "idempotency_key": payments.keys["charge"][0]},
            {"step": "mail"},
        ]


@pytest.mark.parametrize("held", [True, False], ids=["while the claim lasts", "afterwards"])
def test_a_continuation_names_steps_that_may_have_run(client: Client, payments: Payments, held: bool) -> None:
    """The killed run holds its claim until the lease ends. Until then, it may still be alive."""
    if not held:
        lapse(client)
    why = "another run of this task has not recorded what it did"
    task = {"task_id": task_of(client)}
    reported = client.call_tool("quote", {"order_id": "A-17", **task})
    assert f"Steps {payments.keyed('charge')} and 'mail' may already have run: {why}." in reported.text
    [following] = read(reported.text).calls
    assert (following.tool, following.arguments) == ("pay", task)
    made = client.call_tool("charge", {"order_id": "A-17", "amount": 12.5, **task})
    assert f"Step {payments.keyed('charge')} may have run twice: {why}." in made.text
    assert made.meta["may_have_run_twice"] == [{"step": "charge", "idempotency_key": payments.keys["charge"][0]}]
    by_meta = client.call_tool("mail", {"receipt": "charged"}, task=task_of(client))
    repeated: Any = by_meta.meta["may_have_run_twice"]
    assert [it["step"] for it in repeated] == ["mail"]
    assert "may_have_run" not in by_meta.meta


def test_the_board_names_steps_that_may_have_run(client: Client, payments: Payments) -> None:
    lapse(client)
    look = {"task_id": task_of(client), "task_action": "show"}
    shown = client.call_workflow("pay", look)
    structure: Any = shown.structured
    assert f"Steps {payments.keyed('charge')} and 'mail' may already have run" in structure["warning"]
    assert structure["warning"] in shown.text


def test_steps_that_may_have_run_are_named_while_they_are_open(client: Client, payments: Payments) -> None:
    lapse(client)
    payments.declines = True
    client.call_workflow("pay", task=task_of(client))
    client.call_workflow("pay", task=task_of(client))
    payments.declines = False
    assert "may have run twice" in client.call_workflow("pay", task=task_of(client)).text


def test_without_an_interrupted_run_no_steps_are_named(payments: Payments) -> None:
    with connect(payments.server) as client:
        payments.declines = True
        paused = client.call_workflow("pay", {"order_id": "A-17"})
        payments.declines = False
        made = client.call_tool("charge", {"order_id": "A-17", "amount": 12.5, "task_id": paused.task_id})
        done = client.call_workflow("pay", task=paused.task_id)
        assert done.completed
        for answer in (paused, made, done):
            assert "may" not in answer.text
            assert not {"may_have_run", "may_have_run_twice"} & answer.meta.keys()


def test_a_run_whose_writes_failed_names_its_steps(payments: Payments) -> None:
    with connect(payments.server) as client:
        payments.declines = True
        client.store.fails("UpdateItem", times=None, error="AccessDeniedException")
        run = client.call_workflow("pay", {"order_id": "A-17"})
        assert run.meta["persisted"] is False
        steps = f"steps {payments.keyed('quote')} and {payments.keyed('charge')}"
        assert f"if the server went on, it would repeat {steps}." in run.text


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
        Step("transfer", tool=transfer, arguments={"pin": prompt_arg("pin")}),
        Step("note", tool=note, arguments={"text": constant("with {pin}")}),
    ]
    pin = Argument("pin", "The PIN", required=True, secret=True)
    server.add_workflow(Workflow(name="send", description="send money", arguments=[pin], steps=steps))
    with connect(server) as client:
        with client.killed_after("transfer"):
            client.call_workflow("send", {"pin": "4711"})
        lapse(client)
        shown = client.call_workflow("send", {"task_id": task_of(client), "task_action": "show"})
        done = client.call_workflow("send", {"pin": "4711"}, task=task_of(client))
    assert "Steps 'transfer' and 'note' may already have run: " in shown.text
    assert f"Steps 'transfer' and 'note' may have run twice: {INTERRUPTED}." in done.text
    assert done.meta["may_have_run_twice"] == [{"step": "transfer"}, {"step": "note"}]


class Connected(Remote):
    """Sends the requests of the commands to the test's server."""

    def __init__(self, client: Client) -> None:
        self.client = client

    @override
    def request(self, method: str, params: Any = None, meta: Any = None, **_: Any) -> dict[str, Any]:
        return dict(self.client.request(method, params, meta))


def test_baton_resume_names_repeated_steps_of_a_completed_workflow(client: Client, payments: Payments) -> None:
    lapse(client)
    ran = Connected(client).run("pay", {}, task_of(client))
    to = Console(file=StringIO(), width=1_000)
    print_run(ran, to)
    assert isinstance(to.file, StringIO)
    said = f"Steps {payments.keyed('charge')} and {payments.keyed('mail')} may have run twice: {INTERRUPTED}."
    assert said in to.file.getvalue()
    assert ran.to_json()["note"] == said

"""Answers and callbacks that come before the condition of their step is decided, or while the run goes on
(docs/workflows.md, Conditions; docs/waiting.md)."""

from datetime import timedelta

import pytest

from mcp_baton import Context, Server, ToolError, ask_model, or_default, prompt_arg, step, wait_for_callback
from mcp_baton.protocol.json import Json
from mcp_baton.stores import DynamoDBStore
from mcp_baton.tasks.record import WAIT_PREFIX, TaskRecord
from mcp_baton.tasks.store import Batch
from mcp_baton.testing import Client, connect


def shop(total: float, failures: list[Exception], *, parallel: int, background: bool = False) -> Server:
    """Return a server whose workflow asks for a bonus, and waits for a delivery, only for a large order."""
    server = Server("shop")

    @server.tool
    def fetch_order(ctx: Context) -> dict[str, float]:
        ctx.callback_url("delivered")
        if failures:
            raise failures.pop()
        return {"total": total}

    @server.tool
    def pay(bonus: int, delivered: int) -> str:
        return f"{bonus} {delivered}"

    @server.workflow(parallel=parallel, background=background)
    def refund() -> None:
        order = step(fetch_order, retryable=True)()
        bonus = ask_model("bonus", "How much bonus?", returns=int, when=order["total"] > 100)
        delivered = wait_for_callback("delivered", int, within=timedelta(hours=2), when=order["total"] > 100)
        step(pay)(bonus=or_default(bonus, 0), delivered=or_default(delivered, 0))

    return server


@pytest.mark.parametrize("parallel", [1, 4])
@pytest.mark.parametrize(
    ("total", "paid"), [(30.0, {"bonus": 0, "delivered": 0}), (300.0, {"bonus": 50, "delivered": 7})]
)
@pytest.mark.parametrize("is_stored", [False, True], ids=["in one run", "stored before"])
def test_an_early_answer_and_an_early_callback_count_only_if_the_condition_holds(
    total: float, paid: dict[str, int], *, parallel: int, is_stored: bool
) -> None:
    failures: list[Exception] = [ToolError("not now")]
    with connect(shop(total, failures, parallel=parallel)) as client:
        first = client.call_workflow("refund", {"answers": {"bonus": 50}} if is_stored else {})
        assert client.calls("pay") == []
        client.send_callback(first.task_id, "delivered", 7)
        arguments: dict[str, Json] = {"task_id": first.task_id, **({} if is_stored else {"answers": {"bonus": 50}})}
        run = client.call_workflow("refund", arguments)
        status = "completed" if total > 100 else "skipped"
        assert (run.completed, run.steps["bonus"], run.steps["delivered"]) == (True, status, status)
        assert client.calls("pay") == [paid]


def test_the_repetition_of_an_early_callback_is_accepted_although_its_step_was_skipped() -> None:
    with connect(shop(30.0, [ToolError("not now")], parallel=1)) as client:
        run = client.call_workflow("refund", {})
        client.send_callback(run.task_id, "delivered", 7)
        client.resume(run.task_id)
        client.send_callback(run.task_id, "delivered", 7)
        assert client.calls("pay") == [{"bonus": 0, "delivered": 0}]


def test_an_answer_that_was_used_stays_although_its_condition_would_be_false_now() -> None:
    server, failures = Server("shop"), [ToolError("not now")]

    @server.tool
    def pay(bonus: int) -> str:
        return str(bonus)

    @server.tool
    def send(bonus: int) -> str:
        if failures:
            raise failures.pop()
        return str(bonus)

    @server.workflow
    def refund(total: int) -> None:
        bonus = ask_model("bonus", "How much bonus?", returns=int, when=prompt_arg("total") > 100)
        step(pay)(bonus=or_default(bonus, 0))
        step(send, retryable=True)(bonus=or_default(bonus, 0))

    with connect(server) as client:
        run = client.call_workflow("refund", {"total": 300, "answers": {"bonus": 50}})
        done = client.call_workflow("refund", {"task_id": run.task_id, "total": 30})
        assert (done.steps["bonus"], client.calls("send")[-1]) == ("completed", {"bonus": 50})


@pytest.fixture(params=[False, True], ids=["in the request", "in the background"])
def background(request: pytest.FixtureRequest) -> bool:
    in_background: bool = request.param
    return in_background


def ci(*, parallel: int, background: bool) -> Server:
    server = Server("ci")

    @server.tool
    def begin(ctx: Context) -> str:
        """Start a build."""
        ctx.callback_url("build")
        return "begun"

    @server.tool
    def check() -> str:
        return "checked"

    @server.tool
    def deploy(n: int) -> str:
        return f"deployed {n}"

    @server.workflow(parallel=parallel, background=background)
    def release() -> None:
        begun = step(begin)()
        build = wait_for_callback("build", int, within=timedelta(hours=2), after=[begun])
        step(check, after=[begun])()
        step(deploy)(n=build)

    return server


def run_release(client: Client, *, background: bool) -> None:
    """Run the workflow, which must complete in this run."""
    if background:
        assert client.start_task("release", {}).poll().status == "completed"
        assert len(client.worker_runs) == 1
    else:
        run = client.call_workflow("release", {})
        assert run.completed
    assert client.calls("deploy") == [{"n": 7}]


def flow(client: Client) -> str:
    return next(task.task_id for task in client.tasks() if client.task(task.task_id).steps)


@pytest.mark.parametrize("parallel", [1, 3])
def test_a_run_goes_on_with_a_callback_that_arrives_just_before_its_last_write(
    monkeypatch: pytest.MonkeyPatch, *, parallel: int, background: bool
) -> None:
    original, sent = DynamoDBStore.write, list[str]()

    def write(store: DynamoDBStore, task: TaskRecord, batch: Batch) -> TaskRecord:
        if batch.release and not sent and f"{WAIT_PREFIX}build" in batch.variables:
            sent.append(task.task_id)
            client.send_callback(task.task_id, "build", 7)
        return original(store, task, batch)

    monkeypatch.setattr(DynamoDBStore, "write", write)
    with connect(ci(parallel=parallel, background=background)) as client:
        run_release(client, background=background)
        assert len(sent) == 1


def test_a_run_goes_on_with_the_result_of_a_call_that_completes_the_step_at_which_it_stops() -> None:
    server = Server("shop")

    @server.tool
    def pay(amount: int) -> str:
        return f"paid {amount}"

    @server.tool
    def note(text: str) -> str:
        return text

    @server.workflow(parallel=2)
    def refund() -> None:
        payment = step(pay)()  # type: ignore[call-arg] # the model supplies the amount
        step(note, name="first")(text="begun")
        step(note, name="last")(text=payment)

    with connect(server) as client:
        client.during("note", lambda: client.call_tool("pay", {"amount": 5, "task_id": flow(client)}))
        run = client.call_workflow("refund", {})
        assert (run.completed, client.calls("note")[-1]) == (True, {"text": "paid 5"})


@pytest.mark.parametrize("is_resumed", [False, True], ids=["in its run", "after a resume"])
@pytest.mark.parametrize(
    ("answer", "hours", "reason"),
    [
        (True, 2.1, "no callback came within 2 hours"),
        (False, 0, 'its condition "sure == true" is false'),
    ],
)
def test_the_messages_say_why_a_wait_was_skipped(answer: bool, hours: float, reason: str, *, is_resumed: bool) -> None:
    server = Server("ci")

    @server.tool
    def note(text: str) -> str:
        return text

    @server.workflow
    def release() -> None:
        sure = ask_model("sure", "Sure?", returns=bool)
        wait_for_callback("build", int, within=timedelta(hours=2), on_timeout="skip", when=sure)
        step(note)(text=ask_model("text", "Which text?"))

    with connect(server) as client:
        run = client.call_workflow("release", {"answers": {"sure": answer}})
        client.clock.advance(hours * 3_600)
        messages = client.resume(run.task_id).text
        if is_resumed:
            messages = client.resume(run.task_id).text
        assert f"Step 'build' is skipped: {reason}." in messages

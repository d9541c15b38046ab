"""`baton resume --all` resumes many stored tasks (docs/commands.md, Resume many tasks)."""

import re

import pytest

from mcp_baton.cli.app import main
from mcp_baton.tasks.record import PAUSE_REASONS, NewTask
from tests.cli.conftest import Baton, BatonJson, Shop
from tests.cli.test_check_live import STEP_CHANGE

SELECTION = ("--all", "--workflow", "refund_order", "--pause", "toolError", "--rate", 1000)


def status(shop: Shop, task: str, owner: str = "kim") -> str:
    task_status: str = shop.client(owner=owner).task("get", task).result["status"]
    return task_status


def test_the_selected_tasks_are_resumed_and_the_others_are_listed(shop: Shop, baton: Baton) -> None:
    tasks = {order: shop.paused_task(order, owner) for order, owner in (("A", "kim"), ("B", "ann"), ("C", "kim"))}
    shop.close("A", "B")

    code, output, _ = baton("resume", shop.version(), *SELECTION)

    assert code == 3
    assert output.startswith("3 tasks: 2 completed, 1 paused, 0 refused, 0 not stored, 0 skipped: ")
    assert f"refund_order {tasks['C']}: step 'refund': toolError: " in output
    assert "the bank is closed" in output
    assert [status(shop, tasks["A"]), status(shop, tasks["B"], "ann")] == ["completed", "completed"]

    shop.close("C")
    code, output, _ = baton("resume", shop.version(), *SELECTION)
    assert (code, output) == (0, "1 task: 1 completed, 0 paused, 0 refused, 0 not stored, 0 skipped\n")
    assert (status(shop, tasks["C"]), sorted(shop.attempts)) == ("completed", ["A", "A", "B", "B", "C", "C", "C"])


@pytest.mark.parametrize(
    ("selection", "count"),
    [
        (("--step", "refund"), 2),
        (("--step", "fetch"), 0),
        (("--owner", "ann"), 1),
        (("--pause", "interrupted"), 0),
    ],
)
def test_tasks_can_be_selected_by_step_pause_and_owner(
    shop: Shop, baton_json: BatonJson, selection: tuple[str, ...], count: int
) -> None:
    shop.paused_task(owner="kim")
    shop.paused_task(owner="ann")
    shop.store.create(
        NewTask("kim", {PAUSE_REASONS: [{"type": "toolError", "failedStep": "refund"}]}, workflow="other")
    )
    code, output = baton_json("resume", shop.version(), *SELECTION, *selection)
    assert (code, output["tasks"]) == (3 if count else 0, count)
    assert len(shop.attempts) == 2 + count


def test_a_dry_run_prints_the_verdicts_and_runs_nothing(shop: Shop, baton: Baton) -> None:
    task = shop.paused_task()
    code, output, _ = baton("resume", shop.version(), *SELECTION, "--dry-run")
    assert (code, output) == (0, "1 task: 1 continue, 0 would be refused\n")
    code, output, _ = baton("resume", shop.version(STEP_CHANGE), *SELECTION, "--dry-run")
    assert code == 1
    verdict = f"1 task: 0 continue, 1 would be refused: refund_order {task}: step 'fetch' is completed and"
    assert output.startswith(verdict)
    assert shop.attempts == ["A-17"]


def test_a_task_that_does_not_match_the_code_is_not_changed(shop: Shop, baton_json: BatonJson) -> None:
    task = shop.paused_task()
    state_before = shop.client().task("get", task).result
    code, output = baton_json("resume", shop.version(STEP_CHANGE), *SELECTION)
    assert (code, output["outcomes"]["refused"]) == (1, 1)
    assert output["problems"][0]["why"] == "step 'fetch' is completed and its definition changed"
    assert shop.client().task("get", task).result == state_before


def test_a_tool_that_requires_scopes_runs_and_an_approval_is_requested(shop: Shop, baton: Baton) -> None:
    task = shop.paused_task()
    notification = 'server.on_approval(lambda request: CLOSED.with_name("notified").write_text(request.record["task"]))'
    changes = (
        ("import Argument", "import Approval, Argument"),
        ("@server.tool\ndef refund", '@server.tool(requires=["refund"], approval=Approval("refunds"))\ndef refund'),
        ("lambda_handler", f"{notification}\nlambda_handler"),
    )
    code, output, _ = baton("resume", shop.version(*changes), *SELECTION)
    assert (code, "approvalRequired" in output) == (3, True)
    assert (shop.folder / "notified").read_text() == task


def test_an_interrupted_command_tries_each_task_once(shop: Shop, baton: Baton) -> None:
    """A resume sends two `UpdateItem`s, so DynamoDB refuses the requests from the third task on."""
    for order in range(5):
        shop.paused_task(f"A-{order}")
    shop.requests.limits["UpdateItem"] = len(shop.requests.times.get("UpdateItem", ())) + 4
    code, output, err = baton("resume", shop.version(), *SELECTION)
    assert (code, output.partition(":")[0]) == (4, "2 tasks so far")

    shop.requests.limits.clear()
    code, output, _ = baton("resume", shop.version(), *SELECTION, *re.findall(r"--after \S+", err)[0].split())
    assert (code, output.partition(":")[0]) == (3, "3 tasks")
    assert sorted(shop.attempts) == sorted([f"A-{order}" for order in range(5)] * 2)


def test_the_resumes_keep_to_the_rate(shop: Shop, baton: Baton) -> None:
    for order in "AB":
        shop.paused_task(order)
    baton("resume", shop.version(), *SELECTION, "--rate", 2)
    first, _, second, _ = shop.requests.times["UpdateItem"]
    assert second - first >= 0.45


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--all", "--workflow", "refund_order", "--table", "shop"), "name all three"),
        (("--all", "--workflow", "x", "--pause", "toolError", "--table", "shop"), "it has refund_order"),
        (("--all", "--workflow", "x", "--pause", "toolErr", "--table", "shop"), "use one of unresolvableParams"),
        (("--workflow", "refund_order"), "add --all"),
        ((), "the task is missing"),
    ],
)
def test_wrong_usage_names_the_option_and_the_remedy(
    shop: Shop, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    assert main(["resume", str(shop.version()), *words]) == 2
    assert message in capsys.readouterr().err

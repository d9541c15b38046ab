"""`baton check --live`: which stored tasks would continue with the new code (docs/commands.md, Check stored tasks)."""

import json
import os
import re
import sys

import pytest
from msgspec.structs import replace

from mcp_baton.cli import stored_tasks
from mcp_baton.cli.app import main
from mcp_baton.cli.remote.table import Scan
from mcp_baton.protocol.json import Json
from mcp_baton.tasks.dynamodb.table import TaskTable
from mcp_baton.tasks.record import PAUSE_REASONS, JobSpec, NewTask
from tests.cli.conftest import Baton, BatonJson, Shop
from tests.fakes import Pauses
from tests.support.client import JsonDict

STEP_CHANGE = ('arguments={"order_id": ORDER_ID}),', 'arguments={"order_id": ORDER_ID, "currency": ORDER_ID}),')
STEP_REMOVAL = (
    ('ToolStep("fetch", tool=fetch_order, arguments={"order_id": ORDER_ID}),', ""),
    ('step_output("fetch", "total")', "constant(3.0)"),
    ("import Argument", "import constant, Argument"),
)
GUIDANCE_CHANGE = ("tool=refund, ", 'tool=refund, guidance="Look twice", ')
REQUIRED_ARGUMENT = ('[Argument("order_id", required=True)]', '[Argument("order_id"), Argument("why", required=True)]')
SECRET_ARGUMENT = ('Argument("order_id", required=True)', 'Argument("order_id", required=True, secret=True)')


def fill(shop: Shop, tasks: int) -> None:
    """Store tasks of a removed workflow, of about 100 KB each. A page of a scan has at most 1 MB."""
    for index in range(tasks):
        pause: Json = {"type": "toolError", "error": os.urandom(50_000).hex()}
        shop.store.create(NewTask(f"owner {index}", {PAUSE_REASONS: [pause]}, workflow="gone"))


def test_a_task_whose_completed_step_has_changed_is_named(shop: Shop, baton: Baton) -> None:
    task = shop.paused_task()
    cancelled_task = shop.paused_task()
    shop.client().task("cancel", cancelled_task)
    old_table = replace(shop.store.table, clock_ms=lambda: shop.store.now_ms() - 86_400_000)
    replace(shop.store, table=old_table).create(NewTask("kim", {}, workflow="expired"))

    code, output, _ = baton("check", shop.version(GUIDANCE_CHANGE), "--live")
    assert (code, output.splitlines()[-1]) == (0, "1 task: 1 continue, 0 would be refused")

    code, output, _ = baton("check", shop.version(STEP_CHANGE), "--live")
    reason = "step 'fetch' is completed and its definition changed"
    assert code == 1
    assert f"1 task: 0 continue, 1 would be refused: refund_order {task}: {reason}\n" in output


def test_tasks_with_the_same_reason_share_a_line(shop: Shop, baton: Baton) -> None:
    for _ in range(3):
        shop.paused_task()
    job = shop.store.create(NewTask("ann", {}, work=JobSpec("report", request_id="1")))

    removal = ('@server.tool(task="optional")', '@server.tool(name="other")')
    code, output, _ = baton("check", shop.version(STEP_CHANGE, removal), "--live")
    assert code == 1
    assert "4 tasks: 0 continue, 4 would be refused:\n" in output
    assert re.search(r"^  refund_order \w{37} and 2 more: step 'fetch' is completed and", output, re.MULTILINE)
    assert f"\n  report {job.task_id}: the tool 'report' is gone\n" in output


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (STEP_REMOVAL, "step 'fetch' is completed and it was removed"),
        ([('name="refund_order"', 'name="refund_it"')], "its workflow is gone"),
        ([REQUIRED_ARGUMENT], "the argument 'why' is required"),
        ([SECRET_ARGUMENT], None),
    ],
)
def test_a_task_that_a_resume_would_refuse_is_reported_with_the_reason(
    shop: Shop, baton_json: BatonJson, changes: list[tuple[str, str]], reason: str | None
) -> None:
    """A client supplies secrets again at a resume, so a new secret argument is not a reason."""
    task = shop.paused_task(owner="ann")
    code, output = baton_json("check", shop.version(*changes), "--live")
    problems = (
        []
        if reason is None
        else [{"task": task, "owner": "ann", "what": "refund_order", "outcome": "would be refused", "why": reason}]
    )
    assert code == len(problems)
    assert output["live"]["problems"] == problems
    assert (output["live"]["tasks"], output["live"]["whole"]) == (1, True)


def test_an_interrupted_check_prints_the_verdicts_so_far(shop: Shop, baton: Baton) -> None:
    fill(shop, 12)
    shop.requests.limits["Scan"] = 1
    code, output, _ = baton("check", shop.version(), "--live")
    assert code == 4
    assert 0 < int(re.findall(r"(\d+) tasks so far: 0 continue", output)[0]) < 12
    shop.requests.limits["Scan"] = 0
    document = json.loads(baton("check", shop.version(), "--live", "--json")[1])
    assert (document["live"]["whole"], document["error"]["message"][:16]) == (False, "DynamoDB rejects")


def test_the_scan_keeps_to_the_rate(shop: Shop, baton: Baton, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = Pauses()

    def scan(table: TaskTable, request: JsonDict, units_per_s: float) -> Scan:
        return Scan(replace(table, monotonic=pauses.monotonic, sleep=pauses.sleep), request, units_per_s)

    monkeypatch.setattr(stored_tasks, "Scan", scan)
    fill(shop, 12)
    baton("check", shop.version(), "--live", "--read-units", 2)
    assert pauses.taken == [0.5]


def test_a_terminal_shows_the_progress(shop: Shop, baton: Baton, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(shop, 2)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    code, output, err = baton("check", shop.version(), "--live")
    assert "2 tasks so far: 0 continue, 2 would be refused" in err
    assert "2/2" in err
    assert (code, "so far" in output) == (1, False)


def test_wrong_usage_names_the_option_and_the_remedy(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(shop.version()), "--live"]) == 2
    assert "--live needs --table" in capsys.readouterr().err
    assert main(["check", str(shop.version()), "--table", "tasks"]) == 2
    assert "add --live" in capsys.readouterr().err
    assert main(["check", str(shop.version()), "--live", "--table", "other", "--dynamodb", shop.url]) == 2
    assert "there is no table 'other'" in capsys.readouterr().err

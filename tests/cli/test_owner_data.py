"""`baton export` and `baton forget`: the data of an owner (docs/operating.md, The data of an owner)."""

import json
import os
import re
from typing import Any

import pytest

from mcp_baton.approvals.record import ApprovalRecord, ApprovalState, Decision
from mcp_baton.aws import dynamodb_store
from mcp_baton.cli.app import main
from mcp_baton.exceptions import TaskNotFound
from mcp_baton.settings import Settings
from mcp_baton.stores import DynamoDBStore
from mcp_baton.tasks.ids import new_question
from mcp_baton.tasks.record import Claim, JobSpec, NewTask
from mcp_baton.tasks.store import Batch, CallbackTarget, Start
from tests.cli.conftest import Baton, Shop

KIM, OTHER_OWNERS = "kim", ("ann", "kim#00", "kim#", "ki")
LARGE = os.urandom(200_000).hex()
FORGET = ("forget", "--owner", KIM, "--yes")


def items(shop: Shop) -> list[dict[str, Any]]:
    table_items: list[dict[str, Any]] = shop.store.table.connection.client().scan(TableName=shop.table)["Items"]
    return table_items


def store_items(shop: Shop, store: DynamoDBStore, owner: str) -> str:
    """Store an item of each kind for an owner. Return the id of the owner's task with a large value."""
    task = store.create(
        NewTask(owner, {"large": LARGE, "note": f"of {owner}"}, workflow="flow", arguments={"order": 1})
    )
    work = JobSpec("report", request_id="1", scopes=("read",), capabilities={"elicitation": {}})
    job = store.create(NewTask(owner, {}, arguments={"month": "May"}, work=work))
    claim = Claim("c", store.now_ms() + 60_000)
    claimed_job = store.jobs.claim(owner, job.task_id, claim, 1)
    store.jobs.ask(claimed_job, claim, {"sure": {"method": "elicitation/create", "params": {"message": "Sure?"}}})
    pointer = CallbackTarget(owner, task.task_id, "signed")
    store.callbacks.add(f"digest of an address {owner}", pointer, store.now_ms() + 60_000)
    store.starts.begin(owner, f"digest of a call {owner}", Start(task.task_id, 1, store.now_ms()), None)
    question = new_question()
    store.answers.ask(owner, question, 60)
    store.answers.answer(owner, question, {"content": {"name": "Kim"}})
    for number, task_id in enumerate((task.task_id, None)):
        approval = ApprovalRecord(
            "",
            f"{owner} {number}".encode().hex().ljust(64, "0"),
            ApprovalState.WAITING,
            "refund",
            {"amount": 30},
            "Refund EUR 30?",
            "refunds",
            owner,
            store.now_ms(),
            store.now_ms() + 60_000,
            task_id=task_id,
        )
        record, _ = store.approvals.ask(approval, 0)
        store.approvals.add_link(record, f"digest of a token {owner} {number}")
        if number:
            store.approvals.decide(record, Decision(True, record.digest, "boss", "api"))
    return task.task_id


def with_limit(shop: Shop) -> DynamoDBStore:
    """Return the shop's store with a limit on live tasks."""
    settings = Settings(table=shop.table, max_tasks_per_owner=100)
    store = dynamodb_store(shop.table, settings, connect=shop.store.table.connection.client)
    assert isinstance(store, DynamoDBStore)
    return store


def export_lines(baton: Baton, owner: str = KIM) -> list[dict[str, Any]]:
    code, output, _ = baton("export", "--owner", owner)
    assert code == 0
    return [json.loads(line) for line in output.splitlines()]


def test_all_data_of_an_owner_is_exported(shop: Shop, baton: Baton) -> None:
    store = with_limit(shop)
    tasks = {owner: store_items(shop, store, owner) for owner in (KIM, *OTHER_OWNERS)}

    rows = export_lines(baton)

    assert (
        " ".join(sorted(row["kind"] for row in rows)) == "approval approval callback link link question start task task"
    )
    [task] = [row for row in rows if row.get("workflow") == "flow"]
    assert (task["task_id"], task["owner"], task["arguments"]) == (tasks[KIM], KIM, {"order": 1})
    assert task["variables"] == {"large": LARGE, "note": "of kim"}
    [job] = [row for row in rows if row.get("job")]
    assert (job["arguments"], job["status"]) == ({"month": "May"}, "input_required")
    assert (job["job"]["work"]["scopes"], job["job"]["asked"]["sure"]["params"]) == (["read"], {"message": "Sure?"})
    assert [row["answer"] for row in rows if row["kind"] == "question"] == [{"content": {"name": "Kim"}}]
    approvals = [row for row in rows if row["kind"] == "approval"]
    assert {row["state"]: (row["owner"], row["arguments"]) for row in approvals} == dict.fromkeys(
        ("waiting", "approved"), (KIM, {"amount": 30})
    )
    assert {row["approvalId"] for row in rows if row["kind"] == "link"} == {row["approvalId"] for row in approvals}


def test_a_lost_value_is_exported_with_the_reason(shop: Shop, baton: Baton) -> None:
    store_items(shop, shop.store, KIM)
    for item in items(shop):
        if item["sk"]["S"] == "VALUE":
            shop.store.table.delete({"pk": item["pk"], "sk": item["sk"]})
    [task] = [line for line in export_lines(baton) if line.get("workflow") == "flow"]
    assert task["variables"]["note"] == "of kim"
    assert "missing" in task["variables"]["large"]["error"]


def test_all_data_of_an_owner_is_deleted_and_no_data_of_others(shop: Shop, baton: Baton) -> None:
    store = with_limit(shop)
    for owner in OTHER_OWNERS:
        store_items(shop, store, owner)
    other_items = items(shop)
    store_items(shop, store, KIM)

    code, output, _ = baton(*FORGET)

    expected = {
        "approvals without arguments": 2,
        "callbacks": 1,
        "counts": 3,
        "links": 2,
        "questions": 1,
        "starts": 1,
        "tasks": 2,
        "values": 1,
    }
    counts = {label.removesuffix(" deleted"): int(number) for label, number in re.findall(r"([\w ]+): (\d+)", output)}
    assert (code, {label.strip(): number for label, number in counts.items()}) == (0, expected)
    remaining_items = [row for row in items(shop) if row not in other_items]
    assert len(remaining_items) == 2
    assert other_items == [row for row in items(shop) if row not in remaining_items]
    approvals = {row["state"]: row for row in export_lines(baton)}
    assert approvals.keys() == {"withdrawn", "approved"}
    assert [(row["arguments"], row["message"], len(row["digest"])) for row in approvals.values()] == [({}, "", 64)] * 2
    assert approvals["approved"]["decidedBy"] == "boss"

    assert baton(*FORGET)[:2] == (0, "nothing was deleted\n")


def test_an_interrupted_deletion_is_completed_by_the_next_one(shop: Shop, baton: Baton) -> None:
    for _ in range(3):
        shop.store.create(NewTask(KIM, {"large": LARGE}, workflow="flow"))
    shop.requests.limits["DeleteItem"] = 4
    code, output, _ = baton(*FORGET)
    assert code == 4
    assert sum(map(int, re.findall(r"deleted: (\d+)", output))) == 4
    shop.requests.limits.clear()
    assert baton(*FORGET)[0] == 0
    assert items(shop) == []


def test_a_late_run_of_a_deleted_task_stores_nothing(shop: Shop, baton: Baton) -> None:
    task = shop.store.create(NewTask(KIM, {}, workflow="flow"))
    baton(*FORGET)
    with pytest.raises(TaskNotFound):
        shop.store.write(task, Batch(variables={"late": 1}))
    assert items(shop) == []


def test_nothing_is_deleted_without_yes(shop: Shop, baton: Baton, capsys: pytest.CaptureFixture[str]) -> None:
    store_items(shop, shop.store, KIM)
    items_before = items(shop)
    code, _, err = baton(*FORGET[:-1])
    assert (code, "add --yes" in err) == (2, True)
    assert items(shop) == items_before
    assert main(["forget", "--yes", "--table", shop.table]) == 2
    assert "--owner" in capsys.readouterr().err
    assert baton("forget", "--yes", "--owner", "")[::2] == (2, "baton: --owner is empty: name the owner\n")

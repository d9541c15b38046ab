"""`baton export` and `baton forget`: the data of an owner (docs/operating.md, The data of an owner)."""

import json
import os
import re
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from emulators.s3 import Bucket
from mcp_baton.aws import dynamodb_store
from mcp_baton.cli.app import main
from mcp_baton.exceptions import TaskNotFound
from mcp_baton.settings import Settings
from mcp_baton.tasks.approvals import ApprovalRecord, ApprovalState, Decision
from mcp_baton.tasks.callbacks import Pointer
from mcp_baton.tasks.dynamodb.store import DynamoDBTaskStore
from mcp_baton.tasks.ids import new_question
from mcp_baton.tasks.record import Claim, JobSpec, NewTask
from mcp_baton.tasks.store import Batch
from tests.e2e.operators.conftest import Baton, Shop

KIM, OTHERS = "kim", ("ann", "kim#00", "ki")
LARGE = os.urandom(200_000).hex()
FORGET = ("forget", "--owner", KIM, "--yes")


@pytest.fixture
def bucket(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """A bucket in moto's S3 that is named in the environment."""
    del shop  # this fixture resets the environment
    with mock_aws():
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        client = boto3.client("s3")
        client.create_bucket(Bucket="overflow")
        monkeypatch.setenv("BATON_OVERFLOW_BUCKET", "overflow")
        yield Bucket(client, "overflow")


def items(shop: Shop) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = shop.store.table.connection.client().scan(TableName=shop.table)["Items"]
    return found


def stored(shop: Shop, store: DynamoDBTaskStore, owner: str) -> str:
    """Store an item of each kind for an owner. Return the id of the owner's task with a large value."""
    task = store.create(
        NewTask(owner, {"large": LARGE, "note": f"of {owner}"}, workflow="flow", arguments={"order": 1})
    )
    work = JobSpec("report", request_id="1", scopes=("read",), capabilities={"elicitation": {}})
    job = store.create(NewTask(owner, {}, arguments={"month": "May"}, work=work))
    claim = Claim("c", store.now_ms() + 60_000)
    claimed = store.jobs.claim(owner, job.task_id, claim, 1)
    store.jobs.ask(claimed, claim, {"sure": {"method": "elicitation/create", "params": {"message": "Sure?"}}})
    pointer = Pointer(owner, task.task_id, "signed")
    store.callbacks.add(f"digest of an address {owner}", pointer, store.now_ms() + 60_000)
    question = new_question()
    store.answers.ask(owner, question, 60)
    store.answers.answer(owner, question, {"content": {"name": "Kim"}})
    for place, task_id in enumerate((task.task_id, None)):
        asked = ApprovalRecord(
            "",
            f"{owner} {place}".encode().hex().ljust(64, "0"),
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
        record, _ = store.approvals.ask(asked, 0, is_limited=False)
        store.approvals.add_link(record, f"digest of a token {owner} {place}")
        if place:
            store.approvals.decide(record, Decision(True, record.digest, "boss", "api"))
    return task.task_id


def with_limit(shop: Shop, bucket: str | None = None) -> DynamoDBTaskStore:
    """Return the shop's store with a limit on live tasks and a bucket."""
    chosen = Settings(table=shop.table, max_tasks_per_owner=100, overflow_bucket=bucket)
    made = dynamodb_store(shop.table, chosen, connect=shop.store.table.connection.client)
    assert isinstance(made, DynamoDBTaskStore)
    return made


def exported(baton: Baton, owner: str = KIM) -> list[dict[str, Any]]:
    code, out, _ = baton("export", "--owner", owner)
    assert code == 0
    return [json.loads(line) for line in out.splitlines()]


def test_all_data_of_an_owner_is_exported(shop: Shop, baton: Baton) -> None:
    store = with_limit(shop)
    tasks = {owner: stored(shop, store, owner) for owner in (KIM, *OTHERS)}

    lines = exported(baton)

    kinds = "approval approval callback link link question task task"
    assert sorted(it["kind"] for it in lines) == kinds.split()
    [task] = [it for it in lines if it.get("workflow") == "flow"]
    assert (task["task_id"], task["owner"], task["arguments"]) == (tasks[KIM], KIM, {"order": 1})
    assert task["variables"] == {"large": LARGE, "note": "of kim"}
    [job] = [it for it in lines if it.get("job")]
    assert (job["arguments"], job["status"]) == ({"month": "May"}, "input_required")
    assert (job["job"]["work"]["scopes"], job["job"]["asked"]["sure"]["params"]) == (["read"], {"message": "Sure?"})
    assert [it["answer"] for it in lines if it["kind"] == "question"] == [{"content": {"name": "Kim"}}]
    approvals = [it for it in lines if it["kind"] == "approval"]
    assert {it["state"]: (it["owner"], it["arguments"]) for it in approvals} == dict.fromkeys(
        ("waiting", "approved"), (KIM, {"amount": 30})
    )
    assert {it["approvalId"] for it in lines if it["kind"] == "link"} == {it["approvalId"] for it in approvals}


def test_a_lost_value_is_exported_with_the_reason(shop: Shop, baton: Baton) -> None:
    stored(shop, shop.store, KIM)
    for item in items(shop):
        if item["sk"]["S"] == "VALUE":
            shop.store.table.delete({"pk": item["pk"], "sk": item["sk"]})
    [task] = [it for it in exported(baton) if it.get("workflow") == "flow"]
    assert task["variables"]["note"] == "of kim"
    assert "missing" in task["variables"]["large"]["error"]


def test_all_data_of_an_owner_is_deleted_and_no_data_of_others(shop: Shop, baton: Baton) -> None:
    store = with_limit(shop)
    for owner in OTHERS:
        stored(shop, store, owner)
    others = items(shop)
    stored(shop, store, KIM)

    code, out, _ = baton(*FORGET)

    expected = {
        "approvals without arguments": 2,
        "callbacks": 1,
        "counts": 1,
        "links": 2,
        "questions": 1,
        "tasks": 2,
        "values": 1,
    }
    done = {what.removesuffix(" deleted"): int(number) for what, number in re.findall(r"([\w ]+): (\d+)", out)}
    assert (code, {what.strip(): number for what, number in done.items()}) == (0, expected)
    left = [it for it in items(shop) if it not in others]
    assert len(left) == 2
    assert others == [it for it in items(shop) if it not in left]
    approvals = {it["state"]: it for it in exported(baton)}
    assert approvals.keys() == {"withdrawn", "approved"}
    assert [(it["arguments"], it["message"], len(it["digest"])) for it in approvals.values()] == [({}, "", 64)] * 2
    assert approvals["approved"]["decidedBy"] == "boss"

    assert baton(*FORGET)[:2] == (0, "nothing was deleted\n")


def test_an_interrupted_deletion_is_completed_by_the_next_one(shop: Shop, baton: Baton) -> None:
    for _ in range(3):
        shop.store.create(NewTask(KIM, {"large": LARGE}, workflow="flow"))
    shop.requests.most["DeleteItem"] = 4
    code, out, err = baton(*FORGET)
    assert code == 4
    assert re.search(r"--after \S+", err)
    assert sum(map(int, re.findall(r"deleted: (\d+)", out))) == 4
    shop.requests.most.clear()
    assert baton(*FORGET)[0] == 0
    assert items(shop) == []


def test_objects_in_the_bucket_are_exported_and_deleted(
    shop: Shop, bucket: Bucket, baton: Baton, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = with_limit(shop, bucket.name)
    stored(shop, store, "ann")
    [others] = bucket.keys
    stored(shop, store, KIM)
    assert len(bucket.keys) == 2

    assert [it["variables"]["large"] for it in exported(baton) if it.get("workflow") == "flow"] == [LARGE]
    monkeypatch.delenv("BATON_OVERFLOW_BUCKET")
    code, _, err = baton(*FORGET)
    assert (code, "set BATON_OVERFLOW_BUCKET" in err) == (2, True)
    assert len(bucket.keys) == 2

    monkeypatch.setenv("BATON_OVERFLOW_BUCKET", bucket.name)
    code, out, _ = baton(*FORGET)
    assert (code, "objects deleted: 1" in out) == (0, True)
    assert bucket.keys == [others]


def test_a_late_run_of_a_deleted_task_stores_nothing(shop: Shop, baton: Baton) -> None:
    task = shop.store.create(NewTask(KIM, {}, workflow="flow"))
    baton(*FORGET)
    with pytest.raises(TaskNotFound):
        shop.store.write(task, Batch(variables={"late": 1}))
    assert items(shop) == []


def test_nothing_is_deleted_without_yes(shop: Shop, baton: Baton, capsys: pytest.CaptureFixture[str]) -> None:
    stored(shop, shop.store, KIM)
    before = items(shop)
    code, _, err = baton(*FORGET[:-1])
    assert (code, "add --yes" in err) == (2, True)
    assert items(shop) == before
    assert main(["forget", "--yes", "--table", shop.table]) == 2
    assert "--owner" in capsys.readouterr().err

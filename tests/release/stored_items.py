"""Stores items of each kind with the current code: python -m tests.release.stored_items

This writes `items/VERSION.json`, as `make release` does. test_stored_items.py tests that the current code can use the
items of each release. The file of a released version never changes.
"""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest.mock import patch

from mcp_baton import (
    Approval,
    Argument,
    Context,
    Server,
    Settings,
    ToolStep,
    Wait,
    Workflow,
    prompt_arg,
    step,
    step_output,
)
from mcp_baton import wait_for_callback as wait
from mcp_baton.testing import Client, connect
from mcp_baton.testing.store import TABLE
from tests.memory_dynamodb import from_json, memory_database, to_json
from tests.release.changelog import project_version

ITEMS = Path(__file__).with_name("items")
OWNER, APPROVER = "kim", "ann"
DAY_MS = 86_400_000
SETTINGS = Settings(default_ttl_ms=DAY_MS)
NOTES = "".join(sha256(bytes([number])).hexdigest() for number in range(200))
"""A text that does not fit into a task's item, even compressed."""


def items_server() -> Server:
    """Return the server of the items. Stored tasks have fingerprints of its workflows: add to it, but change
    nothing.
    """
    server = Server("items", task_ids="text")

    @server.tool
    def fetch(order: str) -> dict[str, str]:
        """Fetch an order."""
        return {"order": order, "notes": NOTES if order == "large" else "short"}

    @server.tool
    def pay(notes: str) -> str:
        """Pay an order."""
        return f"paid after {len(notes)} characters"

    @server.tool(approval=Approval("refunds", message="Refund {notes}?", expires=timedelta(hours=12)))
    def refund(notes: str) -> str:
        """Refund an order."""
        return f"refunded {notes}"

    order = [Argument("order", required=True)]
    first, notes = (
        ToolStep("fetch", tool=fetch, arguments={"order": prompt_arg("order")}),
        step_output("fetch", "notes"),
    )
    for name, tool in (("buy", pay), ("return", refund)):
        last = ToolStep("last", tool=tool, arguments={"notes": notes})
        server.add_workflow(Workflow(name=name, description=name, arguments=order, steps=[first, last]))

    @server.tool
    def start_build(ctx: Context, branch: str) -> str:
        """Start a build."""
        ctx.callback_url("build")
        return branch

    @server.tool
    def deploy(url: str) -> str:
        """Deploy a build."""
        return f"deployed {url}"

    def released(branch: str) -> None:
        """Release a branch."""
        step(start_build)(branch=branch)
        build = wait("build", dict[str, str], within=timedelta(hours=12))
        step(deploy)(url=build["url"])

    server.workflow(name="release")(released)
    server.workflow(name="release_later", background=True)(released)
    night = Wait("night", sleep=timedelta(hours=8))
    morning = ToolStep("morning", tool=deploy, arguments={"url": prompt_arg("order")})
    alarm = Workflow(name="alarm", description="alarm", arguments=order, steps=[night, morning], background=True)
    server.add_workflow(alarm)

    @server.tool(task="optional")
    def report(ctx: Context, month: str) -> str:
        """Write a report."""
        if month == "unknown":
            answer = ctx.elicit("Which month?", str)
            month = str(answer.data) if answer.accepted else "none"
        return f"report of {month}"

    return server


@contextmanager
def connected_client(workers: str = "at once") -> Iterator[Client]:
    """Connect a client to the server, with an empty table in memory."""
    with (
        patch("mcp_baton.testing.connecting._database", memory_database),
        connect(items_server(), owner=OWNER, settings=SETTINGS, workers=workers) as client,  # type: ignore[arg-type]
    ):
        yield client


def store_one_of_each(client: Client) -> dict[str, str]:
    """Store a task of each kind. Return the ids of the tasks by kind."""
    approver = client.as_owner(APPROVER, scopes=["refunds"])
    tasks = {"completed": client.call_workflow("buy", {"order": "A-17"}).task_id}
    for kind, order in (("paused", "A-17"), ("large", "large"), ("cancelled", "A-17")):
        client.tool_raises("pay", "the bank is closed", times=1)
        tasks[kind] = client.call_workflow("buy", {"order": order}).task_id
    client.cancel(tasks["cancelled"])
    earlier_ids = {task.task_id for task in client.tasks()}
    with client.killed_after("pay"):
        client.call_workflow("buy", {"order": "A-17"})
    [tasks["killed"]] = {task.task_id for task in client.tasks()} - earlier_ids

    tasks["approved"] = client.call_workflow("return", {"order": "A-17"}).task_id
    [approval] = approver.approvals()
    approver.approve(approval["approvalId"])
    tasks["approval"] = client.call_workflow("return", {"order": "B-18"}).task_id
    tasks["callback"] = client.call_workflow("release", {"branch": "main"}).task_id

    for kind, tool, arguments in (
        ("background callback", "release_later", {"branch": "main"}),
        ("woken", "release_later", {"branch": "woken"}),
        ("sleep", "alarm", {"order": "A-17"}),
        ("question", "report", {"month": "unknown"}),
    ):
        tasks[kind] = client.start_task(tool, arguments).task_id
        client.run_worker()
    with client.killed_after("UpdateItem"):
        client.send_callback(tasks["woken"], "build", {"url": "https://builds.test/woken"})
    tasks["worker killed"] = client.start_task("report", {"month": "May"}).task_id
    with client.killed_after("report"):
        client.run_worker()
    tasks["job"] = client.start_task("report", {"month": "June"}).task_id
    client.waiting_events.clear()
    return tasks


def stored_release() -> dict[str, Any]:
    """Return the items that the current code stores, and the expected results of reading them."""
    with connected_client(workers="by hand") as client:
        tasks = store_one_of_each(client)
        pages = client.store.client.get_paginator("scan").paginate(TableName=TABLE)
        return {
            "at_ms": client.clock.now_ms(),
            "tasks": tasks,
            "statuses": {task.task_id: task.status for task in client.tasks()},
            "steps": {kind: client.task(tasks[kind]).steps for kind in ("completed", "paused", "large", "callback")},
            "items": json.loads(to_json([item for page in pages for item in page["Items"]])),  # type: ignore[arg-type]
        }


def put_items(client: Client, release: dict[str, Any]) -> None:
    """Store the items of a release in the client's table."""
    for item in from_json(json.dumps(release["items"]).encode()):
        client.store.client.put_item(TableName=TABLE, Item=item)


def main(version: str) -> None:
    logging.disable()  # do not log the calls that are killed
    (ITEMS / f"{version}.json").write_text(json.dumps(stored_release(), indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(project_version())

"""The current code reads, lists, resumes and ends the items that each release has stored (docs/upgrading.md)."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import time_machine

from mcp_baton.testing import Client
from tests.release.changelog import CHANGELOG, sections
from tests.release.stored_items import APPROVER, ITEMS, NOTES, connected_client, put_items, stored_release

CURRENT_CODE = "this code"
RELEASES = [CURRENT_CODE, *sorted(path.stem for path in ITEMS.glob("*.json"))]
NIGHT_S = 8 * 3_600 + 60
BODY: dict[str, Any] = {"url": "https://builds.test/7"}

type Release = dict[str, Any]


@pytest.fixture(scope="module", params=RELEASES)
def version(request: pytest.FixtureRequest) -> str:
    """What has stored the items: a version, or `CURRENT_CODE`."""
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def release(version: str) -> Release:
    """The items that a release has stored."""
    if version == CURRENT_CODE:
        return stored_release()
    content: Release = json.loads((ITEMS / f"{version}.json").read_text())
    return content


@pytest.fixture
def client(release: Release) -> Iterator[Client]:
    """A client of the owner, at the time at which the items were stored."""
    with time_machine.travel(release["at_ms"] / 1000), connected_client() as client:
        put_items(client, release)
        yield client


@pytest.fixture
def task(release: Release) -> Callable[[str], str]:
    """Return the id of the task of a kind."""
    return lambda kind: str(release["tasks"][kind])


def test_each_released_version_has_its_items() -> None:
    _, versions = sections(CHANGELOG.read_text())
    assert versions.keys() <= set(RELEASES)
    assert len(RELEASES) > 1


def test_items_of_each_kind_are_stored(release: Release) -> None:
    items = release["items"]
    kinds = {item["pk"]["S"].partition("#")[0] for item in items}
    outbox = [item for item in items if item.get("listed_in", {}).get("S", "").startswith("OUTBOX#")]

    assert kinds == {"OWNER", "VALUE", "APPROVAL", "APPROVALS", "CALLBACK", "START"}
    assert {"tool", "workflow"} <= {name for item in items for name in item}
    assert [("wakes" in item, "tool" in item) for item in outbox].count((True, False)) == 1
    assert len([item for item in outbox if "tool" in item]) == len(outbox) - 1 > 0
    assert {item["state"]["S"] for item in items if "state" in item} == {"waiting", "approved"}


def test_tasks_are_listed_with_their_statuses(client: Client, release: Release) -> None:
    assert {task.task_id: task.status for task in client.tasks()} == release["statuses"]
    assert set(release["tasks"].values()) <= release["statuses"].keys()


def test_tasks_are_read_with_their_steps(client: Client, release: Release, task: Callable[[str], str]) -> None:
    assert {kind: client.task(task(kind)).steps for kind in release["steps"]} == release["steps"]
    assert client.task(task("completed")).variables["_workflow.result.last"] == "paid after 5 characters"


def test_a_paused_task_is_resumed(client: Client, task: Callable[[str], str]) -> None:
    assert client.task(task("paused")).pause.type == "toolError"
    assert client.resume(task("paused")).completed
    assert client.calls("fetch") == []


def test_a_client_continues_cancels_and_completes_paused_tasks(client: Client, task: Callable[[str], str]) -> None:
    assert client.call_tool("pay", {"notes": "short"}, task=task("paused")).recorded
    assert client.cancel(task("large")).status == "cancelled"
    assert client.complete(task("callback"), {"content": []}).status == "completed"


def test_a_value_outside_the_tasks_item_is_read(client: Client, task: Callable[[str], str]) -> None:
    fetched: Any = client.task(task("large")).variables["_workflow.result.fetch"]
    assert fetched["notes"] == NOTES
    assert client.resume(task("large")).completed
    assert client.calls("pay") == [{"notes": NOTES}]


def test_a_killed_run_is_taken_over(client: Client, task: Callable[[str], str]) -> None:
    client.clock.advance(46)
    assert client.task(task("killed")).pause.type == "interrupted"
    assert client.resume(task("killed")).completed


def test_an_approval_is_listed_decided_and_used(client: Client, task: Callable[[str], str]) -> None:
    approver = client.as_owner(APPROVER, scopes=["refunds"])
    [approval] = approver.approvals()
    assert (approval["task"], approval["message"]) == (task("approval"), "Refund short?")
    approver.approve(approval["approvalId"])
    for kind in ("approval", "approved"):
        assert client.resume(task(kind)).completed
    assert client.calls("refund") == [{"notes": "short"}] * 2


def test_a_callback_is_accepted_at_its_address(client: Client, task: Callable[[str], str]) -> None:
    client.send_callback(task("callback"), "build", BODY)
    assert client.resume(task("callback")).completed
    assert client.calls("deploy") == [BODY]


def test_a_callback_wakes_a_background_task(client: Client, task: Callable[[str], str]) -> None:
    client.send_callback(task("background callback"), "build", BODY)
    client.clock.advance(60)
    assert client.task(task("background callback")).status == "completed"
    assert BODY in client.calls("deploy")


def test_sweeps_complete_the_tasks_in_the_outbox(client: Client, task: Callable[[str], str]) -> None:
    kinds = ("job", "worker killed", "woken", "sleep")
    assert [client.task(task(kind)).status for kind in kinds] == ["working"] * len(kinds)
    client.clock.advance(NIGHT_S)
    assert [client.task(task(kind)).status for kind in kinds] == ["completed"] * len(kinds)
    assert sorted(str(call["month"]) for call in client.calls("report")) == ["June", "May"]
    assert sorted(str(call["url"]) for call in client.calls("deploy")) == ["A-17", "https://builds.test/woken"]


def test_a_question_is_answered(client: Client, task: Callable[[str], str]) -> None:
    question = client.task(task("question"))
    assert question.status == "input_required"
    view: Any = question.shown
    [key] = view["inputRequests"]
    answer: Any = {"action": "accept", "content": {"value": "July"}}
    client.request("tasks/update", {"taskId": task("question"), "inputResponses": {key: answer}})
    client.clock.advance(60)
    answered_task = client.task(task("question"))
    assert (answered_task.status, "report of July" in str(answered_task.result)) == ("completed", True)

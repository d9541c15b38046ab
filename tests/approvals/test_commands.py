"""`baton approvals`, `approve` and `deny`, against `baton serve` in a process of its own (docs/approvals.md)."""

import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_baton.cli.app import main
from tests.serving import served

APP = Path(__file__).parent / "approvals_app.py"
BATON = Path(sys.executable).parent / "baton"

type Run = Callable[..., tuple[int, Any]]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("served") / "log"
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("BATON_APPROVERS", json.dumps({"refunds": ["kim"]}))
        with served([BATON, "serve", APP, "--port", "0", "--owner-header", "X-Owner"], log) as address:
            yield address


@pytest.fixture
def baton(url: str, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command against the server as an owner. Returns the exit code and the output, as JSON or as text."""

    def run(owner: str, command: str, *words: str, text: bool = False) -> tuple[int, Any]:
        options = ["--header", f"X-Owner: {owner}", *([] if text else ["--json"])]
        code = main([command, url, *words, *options])
        captured = capsys.readouterr()
        return code, captured.out + captured.err if text else json.loads(captured.out)

    return run


@pytest.fixture
def approval(baton: Run, request: pytest.FixtureRequest) -> str:
    order = request.node.name
    baton("ann", "call", "pay", f"order={order}", "amount=5")
    records = baton("kim", "approvals")[1]["approvals"]
    approval_id: str = next(record["approvalId"] for record in records if record["arguments"]["order"] == order)
    return approval_id


def test_a_person_sees_the_call_and_approves_it(
    baton: Run, approval: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    order = request.node.name
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("mcp_baton.cli.http_api.at_terminal", lambda: True)
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    code, output = baton("kim", "approve", approval, text=True)

    assert code == 0
    for expected in (
        f"Pay 5.0 EUR for {order}?",
        "pay",
        '"amount": 5.0',
        "ann",
        "Approve this call? [y/N]",
        "approved",
    ):
        assert expected in output
    assert baton("ann", "call", "pay", f"order={order}", "amount=5")[0] == 0
    record = baton("kim", "approvals", "--state", "approved")[1]["approvals"][0]
    assert (record["claimedClient"], record["usedBy"][:5]) == ("cli", "call:")


def test_a_workflow_shows_that_it_waits_for_an_approval_and_continues_after_it(
    baton: Run, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    order = request.node.name
    code, run_output = baton("ann", "run", "pay_order", f"order={order}", "amount=5", text=True)
    task = baton("ann", "tasks")[1]["tasks"][0]["taskId"]
    [approval] = [record for record in baton("kim", "approvals")[1]["approvals"] if record.get("task") == task]

    assert code == 3
    cause = "waits for an approval of refunds"
    for output in (run_output, baton("ann", "show", task, text=True)[1]):
        assert f"working, paused at pay: {cause}\n" in output
        assert "\nAfter the decision\n" in output
    assert "\nTo continue here after the decision, with" in run_output
    list_output = baton("ann", "tasks", text=True)[1]
    assert f"working, paused: {cause}  " in list_output
    baton("kim", "approve", approval["approvalId"], "--yes")
    assert baton("ann", "resume", task[:20])[0] == 0


def test_after_a_denial_the_command_that_ends_the_task_is_printed(
    baton: Run, url: str, request: pytest.FixtureRequest
) -> None:
    baton("ann", "run", "pay_order", f"order={request.node.name}", "amount=5")
    task = baton("ann", "tasks")[1]["tasks"][0]["taskId"]
    [approval] = [record for record in baton("kim", "approvals")[1]["approvals"] if record.get("task") == task]
    baton("kim", "deny", approval["approvalId"], "--yes")

    output = baton("ann", "resume", task, text=True)[1]
    assert f"To end it, with the same credentials: baton cancel {url} {task[:16]}" in output
    assert "baton resume" not in output


@pytest.mark.parametrize("answer", ["n\n", "\n", "approve\n"])
def test_a_decision_is_confirmed(baton: Run, approval: str, monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    monkeypatch.setattr("mcp_baton.cli.http_api.at_terminal", lambda: True)
    monkeypatch.setattr(sys, "stdin", io.StringIO(answer))

    assert baton("kim", "approve", approval, text=True)[0] == 1
    assert approval in baton("kim", "approvals", text=True)[1]


def test_a_reason_for_a_denial_needs_no_terminal(baton: Run, approval: str, request: pytest.FixtureRequest) -> None:
    code, record = baton("kim", "deny", approval, "--reason", "Never paid", "--yes")

    assert (code, record["state"], record["reason"]) == (0, "denied", "Never paid")
    assert "Never paid" in baton("ann", "call", "pay", f"order={request.node.name}", "amount=5", text=True)[1]


@pytest.mark.parametrize(
    ("owner", "suffix", "code", "problem"),
    [
        ("ann", "", 1, "The requester cannot decide an approval: another person has to. (403)"),
        ("lee", "", 1, "There is no such approval in your groups. (404)"),
        ("kim", "0", 1, "There is no such approval in your groups. (404)"),
    ],
)
def test_a_refused_decision_shows_the_reason(
    baton: Run, approval: str, owner: str, suffix: str, code: int, problem: str
) -> None:
    exit_code, output = baton(owner, "approve", approval + suffix, "--yes")

    assert (exit_code, output) == (code, {"error": {"message": problem}})


@pytest.mark.parametrize("approval_id", ["", "..", "a/b"])
def test_another_word_than_an_id_is_refused(baton: Run, approval_id: str) -> None:
    code, output = baton("kim", "deny", approval_id, "--yes")
    assert code == 2
    assert f"{approval_id!r} is not an approval's id" in output["error"]["message"]


def test_a_decided_approval_is_not_decided_again(baton: Run, approval: str) -> None:
    baton("kim", "approve", approval, "--yes")

    assert baton("kim", "deny", approval, "--yes")[1]["error"]["message"] == "It is approved already. (409)"


def test_without_a_terminal_a_decision_needs_yes(baton: Run, approval: str) -> None:
    assert "add --yes" in baton("kim", "approve", approval)[1]["error"]["message"]


def test_an_empty_list_prints_no_approvals(baton: Run) -> None:
    assert baton("lee", "approvals", text=True) == (0, "no approvals\n")


@pytest.mark.parametrize("columns", [80, 40])
def test_the_end_of_a_long_word_and_everything_after_it_are_on_the_screen(
    baton: Run, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    account = "A" * 700 + f"-END-{columns}"
    baton("ann", "call", "pay", f"order={account}", "amount=987654")
    approval_id = next(
        record["approvalId"]
        for record in baton("kim", "approvals")[1]["approvals"]
        if account in str(record["arguments"])
    )
    listed = baton("kim", "approvals", text=True)[1]
    assert approval_id in "".join(listed.split())
    assert "requested by" in listed
    _, output = baton("kim", "deny", approval_id, "--yes", text=True)
    assert max(map(len, output.splitlines())) <= columns
    words = "".join(output.split())

    assert account in words.partition("arguments")[2]
    assert '"amount":987654' in words

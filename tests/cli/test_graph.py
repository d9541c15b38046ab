"""`baton graph`: the chosen workflow, the format and the errors."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_baton.cli.app import main

ONE = """\
from mcp_baton import Argument, Server, ToolStep, Workflow, prompt_arg

server = Server("greeter", version="1.0.0")


@server.tool
def greet(name: str, tone: str) -> str:
    "Greet somebody."
    return name


server.add_workflow(
    Workflow(
        name="welcome",
        description="welcome somebody",
        arguments=[Argument("name", required=True)],
        steps=[ToolStep("greet", tool=greet, arguments={"name": prompt_arg("name")})],
    )
)
"""
ANOTHER = """
server.add_workflow(Workflow(name="farewell", description="say goodbye", steps=[ToolStep("greet", tool="greet")]))
"""


@pytest.fixture
def server_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file with a server, whose module is not imported yet."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    file = tmp_path / "greeter_to_draw.py"
    file.write_text(ONE)
    yield file
    sys.modules.pop(file.stem, None)


def test_the_only_workflow_is_drawn_as_mermaid_with_its_missing_arguments(
    server_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["graph", str(server_file)]) == 0

    printed = capsys.readouterr().out
    assert printed.startswith("flowchart TB\n")
    assert "1. greet<br/>calls greet<br/>pauses for tone" in printed


@pytest.mark.parametrize(
    ("addition", "arguments", "complaint"),
    [
        (ANOTHER, [], "several workflows: name one of welcome, farewell"),
        (ANOTHER, ["welcom"], "did you mean 'welcome'?"),
        (ANOTHER, ["refund"], "known are welcome, farewell"),
        ("server.workflows.clear()", [], "has no workflow: add one"),
        (ANOTHER.replace('"greet")', '"greeet")'), ["farewell"], "did you mean 'greet'?"),
    ],
)
def test_a_missing_or_unknown_workflow_is_an_error(
    server_file: Path, addition: str, arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server_file.write_text(ONE + addition)

    assert main(["graph", str(server_file), *arguments]) == 2

    captured = capsys.readouterr()
    assert complaint in captured.err
    assert captured.out == ""


WAITING = """\
from datetime import timedelta
from mcp_baton import Approval, Server, sleep_until, step, wait_for_callback

server = Server("shop", version="1.0.0")


@server.tool(approval=Approval("treasury", when=lambda **_: True))
def pay(amount: float) -> None:
    "Pay."


@server.tool
def send(amount: float) -> None:
    "Send."


@server.workflow
def order(amount: float) -> None:
    "Order."
    step(pay)(amount=amount)
    step(send, approval=Approval("mailers"))(amount=amount)
    wait_for_callback("delivered", bool, within=timedelta(hours=1))
    sleep_until("review", timedelta(days=1))
"""


def test_approvals_and_waits_are_pauses(server_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server_file.write_text(WAITING)

    assert main(["graph", str(server_file)]) == 0

    lines = re.findall(r'\["(\d\. .*)"\]:::pauses', capsys.readouterr().out)
    assert [line.partition("pauses for ")[2] for line in lines] == [
        "an approval by treasury, depending on its arguments",
        "an approval by mailers",
        "a callback",
        "a time",
    ]

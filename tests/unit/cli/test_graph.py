"""`baton graph`: the chosen workflow, the format and the errors."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_baton.cli.app import main

ROOT = Path(__file__).parents[3]
ONE = """\
from mcp_baton import Argument, Server, Step, Workflow, prompt_arg

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
        steps=[Step("greet", tool=greet, arguments={"name": prompt_arg("name")})],
    )
)
"""
ANOTHER = """
server.add_workflow(Workflow(name="farewell", description="say goodbye", steps=[Step("greet", tool="greet")]))
"""


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file with a server, whose module is not imported yet."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    file = tmp_path / "greeter_to_draw.py"
    file.write_text(ONE)
    yield file
    sys.modules.pop(file.stem, None)


def test_the_only_workflow_is_drawn_as_mermaid_with_its_missing_arguments(
    served: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["graph", str(served)]) == 0

    printed = capsys.readouterr().out
    assert printed.startswith("flowchart TB\n")
    assert "1. greet<br/>calls greet<br/>pauses for tone" in printed


def test_json_prints_one_document(served: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", str(served), "--json"]) == 0

    made = json.loads(capsys.readouterr().out)
    assert [node["id"] for node in made["nodes"]] == ["argument:name", "step:greet"]
    assert made["edges"] == [
        {"from": "argument:name", "to": "step:greet", "flow": "value", "argument": "name", "path": None}
    ]


@pytest.mark.parametrize(
    ("added", "arguments", "said"),
    [
        (ANOTHER, [], "several workflows: name one of welcome, farewell"),
        (ANOTHER, ["welcom"], "did you mean 'welcome'?"),
        (ANOTHER, ["refund"], "known are welcome, farewell"),
        ("server.workflows.clear()", [], "has no workflow: add one"),
        (ANOTHER.replace('"greet")', '"greeet")'), ["farewell"], "did you mean 'greet'?"),
    ],
)
def test_a_missing_or_unknown_workflow_is_an_error(
    served: Path, added: str, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    served.write_text(ONE + added)

    assert main(["graph", str(served), *arguments]) == 2

    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.out == ""


def drawn_in_a_process() -> str:
    """Return the drawing of the starter. A new process is needed, because other tests have loaded its modules."""
    command = [sys.executable, "-c", "import sys; from mcp_baton.cli.app import main; sys.exit(main())"]
    target = ["graph", "functions/mcp/app.py", "borrow"]
    done = subprocess.run([*command, *target], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout


def test_the_documentation_shows_the_graph_of_the_starter() -> None:
    page = (ROOT / "docs" / "commands.md").read_text()

    assert f"```mermaid\n{drawn_in_a_process()}```" in page

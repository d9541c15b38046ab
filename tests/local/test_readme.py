"""Statements of the README and of other pages that a test can check."""

import re
import shlex
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
from moto import mock_aws

from mcp_baton import Server
from mcp_baton.clients import dynamodb_client
from mcp_baton.local.loader import load
from mcp_baton.testing import Connect, JsonRpcError

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
TOOLS = (ROOT / "docs" / "tools.md").read_text()
LOCALLY = (ROOT / "docs" / "local.md").read_text()


def block(language: str, page: str = README) -> str:
    """Return the first code block of a page in this language. The default page is the README."""
    match = re.search(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert match is not None
    return match[1]


def test_the_server_in_twenty_lines_pauses_with_the_shown_handoff(tmp_path: Path, baton: Connect) -> None:
    code = block("python")
    file = tmp_path / "readme_server.py"
    file.write_text(code)

    run = baton(load(str(file), Server)).call_workflow("borrow", {"title": "Gathering Moss"})
    section = README.partition("\n## A server in twenty lines\n")[2]

    assert len([line for line in code.splitlines() if line]) < 20
    assert run.handoff.replace(run.task_id, "01m8…") == block("text", section).rstrip("\n")
    assert run.steps == {"find_book": "completed", "reader": "pending", "lend": "pending"}
    assert run.answer(reader="Kim").completed


def test_the_workflow_of_the_workflows_page_pauses_with_the_shown_handoff(tmp_path: Path, baton: Connect) -> None:
    page = (ROOT / "docs" / "workflows.md").read_text()
    file = tmp_path / "workflows_server.py"
    file.write_text(block("python", page))

    run = baton(load(str(file), Server)).call_workflow("refund_order", {"order_id": "A-17"})

    handoff = block("text", page.partition("\n## Pausing\n")[2]).rstrip("\n")
    assert run.text.replace(str(run.task_id), "01m8…") == handoff


@mock_aws
def test_the_client_of_the_storage_page_has_batons_timeouts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    file = tmp_path / "clients.py"
    file.write_text(block("python", (ROOT / "docs" / "storage.md").read_text()))
    clients: list[Any] = []

    run_path(str(file), {"server": None, "handler": lambda _server, dynamodb: clients.append(dynamodb)})

    [documented_client], default_client = clients, dynamodb_client()
    for name in ("connect_timeout", "read_timeout", "retries"):
        assert getattr(documented_client.meta.config, name) == getattr(default_client.meta.config, name)


def test_the_events_for_sam_local_exist() -> None:
    section = LOCALLY.partition("\n## Under `sam local`\n")[2]
    commands, text = re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    template = (ROOT / "template.yaml").read_text()
    lines = [shlex.split(line) for line in commands.splitlines()]

    # tests/deployed/test_sam_local.py runs these commands if Docker is available.
    assert [line[:3] for line in lines if line[0] == "sam"] == [
        ["sam", "build", "--parameter-overrides"],
        ["sam", "local", "invoke"],
        ["sam", "local", "start-api"],
    ]
    [invoke_command] = [line for line in lines if "invoke" in line]
    assert f"\n  {invoke_command[3]}:\n    Type: AWS::Serverless::Function\n" in template
    assert (ROOT / invoke_command[invoke_command.index("--event") + 1]).exists()
    assert "http://127.0.0.1:3000/mcp" in text


def test_the_server_of_the_tools_page_works(tmp_path: Path, baton: Connect) -> None:
    file = tmp_path / "tools_server.py"
    file.write_text(block("python", TOOLS))

    server = load(str(file), Server)

    assert list(server.tools) == ["refund", "chart"]
    assert server.tools["refund"].definition["annotations"] == {"destructiveHint": True}
    assert server.tools["chart"].mirrored == {("region",): "mcp-param-region"}
    assert list(server.completions) == [("docs://{topic}", "topic")]
    assert baton(server).get_prompt("greeting", {"name": "Kim"}).messages[1].role == "assistant"


def test_the_resource_of_the_tools_page_stays_in_its_folder(tmp_path: Path, baton: Connect) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", TOOLS, re.MULTILINE | re.DOTALL)
    code = "\n".join([blocks[0], *(block for block in blocks if "manual://" in block)])
    folder = tmp_path / "manual"
    (folder / "parts").mkdir(parents=True)
    (folder / "parts" / "belt.md").write_text("# Belt")
    (folder / "out").symlink_to(tmp_path)
    secret = tmp_path / "secret.md"
    secret.write_text("secret")
    file = tmp_path / "manual_server.py"
    file.write_text(code.replace("/var/task/manual", str(folder)))
    client = baton(load(str(file), Server))

    assert client.read_resource("manual://parts/belt.md").text == "# Belt"
    for path in ("../secret.md", "parts/%2e%2e/../secret.md", "..%2Fsecret.md", str(secret), "out/secret.md"):
        with pytest.raises(JsonRpcError) as error_info:
            client.read_resource(f"manual://{path}")
        assert "secret" not in str(error_info.value).replace(path, ""), path


def test_the_named_parameters_exist_in_the_template() -> None:
    template = (ROOT / "template.yaml").read_text()
    rows = re.findall(r"^\| (`[A-Z][A-Za-z]+`(?:, `[A-Z][A-Za-z]+`)*) \|", README, re.MULTILINE)
    names = [name for row in rows for name in re.findall(r"`(\w+)`", row)]

    assert names
    assert [name for name in names if f"\n  {name}:\n    Type: " not in template] == []

"""The wheel in its own environment, as a user without this repository uses it."""

import re
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.release.changelog import project_version
from tests.release.conftest import ROOT, Distributions, Environment, make_environment
from tests.serving import served

SHOP = """\
from mcp_baton import Server

server = Server("shop", version="1.0.0")


@server.tool
def price(article: str) -> int:
    \"\"\"What an article costs, in cents.\"\"\"
    return len(article) * 100
"""
CALL_SCRIPT = """\
import json, sys
from mcp_baton.aws import handler
from shop import server

class Context:
    aws_request_id = "1"
    function_name = "shop"
    memory_limit_in_mb = 128
    invoked_function_arn = "arn:aws:lambda:eu-west-1:123456789012:function:shop"
    def get_remaining_time_in_millis(self): return 30_000

call = {"name": "price", "arguments": {"article": "pen"}}
body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
event = json.load(open(sys.argv[1])) | {"body": json.dumps(body), "isBase64Encoded": False}
answer = handler(server)(event, Context())
print(json.loads(answer["body"])["result"]["structuredContent"])
"""
TYPED_SCRIPT = """\
from mcp_baton import Server
from mcp_baton.testing import connect

reveal_type(Server("shop", version="1.0.0").options.name)
with connect(Server("shop", version="1.0.0")) as client:
    reveal_type(client.call_tool("price", {}).is_error)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(SHOP)
    return tmp_path


def test_the_command_prints_the_version_without_extras(wheel_environment: Environment) -> None:
    assert wheel_environment.run("baton", "--version") == f"baton {project_version()}\n"
    assert "Usage: baton" in wheel_environment.run("baton", "--help")


def test_a_handler_needs_only_the_packages_own_dependencies(wheel_environment: Environment, project: Path) -> None:
    event = ROOT / "events" / "sample" / "tools-call.json"

    output = wheel_environment.run("python", "-c", CALL_SCRIPT, event, PYTHONPATH=str(project))

    assert output == "{'result': 300}\n"


def test_the_testing_client_needs_no_pytest(distributions: Distributions, project: Path, tmp_path: Path) -> None:
    environment = make_environment(tmp_path, f"{distributions.wheel}[local]")
    script = (
        "from importlib.util import find_spec\n"
        "from mcp_baton.testing import *\n"
        "from shop import server\n"
        "with connect(server) as client:\n"
        "    print(find_spec('pytest'), client.call_tool('price', {'article': 'pen'}).value)\n"
    )

    assert environment.run("python", "-c", script, PYTHONPATH=str(project)) == "None 300\n"


def test_a_type_checker_finds_the_types(wheel_environment: Environment, project: Path) -> None:
    (project / "typed.py").write_text(TYPED_SCRIPT)
    mypy: list[str | Path] = [
        ROOT / ".venv" / "bin" / "mypy",
        "--strict",
        "--python-executable",
        wheel_environment.programs / "python",
    ]

    process = subprocess.run(
        [*mypy, "--config-file", "", "--cache-dir", project / "cache", "typed.py"],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    assert re.findall(r'Revealed type is "(.+)"', process.stdout) == ["str", "bool"], process.stdout
    assert process.returncode == 0


def test_with_the_local_extra_the_command_serves_a_file(distributions: Distributions, project: Path) -> None:
    environment = make_environment(project, f"mcp-baton[local] @ {distributions.wheel.as_uri()}")
    command: list[str | Path] = [environment.programs / "baton", "serve", project / "shop.py", "--port", "0"]

    with served(command, project / "log") as url:
        response = httpx.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, timeout=60).json()

    assert [tool["name"] for tool in response["result"]["tools"]] == ["price"]

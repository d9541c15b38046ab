"""docs/hosts.md: its sources have addresses, its versions are those tested."""

import json
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/hosts.md").read_text()
CLIENTS = ROOT / "tests/clients"


def test_every_source_has_an_address_and_every_address_is_used() -> None:
    named = set(re.findall(r"\[([a-z0-9-]+)\](?![:(])", PAGE))
    addressed = dict(re.findall(r"^\[([a-z0-9-]+)\]: (\S+)$", PAGE, re.MULTILINE))
    assert named == addressed.keys()
    assert all(address.startswith("https://") for address in addressed.values())


@pytest.mark.parametrize("name", ["mcp", "fastmcp"])
def test_the_python_clients_have_the_versions_that_are_tested(name: str) -> None:
    project = tomllib.loads((CLIENTS / "pyproject.toml").read_text())["project"]
    [version] = [item.partition("==")[2] for item in project["dependencies"] if item.startswith(f"{name}==")]
    assert f"{'official Python SDK' if name == 'mcp' else 'FastMCP'} {version} |" in PAGE


def test_the_node_clients_have_the_versions_that_are_tested() -> None:
    versions = json.loads((CLIENTS / "package.json").read_text())["dependencies"]
    client, tasks, inspector = (
        versions[f"@modelcontextprotocol/{name}"] for name in ("client", "ext-tasks", "inspector")
    )
    assert f"official TypeScript SDK {client}, with ext-tasks {tasks} |" in PAGE
    assert f"MCP Inspector {inspector}, its command line |" in PAGE

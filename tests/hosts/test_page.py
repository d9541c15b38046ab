"""docs/hosts.md names the versions that the tests use."""

import json
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/hosts.md").read_text()
CLIENTS = ROOT / "tests/clients"


@pytest.mark.parametrize("name", ["mcp", "fastmcp"])
def test_the_page_names_the_tested_versions_of_the_python_clients(name: str) -> None:
    project = tomllib.loads((CLIENTS / "pyproject.toml").read_text())["project"]
    [version] = [item.partition("==")[2] for item in project["dependencies"] if item.startswith(f"{name}==")]
    assert f"{'official Python SDK' if name == 'mcp' else 'FastMCP'} {version} |" in PAGE


def test_the_page_names_the_tested_versions_of_the_node_clients() -> None:
    versions = json.loads((CLIENTS / "package.json").read_text())["dependencies"]
    client, tasks, inspector = (
        versions[f"@modelcontextprotocol/{name}"] for name in ("client", "ext-tasks", "inspector")
    )
    assert f"official TypeScript SDK {client}, with ext-tasks {tasks} |" in PAGE
    assert f"MCP Inspector {inspector}, its command line |" in PAGE

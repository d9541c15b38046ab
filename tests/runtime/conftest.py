"""An emulated Runtime API, and functions that run against it in their own processes."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from emulators.delivery import PATIENCE_S
from emulators.runtime_api import RuntimeApi

LAYER = Path(__file__).parents[2] / "layers" / "baton"
FUNCTIONS = Path(__file__).parent / "functions"


@dataclass(frozen=True, slots=True)
class Function:
    process: subprocess.Popen[bytes]
    log: Path

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(PATIENCE_S)


type Start = Callable[..., Function]
"""`start(handler, **environment)`; `command` replaces the default command."""


@pytest.fixture
def api() -> Iterator[RuntimeApi]:
    api = RuntimeApi()
    yield api
    api.close()


@pytest.fixture
def start(api: RuntimeApi, tmp_path: Path) -> Iterator[Start]:
    """Start functions. At the end of the test, stop them and print their logs."""
    with ExitStack() as functions:

        def start_function(handler: str, command: list[str] | None = None, **environment: str) -> Function:
            variables = {"AWS_LAMBDA_RUNTIME_API": api.address, "_HANDLER": handler, **environment}
            log = tmp_path / f"{handler}.log"
            return functions.enter_context(_running(command or streaming_command(), variables, log))

        yield start_function


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """A named pipe. A handler that opens it waits until the test opens it too."""
    path = tmp_path / "gate"
    os.mkfifo(path)
    return path


@pytest.fixture
def wrapper(tmp_path: Path) -> Path:
    """The exec wrapper in a layer as on Lambda: the wrapper at the top, packages under `python/`."""
    layer = tmp_path / "opt"
    (layer / "python").mkdir(parents=True)
    (layer / "python" / "mcp_baton").symlink_to(LAYER / "mcp_baton")
    wrapper = layer / "baton-runtime"
    wrapper.symlink_to(LAYER / "mcp_baton" / "transport" / "runtime" / "baton-runtime")
    return wrapper


def streaming_command() -> list[str]:
    """Return the exec wrapper's command that starts the runtime, without its changes of the path."""
    return [sys.executable, "-P", "-W", "error", "-m", "mcp_baton.transport.runtime"]


@contextmanager
def _running(command: list[str], variables: dict[str, str], log: Path) -> Iterator[Function]:
    inherited = {name: value for name, value in os.environ.items() if not _is_configuration(name)}
    # As on Lambda, there is no `~/.aws`.
    environment = {**inherited, "HOME": str(log.parent), "PYTHONPATH": str(FUNCTIONS), **variables}
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield Function(process, log)
    finally:
        process.kill()
        process.wait(PATIENCE_S)
        sys.stdout.write(log.read_text())


def _is_configuration(name: str) -> bool:
    """Return whether this machine's variable configures access to AWS or is a setting of Baton."""
    return name.startswith(("AWS_", "BATON_", "BOTO")) or name.upper().endswith(("_PROXY", "_CA_BUNDLE"))

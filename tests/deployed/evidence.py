"""What is printed when a test fails: what the function's containers, the twin and `sam` said."""

import time
from collections.abc import Iterator
from pathlib import Path

import docker
from docker.errors import DockerException

LINES = 80
LAMBDA = {"label": "ministack=lambda"}


class Evidence:
    """Logs that are watched, from the start of the test that runs on."""

    def __init__(self) -> None:
        self._read_to: dict[Path, int] = {}
        self._since = time.time()

    def watch(self, log: Path) -> None:
        """Print what this file has got during a test, if that fails."""
        self._read_to[log] = 0

    def begin(self) -> None:
        """A test begins."""
        self._since = time.time()
        self._read_to = {log: log.stat().st_size if log.exists() else 0 for log in self._read_to}

    def sections(self) -> Iterator[tuple[str, str]]:
        """Titles and texts; the latest of each."""
        for log, start in self._read_to.items():
            if log.exists():
                yield f"{log.name} during the test", tail(log.read_bytes()[start:])
        try:
            yield from self._containers()
        except DockerException as error:
            yield "containers", f"could not be asked: {error}"

    def _containers(self) -> Iterator[tuple[str, str]]:
        for container in docker.from_env().containers.list(all=True, filters=LAMBDA, ignore_removed=True):
            if said := container.logs(since=self._since):
                environment = dict(item.split("=", 1) for item in container.attrs["Config"]["Env"])
                yield f"container {container.name} of {environment['AWS_LAMBDA_FUNCTION_NAME']}", tail(said)


def tail(text: bytes) -> str:
    """The last lines."""
    return "\n".join(text.decode(errors="replace").splitlines()[-LINES:])

"""Collects what a failed test prints: the ends of the logs of the function's containers, the emulator and `sam`."""

from collections.abc import Iterator
from pathlib import Path

import docker
from docker.errors import DockerException

LINES = 80
LAMBDA = {"label": "ministack=lambda"}
LOG_FILES: list[Path] = []
"""The log files whose ends are printed."""


def sections() -> Iterator[tuple[str, str]]:
    yield from ((f"the end of {log.name}", tail(log.read_bytes())) for log in LOG_FILES if log.exists())
    try:
        for container in docker.from_env().containers.list(all=True, filters=LAMBDA, ignore_removed=True):
            environment = dict(item.split("=", 1) for item in container.attrs["Config"]["Env"])
            yield f"container {container.name} of {environment['AWS_LAMBDA_FUNCTION_NAME']}", tail(container.logs())
    except DockerException as error:
        yield "containers", f"could not be listed: {error}"


def tail(text: bytes) -> str:
    return "\n".join(text.decode(errors="replace").splitlines()[-LINES:])

"""What this machine has to have, and what it is: found once, said plainly where it is missing."""

import os
import platform
import socket
import sys
from pathlib import Path

import docker
from docker.errors import DockerException

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "examples" / "sample"
REGION = "eu-central-1"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": REGION}
ARCHITECTURES = {"x86_64": "x86_64", "AMD64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}
SAM_ENVIRONMENT = ROOT / "tests" / "sam" / ".venv"
NO_DOCKER = """\
These tests run the built function in containers, and no Docker daemon answers ({reason}).
On Debian or Ubuntu: apt-get install docker.io, then start it (systemctl start docker, or `dockerd &` as root).
Elsewhere: https://docs.docker.com/get-started/get-docker/"""


class NotHere(Exception):
    """Something that the tests need is missing; says how to get it."""


def docker_client() -> docker.DockerClient:
    """The Docker daemon.

    Raises:
        NotHere: none answers.
    """
    try:
        client = docker.from_env()
        client.ping()
    except DockerException as error:
        raise NotHere(NO_DOCKER.format(reason=error)) from error
    return client


def architecture() -> str:
    return ARCHITECTURES[platform.machine()]


def emulator() -> Path:
    """AWS's runtime interface emulator, out of the SAM CLI's package.

    Raises:
        NotHere: the SAM CLI is not installed.
    """
    pattern = f"lib/python*/site-packages/samcli/local/rapid/aws-lambda-rie-{architecture()}"
    found = next(SAM_ENVIRONMENT.glob(pattern), None)
    if found is None:
        raise NotHere("The SAM CLI is missing; get it with `uv sync --project tests/sam --frozen`")
    return found


def environment(**more: str) -> dict[str, str]:
    """This process's environment with credentials that are good for nothing but a twin.

    Without what `make` hands down: a `make` of the tests' own would take the tests' ARGS for its own.
    """
    left_out = ("AWS_", "MAKE", "MFLAGS", "ARGS")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    own = {"SAM_CLI_TELEMETRY": "0", "ARCHITECTURE": architecture(), **CREDENTIALS}
    # Seconds. `sam deploy` asks AWS every five, lest AWS refuse; a twin has a stack ready in less, and refuses nothing.
    own["SAM_CLI_POLL_DELAY"] = "0.2"
    if sys.version_info[:2] == (3, 13):
        own["PYTHON313"] = sys.executable
    return {**inherited, **own, **more}


def free_port() -> int:
    with socket.create_server(("0.0.0.0", 0)) as server:
        port: int = server.getsockname()[1]
        return port


if __name__ == "__main__":
    try:
        docker_client()
    except NotHere as missing:
        sys.exit(str(missing))

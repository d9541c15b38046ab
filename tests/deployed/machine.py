"""What the tests need from this machine. A missing program is reported with instructions to install it."""

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


class MissingRequirement(Exception):
    """Something that the tests need is missing. The message says how to install it."""


def docker_client() -> docker.DockerClient:
    try:
        client = docker.from_env()
        client.ping()
    except DockerException as error:
        raise MissingRequirement(NO_DOCKER.format(reason=error)) from error
    return client


def architecture() -> str:
    return ARCHITECTURES[platform.machine()]


def runtime_emulator() -> Path:
    """Return the path of AWS's runtime interface emulator, which the SAM CLI's package contains."""
    pattern = f"lib/python*/site-packages/samcli/local/rapid/aws-lambda-rie-{architecture()}"
    path = next(SAM_ENVIRONMENT.glob(pattern), None)
    if path is None:
        raise MissingRequirement("The SAM CLI is missing; get it with `uv sync --project tests/sam --frozen`")
    return path


def environment(**extra_variables: str) -> dict[str, str]:
    """Return this process's environment with credentials that only an emulator accepts.

    Variables that `make` sets are removed. Otherwise a `make` that the tests start would use the ARGS of the tests.
    """
    excluded = ("AWS_", "MAKE", "MFLAGS", "ARGS")
    inherited_variables = {name: value for name, value in os.environ.items() if not name.startswith(excluded)}
    test_variables = {"SAM_CLI_TELEMETRY": "0", "ARCHITECTURE": architecture(), **CREDENTIALS}
    # Seconds. `sam deploy` polls AWS every five seconds, to avoid throttling. The emulator deploys faster and has no
    # throttling.
    test_variables["SAM_CLI_POLL_DELAY"] = "0.2"
    if sys.version_info[:2] == (3, 13):
        test_variables["PYTHON313"] = sys.executable
    return {**inherited_variables, **test_variables, **extra_variables}


def free_port() -> int:
    with socket.create_server(("0.0.0.0", 0)) as server:
        port: int = server.getsockname()[1]
        return port


if __name__ == "__main__":
    try:
        docker_client()
    except MissingRequirement as missing:
        sys.exit(str(missing))

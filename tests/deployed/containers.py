"""The containers that run a deployed function."""

import docker

from tests.deployed.deployment import Stack

REPORT_LINE = b"REPORT RequestId"
"""The emulator prints this at the end of an invocation."""


def containers_of(stack: Stack, *, worker: bool = False) -> list[docker.models.containers.Container]:
    """Return the running containers of the stack's function, or of its worker."""
    variable = f"AWS_LAMBDA_FUNCTION_NAME={stack.worker if worker else stack.outputs['FunctionName']}"
    containers = docker.from_env().containers.list(filters={"label": "ministack=lambda"})
    return [container for container in containers if variable in container.attrs["Config"]["Env"]]


def log_stream_of(container: docker.models.containers.Container) -> str:
    """Return the log stream name that the function in this container sees."""
    environment = dict(variable.split("=", 1) for variable in container.attrs["Config"]["Env"])
    name: str = environment["AWS_LAMBDA_LOG_STREAM_NAME"]
    return name


def request_counts_since(stack: Stack, moment: float) -> list[int]:
    """Return the number of requests that each container of the function has answered since `moment` (epoch seconds)."""
    counts = (container.logs(since=moment).count(REPORT_LINE) for container in containers_of(stack))
    return [count for count in counts if count]


def worker_logs(stack: Stack) -> str:
    return "\n".join(container.logs().decode() for container in containers_of(stack, worker=True))

"""The contenders of the benchmark. Each is started as Lambda starts it, in its own process."""

from dataclasses import dataclass, field, replace

from benchmarks.layers import LAYERS, interpreter
from emulators.gateway_requests import Probe, fixed, prompts_get, streamed_call, tools_call, tools_list

COMMON = {
    "AWS_ACCESS_KEY_ID": "benchmark",
    "AWS_SECRET_ACCESS_KEY": "benchmark",
    "AWS_DEFAULT_REGION": "eu-west-1",
    "AWS_EXECUTION_ENV": "AWS_Lambda_python3.13",
    "AWS_REGION": "eu-west-1",
    "AWS_LAMBDA_FUNCTION_NAME": "benchmark",
    "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1024",
    "HOME": "/nonexistent",  # no `~/.aws`, as on Lambda
    "LANG": "C.UTF-8",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
}
"""The whole environment of a function, so that this machine's variables do not affect the figures."""


@dataclass(frozen=True, slots=True)
class Contender:
    """One function.

    Attributes:
        name: Its name in the output.
        layer: The directory of its packages.
        handler: `module.function`.
        first: The request of the cold start.
        warm: The requests that are repeated afterwards, by name.
        functions: The directory of the function's own code.
        streaming: Whether it runs on Baton's streaming runtime.
        environment: More variables.
    """

    name: str
    layer: str
    handler: str
    first: Probe
    warm: dict[str, Probe]
    functions: str = "functions"
    streaming: bool = False
    environment: dict[str, str] = field(default_factory=dict)

    def command(self, *options: str) -> list[str]:
        """Return the command with which Lambda starts the function, with options for the interpreter."""
        if self.streaming:
            wrapper = str(LAYERS / self.layer / "baton-runtime")
            return [wrapper, interpreter(), *options, "/var/runtime/bootstrap.py"]
        return [interpreter(), "-P", *options, "-m", "awslambdaric", self.handler]

    def variables(self, runtime_api: str, dynamodb: str) -> dict[str, str]:
        """Return the environment of the function."""
        packages, code = str(LAYERS / self.layer / "python"), str(LAYERS / self.functions)
        paths = {"LAMBDA_TASK_ROOT": code} if self.streaming else {"PYTHONPATH": f"{code}:{packages}"}
        addresses = {"AWS_LAMBDA_RUNTIME_API": runtime_api, "AWS_ENDPOINT_URL_DYNAMODB": dynamodb}
        return {**COMMON, **addresses, "_HANDLER": self.handler, **paths, **self.environment}


def _floor(name: str, layer: str, handler: str, **environment: str) -> Contender:
    return Contender(name, layer, handler, fixed(), {"whole": fixed()}, environment=environment)


def _peer(name: str, layer: str) -> Contender:
    return Contender(name, layer, f"{layer}_peer.handler", tools_list(), {"tools/call whole": tools_call()})


def _baton(name: str, first: Probe, warm: dict[str, Probe]) -> Contender:
    return Contender(name, "baton", "baton_peer.handler", first, warm, streaming=True, environment=BATON)


def _models(name: str, first: Probe) -> Contender:
    return Contender(name, "baton", "models_peer.handler", first, {}, streaming=True, environment=BATON)


def _sample(name: str, first: Probe) -> Contender:
    handler = "app.lambda_handler"
    return Contender(name, "baton", handler, first, {}, functions="sample", streaming=True, environment=BATON)


DEPLOYED = {"PYDANTIC_DISABLE_PLUGINS": "__all__"}
"""A variable that `template.yaml` sets for everything that the function imports."""
BATON = {"BATON_TABLE": "tasks", "BATON_ALLOW_ANONYMOUS": "on", **DEPLOYED}
_DURABLE = prompts_get("sum", start="1")
BARE, DRESSED = "bare floor", "dressed floor"
LIST, DURABLE = "Baton, durable workflow, tools/list", "Baton, durable prompts/get"
AT_FIRST_USE = ", BATON_CONNECT=first"

CONTENDERS = (
    _floor(BARE, "floor", "bare.handler"),
    # Lambda always sets AWS_EXECUTION_ENV, which makes the standard client poll in a thread. This measures the cost of
    # that.
    _floor("bare floor, polling without a thread", "floor", "bare.handler", AWS_EXECUTION_ENV=""),
    _floor(DRESSED, "dressed", "dressed.handler"),
    Contender(
        "Baton's runtime, fixed answer",
        "baton",
        "bare_streamed.handler",
        replace(fixed(), streamed=True),
        {"streamed": replace(fixed(), streamed=True)},
        streaming=True,
    ),
    _peer("awslabs handler", "awslabs"),
    _peer("official SDK, Mangum", "official"),
    _peer("FastMCP, Mangum", "fastmcp"),
    Contender(
        "Baton, no workflow, tools/list",
        "baton",
        "plain_peer.handler",
        tools_list(),
        {"tools/call whole": tools_call(), "tools/call streamed": streamed_call()},
        streaming=True,
        environment=BATON,
    ),
    _baton(LIST, tools_list(), {}),
    _baton(DURABLE, _DURABLE, {"prompts/get whole": _DURABLE}),
    _sample("Baton's sample, tools/list", tools_list()),
    _sample("Baton's sample, durable prompts/get", prompts_get("refund_order", order_id="A-18")),
    _models("Baton, pydantic models, tools/list", tools_list()),
    _models("Baton, pydantic models, durable prompts/get", prompts_get("bill", order_id="A-18")),
)

FLOORS = (BARE, DRESSED)

IN_SHARES = tuple(
    replace(contender, name=contender.name + suffix, environment={**contender.environment, **environment})
    for contender in CONTENDERS
    if contender.name in (LIST, DURABLE)
    for suffix, environment in (("", {}), (AT_FIRST_USE, {"BATON_CONNECT": "first"}))
)
"""Contenders measured with a share of a processor: with the client created at initialisation, and at first use."""

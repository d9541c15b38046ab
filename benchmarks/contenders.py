"""Who takes part in the benchmark, and how each is started: as Lambda starts it, in a process of its own."""

from dataclasses import dataclass, field

from benchmarks.layers import LAYERS, interpreter
from benchmarks.requests import Event, prompts_get, tools_call, tools_list

_COMMON = {
    "AWS_ACCESS_KEY_ID": "benchmark",
    "AWS_SECRET_ACCESS_KEY": "benchmark",
    "AWS_DEFAULT_REGION": "eu-west-1",
    "AWS_REGION": "eu-west-1",
    "AWS_LAMBDA_FUNCTION_NAME": "benchmark",
    "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1024",
    "LANG": "C.UTF-8",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
}
"""The whole of a function's environment, so that nothing of this machine's leaks into a figure."""


@dataclass(frozen=True, slots=True)
class Contender:
    """One function.

    Attributes:
        name: As it is printed.
        layer: The directory of packages that it runs on.
        handler: `module.function`, in `benchmarks/functions`.
        first: The event of the cold start.
        warm: Events that are sent again and again afterwards, by what they are called.
        expected: What every answer must contain.
        streaming: Whether it runs on Baton's streaming runtime.
        environment: More variables.
    """

    name: str
    layer: str
    handler: str
    first: Event
    warm: dict[str, Event]
    expected: bytes
    streaming: bool = False
    environment: dict[str, str] = field(default_factory=dict)

    def command(self, *options: str) -> list[str]:
        """How Lambda starts the function, with options for the interpreter."""
        if self.streaming:
            wrapper = str(LAYERS / self.layer / "baton-runtime")
            return [wrapper, interpreter(), *options, "/var/runtime/bootstrap.py"]
        return [interpreter(), "-P", *options, "-m", "awslambdaric", self.handler]

    def variables(self, runtime_api: str, dynamodb: str) -> dict[str, str]:
        """The environment of the function."""
        packages, functions = str(LAYERS / self.layer / "python"), str(LAYERS / "functions")
        path = functions if self.streaming else f"{functions}:{packages}"
        where = {"LAMBDA_TASK_ROOT": functions} if self.streaming else {"PYTHONPATH": path}
        own = {"AWS_LAMBDA_RUNTIME_API": runtime_api, "AWS_ENDPOINT_URL_DYNAMODB": dynamodb, "_HANDLER": self.handler}
        return {**_COMMON, **own, **where, **self.environment}


_BATON = {"BATON_TABLE": "tasks", "BATON_ALLOW_ANONYMOUS": "on"}
_WHOLE = {"tools/call whole": tools_call()}
_FLOOR = {"whole": tools_call()}
_TOOLS = b"tools"

CONTENDERS = (
    Contender("bare floor", "floor", "bare.handler", tools_list(), _FLOOR, _TOOLS),
    Contender(
        "bare floor, polled as on AWS",
        "floor",
        "bare.handler",
        tools_list(),
        _FLOOR,
        _TOOLS,
        environment={"AWS_EXECUTION_ENV": "AWS_Lambda_python3.13"},
    ),
    Contender("dressed floor", "dressed", "dressed.handler", tools_list(), _FLOOR, _TOOLS),
    Contender("awslabs handler", "awslabs", "awslabs_peer.handler", tools_list(), _WHOLE, b"jsonrpc"),
    Contender("official SDK, Mangum", "official", "official_peer.handler", tools_list(), _WHOLE, b"jsonrpc"),
    Contender("FastMCP, Mangum", "fastmcp", "fastmcp_peer.handler", tools_list(), _WHOLE, b"jsonrpc"),
    Contender(
        "Baton tools/list",
        "baton",
        "baton_peer.handler",
        tools_list(),
        {**_WHOLE, "tools/call streamed": tools_call(progress=True)},
        b"jsonrpc",
        streaming=True,
        environment=_BATON,
    ),
    Contender(
        "Baton durable prompts/get",
        "baton",
        "baton_peer.handler",
        prompts_get(),
        {"prompts/get whole": prompts_get()},
        b"task_id",
        streaming=True,
        environment=_BATON,
    ),
)

FLOORS = ("bare floor", "dressed floor")

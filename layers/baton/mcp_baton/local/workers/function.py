"""The Lambda function of a worker process: its settings, and the handler that `_HANDLER` names."""

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Self

from msgspec.structs import replace

from mcp_baton.aws import LambdaContext, dynamodb_store, handler
from mcp_baton.local.dynamodb import http_client
from mcp_baton.local.loader import load
from mcp_baton.local.log import PLAIN, LogStyle
from mcp_baton.local.request_log import with_entries
from mcp_baton.local.workers.runtime_api import Invoker
from mcp_baton.server.server import Server
from mcp_baton.settings import Settings

VARIABLE = "BATON_LOCAL_WORKER"
"""The environment variable that contains the `Launch` of a worker process as JSON."""


@dataclass(frozen=True, slots=True)
class Launch:
    """The settings of a worker process.

    Attributes:
        target: `PATH[:ATTR]` of the server object.
        table: The table of the tasks.
        dynamodb: The URL of its DynamoDB.
        allow_anonymous: Whether callers without an identity are the owner `anonymous`.
        log: How the process logs.
        path: `sys.path` of `baton serve`, so that the file finds the same modules.
    """

    target: str
    table: str
    dynamodb: str
    allow_anonymous: bool
    log: LogStyle = PLAIN
    path: tuple[str, ...] = ()

    def variables(self, runtime_api: str) -> dict[str, str]:
        """Return the environment variables of a worker process, in addition to those of `baton serve`."""
        return {
            VARIABLE: json.dumps(asdict(self) | {"path": sys.path}),
            "AWS_LAMBDA_RUNTIME_API": runtime_api,
            "_HANDLER": f"{__name__}.lambda_handler",
        }

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> Self:
        """Read the settings of this process.

        Raises:
            KeyError: it is not a worker process of `baton serve`.
        """
        found = json.loads(env[VARIABLE])
        return cls(**{**found, "path": tuple(found["path"]), "log": LogStyle(**found["log"])})


def lambda_handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Run the task that an event names."""
    return _handler()(event, context)


@cache
def _handler() -> Callable[[dict[str, Any], LambdaContext], dict[str, Any]]:
    """Return the handler of the served server, over the same table.

    Raises:
        LoadError: the file has no server object.
        SettingsError: an environment variable has an invalid value.
    """
    launch = Launch.from_environment(os.environ)
    sys.path[:] = [*launch.path, *(entry for entry in sys.path if entry not in launch.path)]
    settings = replace(
        Settings.from_environment(os.environ),
        table=launch.table,
        allow_anonymous=launch.allow_anonymous,
        local_only=True,
        observed=False,
    )
    client = http_client(launch.dynamodb)
    store = dynamodb_store(launch.table, settings, connect=lambda: client)
    invoker = Invoker(os.environ["AWS_LAMBDA_RUNTIME_API"])
    return with_entries(handler(load(launch.target, Server), settings=settings, store=store, dispatcher=invoker))

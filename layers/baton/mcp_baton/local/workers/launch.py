"""What a worker process is told when it is started: in one variable of its environment, as JSON."""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Self

from mcp_baton.local.report.log import PLAIN, LogStyle

VARIABLE = "BATON_LOCAL_WORKER"


@dataclass(frozen=True, slots=True)
class Launch:
    """What a worker process serves.

    Attributes:
        target: `PATH[:ATTR]` of the server object.
        table: The table of the tasks.
        dynamodb: The URL of the DynamoDB that holds it.
        allow_anonymous: Whether callers without an identity are the owner `anonymous`.
        log: How the process logs: as `LogStyle`.
        path: `sys.path` of `baton serve`, so that the file finds what it finds there.
    """

    target: str
    table: str
    dynamodb: str
    allow_anonymous: bool
    log: LogStyle = PLAIN
    path: tuple[str, ...] = ()

    def variables(self, runtime_api: str) -> dict[str, str]:
        """The environment of a worker process, beside the one that `baton serve` has."""
        return {
            VARIABLE: json.dumps(asdict(self) | {"path": sys.path}),
            "AWS_LAMBDA_RUNTIME_API": runtime_api,
            "_HANDLER": "mcp_baton.local.workers.function.lambda_handler",
        }

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> Self:
        """What this process was told.

        Raises:
            KeyError: it is no worker process of `baton serve`.
        """
        told = json.loads(env[VARIABLE])
        return cls(**{**told, "path": tuple(told["path"]), "log": LogStyle(**told["log"])})

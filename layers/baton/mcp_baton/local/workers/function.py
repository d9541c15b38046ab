"""The Lambda function of a worker process: the composition root. Imported there alone; `_HANDLER` names it."""

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mcp_baton.aws import LambdaContext, dynamodb_store, handler
from mcp_baton.local.dynamodb import http_client
from mcp_baton.local.loader import load
from mcp_baton.local.report.requests import with_entries
from mcp_baton.local.workers.invoker import Invoker
from mcp_baton.local.workers.launch import Launch
from mcp_baton.server.server import Server
from mcp_baton.settings import Settings


def make(launch: Launch, runtime_api: str) -> Callable[[dict[str, Any], LambdaContext], dict[str, Any]]:
    """The handler of the server that is served, over the same table.

    Raises:
        LoadError: there is no server object to be had from the file.
        SettingsError: an environment variable holds a value that cannot be used.
    """
    sys.path[:] = [*launch.path, *(entry for entry in sys.path if entry not in launch.path)]
    environment = Settings.from_environment(os.environ)
    settings = replace(
        environment, table=launch.table, allow_anonymous=launch.allow_anonymous, local_only=True, observed=False
    )
    client = http_client(launch.dynamodb)
    store = dynamodb_store(launch.table, settings, connect=lambda: client)
    work = handler(load(launch.target, Server), settings=settings, store=store, dispatcher=Invoker(runtime_api))
    return with_entries(work)


lambda_handler = make(Launch.from_environment(os.environ), os.environ["AWS_LAMBDA_RUNTIME_API"])

"""The Lambda function of a worker process: the composition root. Imported there alone; `_HANDLER` names it."""

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from http.client import HTTPConnection, HTTPException
from typing import Any

from mcp_baton.aws import LambdaContext, dynamodb_store, handler
from mcp_baton.exceptions import NotDispatched
from mcp_baton.local.dynamodb import http_client
from mcp_baton.local.loader import load
from mcp_baton.local.report.requests import with_entries
from mcp_baton.local.workers.launch import Launch
from mcp_baton.local.workers.runtime_api import INVOCATIONS
from mcp_baton.protocol.json import JsonObject, dumps
from mcp_baton.server.server import Server
from mcp_baton.settings import Settings

TIMEOUT_S = 10.0


class Invoker:
    """Sends events to the queue that this process gets its own from.

    Args:
        address: `host:port` of the Runtime API, which takes events as well.
    """

    def __init__(self, address: str) -> None:
        self._address = address

    def dispatch(self, event: JsonObject) -> None:
        """Hand an event over.

        Raises:
            NotDispatched: it was not taken.
        """
        connection = HTTPConnection(self._address, timeout=TIMEOUT_S)
        try:
            connection.request("POST", INVOCATIONS, dumps(event).encode(), {"X-Amz-Invocation-Type": "Event"})
            reply = connection.getresponse()
            told = reply.read().decode().strip()
        except (OSError, HTTPException) as error:
            raise NotDispatched(f"the local server does not answer: {error}") from error
        finally:
            connection.close()
        if reply.status != 202:
            raise NotDispatched(f"the local server answered {reply.status}: {told}")


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

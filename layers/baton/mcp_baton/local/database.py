"""`baton dynamodb`: the embedded DynamoDB on a port, for functions in other processes, as those of `sam local`."""

import base64
import logging
import sys
from typing import TYPE_CHECKING, Any

from mcp_baton.local.engine_http import NO_SDK, answered_by
from mcp_baton.local.gateway import InvocationContext
from mcp_baton.local.httpd import Function, LambdaHandler
from mcp_baton.local.loopback import is_from_page
from mcp_baton.local.run import run
from mcp_baton.local.serve import bind, is_private
from mcp_baton.server.access import is_local_host

if TYPE_CHECKING:
    from mcp_baton.local.embedded import EmbeddedEngine

logger = logging.getLogger(__name__)

TIMEOUT_S = 60.0
CONTAINERS = "host.docker.internal"
"""This machine's name inside containers, as those of `sam local`."""

FOR_PROGRAMS = f"for programs alone, not for web pages: ask it as 127.0.0.1, localhost or {CONTAINERS}\n"


def serve_database(host: str, port: int, table: str) -> int:
    """Serve a DynamoDB that has the task table, until told to stop; the exit code. What it holds is gone then.

    Raises:
        SettingsError: moto, the engine, is not installed.
        ServeError: the address cannot be used.
    """
    from mcp_baton.local.dynamodb import create_table, embedded_client, embedded_engine

    engine = embedded_engine()
    create_table(embedded_client(engine), table)
    server = bind(host, port, Function(answering(engine), TIMEOUT_S))
    if not is_private(server):
        logger.warning("listening on %s: whoever reaches it may read and change every table", server.server_name)
    return run(server, lambda: _announce(server.server_port, table))


def answering(engine: "EmbeddedEngine") -> LambdaHandler:
    """The engine behind the local server, which hands each HTTP request on as a proxy event."""

    def answer(event: dict[str, Any], _context: InvocationContext) -> dict[str, Any]:
        headers = {name.lower(): ", ".join(values) for name, values in event["multiValueHeaders"].items()}
        if is_from_page(headers, _is_own):
            return {"statusCode": 403, "body": FOR_PROGRAMS}
        text = event["body"] or ""
        body = base64.b64decode(text) if event["isBase64Encoded"] else text.encode()
        answered = answered_by(engine, event["path"], event["headers"], body)
        if answered is None:
            return {"statusCode": 400, "body": NO_SDK}
        return {
            "statusCode": answered.status_code,
            "headers": dict(answered.headers),
            "body": base64.b64encode(answered.content).decode(),
            "isBase64Encoded": True,
        }

    return answer


def _is_own(host: str) -> bool:
    return is_local_host(host) or host.partition(":")[0] == CONTAINERS


def _announce(port: int, table: str) -> None:
    sys.stdout.write(f"DynamoDB is listening on http://127.0.0.1:{port} with the table {table}\n")
    sys.stdout.flush()

"""`baton serve`: the composition root of the local server (README.md, Test locally)."""

import errno
import logging
import os
import sys
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import TYPE_CHECKING

from mcp_baton.aws import dynamodb_store, handler
from mcp_baton.exceptions import BatonError, RegistrationError, SettingsError
from mcp_baton.local.httpd import Function, LocalServer
from mcp_baton.local.loader import load
from mcp_baton.local.run import run
from mcp_baton.server.methods.engine_host import START_MARGIN_MS
from mcp_baton.server.server import Server
from mcp_baton.settings import Settings

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

logger = logging.getLogger(__name__)

EMBEDDED = "embedded"


class ServeError(BatonError):
    """Serving cannot begin; says why, and what to do about it."""


@dataclass(frozen=True, slots=True)
class Options:
    """What `baton serve` was told on the command line.

    Attributes:
        target: `PATH[:ATTR]` of the server object.
        host: The address to listen on.
        port: Its port; 0 for a free one.
        dynamodb: `embedded`, or the URL of a DynamoDB.
        table: The table of the tasks, created where it is missing.
        owner_header: The header whose value is the owner; `None` for anonymous callers.
        timeout_s: Seconds that each invocation is given.
    """

    target: str
    host: str
    port: int
    dynamodb: str
    table: str
    owner_header: str | None
    timeout_s: float


def serve(options: Options) -> int:
    """Serve until told to stop; the exit code.

    Raises:
        LoadError: there is no server object to be had from the file.
        SettingsError: an environment variable holds a value that cannot be used, or no time is left for requests.
        ServeError: the database or the address cannot be used.
    """
    environment = Settings.from_environment(os.environ)
    settings = replace(environment, table=options.table, allow_anonymous=options.owner_header is None, local_only=True)
    _check_time(settings, options.timeout_s)
    server = load(options.target, Server)
    _check(server, options.target)
    client = _database(options.dynamodb, options.table)
    lambda_handler = handler(
        server, settings=settings, store=dynamodb_store(options.table, settings, connect=lambda: client)
    )
    local = bind(options.host, options.port, Function(lambda_handler, options.timeout_s, options.owner_header))
    if not is_private(local):
        logger.warning("listening on %s: whoever reaches it may call every tool, as any owner", local.server_name)
    return run(local, lambda: _announce(options.host, local.server_port))


def _check(server: Server, target: str) -> None:
    try:
        server.check()
    except RegistrationError as error:
        raise ServeError(f"{target} cannot be served:\n{error}") from error


def _check_time(settings: Settings, timeout_s: float) -> None:
    kept_ms = settings.write_reserve_ms + START_MARGIN_MS
    if timeout_s * 1000 <= kept_ms:
        raise SettingsError(
            f"--timeout {timeout_s:g} leaves no time to work: BATON_WRITE_RESERVE_MS={settings.write_reserve_ms} and "
            f"{START_MARGIN_MS} ms to start a step are kept back. Give more than {kept_ms / 1000:g} seconds, or lower "
            "BATON_WRITE_RESERVE_MS"
        )


def _database(where: str, table: str) -> "DynamoDBClient":
    from botocore.exceptions import BotoCoreError, ClientError

    from mcp_baton.local.dynamodb import create_table, embedded_client, http_client

    try:
        client = embedded_client() if where == EMBEDDED else http_client(where)
        create_table(client, table)
    except (BotoCoreError, ClientError, ValueError) as error:
        raise ServeError(f"the table {table!r} cannot be had from DynamoDB at {where}: {error}") from error
    return client


def bind(host: str, port: int, function: Function) -> LocalServer:
    """A server that listens.

    Raises:
        ServeError: the address cannot be had.
    """
    try:
        return LocalServer(host, port, function)
    except OSError as error:
        remedy = ": --port 0 takes a free one" if error.errno == errno.EADDRINUSE else ""
        # Python's own text names the address once more.
        reason = (error.strerror or str(error)).partition(" (while attempting")[0]
        raise ServeError(f"cannot listen on {host} port {port}: {reason}{remedy}") from error


def is_private(server: LocalServer) -> bool:
    """Whether this machine alone reaches a server."""
    return ip_address(server.server_name).is_loopback


def _announce(host: str, port: int) -> None:
    name = f"[{host}]" if ":" in host else host
    sys.stdout.write(f"Baton is listening on http://{name}:{port}/mcp\n")
    sys.stdout.flush()

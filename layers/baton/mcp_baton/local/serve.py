"""`baton serve`: the composition root of the local server (README.md, Test locally)."""

import errno
import logging
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import TYPE_CHECKING

from mcp_baton.aws import dynamodb_store, handler
from mcp_baton.exceptions import BatonError, RegistrationError, SettingsError
from mcp_baton.local.background import Background
from mcp_baton.local.httpd import Function, LocalServer
from mcp_baton.local.loader import load
from mcp_baton.local.run import GRACE_S, run
from mcp_baton.server.methods.engine_host import START_MARGIN_MS
from mcp_baton.server.server import Server
from mcp_baton.settings import Settings

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from mcp_baton.local.embedded import EmbeddedEngine
    from mcp_baton.local.workers.pool import Pool

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
        worker_timeout_s: Seconds that each invocation of a worker is given.
        retry_after_s: Seconds between the attempts at an event of a worker's; as many retries as there are numbers.
    """

    target: str
    host: str
    port: int
    dynamodb: str
    table: str
    owner_header: str | None
    timeout_s: float
    worker_timeout_s: float = 900.0
    retry_after_s: tuple[float, ...] = (60.0, 120.0)


@dataclass(frozen=True, slots=True)
class Database:
    """Where the tasks are kept.

    Attributes:
        client: A client for this process.
        url: Where other processes reach it. Called when it is first needed.
    """

    client: "DynamoDBClient"
    url: Callable[[], str]


def serve(options: Options) -> int:
    """Serve until told to stop; the exit code.

    Raises:
        LoadError: there is no server object to be had from the file.
        SettingsError: an environment variable holds a value that cannot be used, or no time is left for requests.
        ServeError: the database or the address cannot be used.
    """
    environment = Settings.from_environment(os.environ)
    settings = replace(environment, table=options.table, allow_anonymous=options.owner_header is None, local_only=True)
    settings = replace(settings, console=True)
    _check_time(settings, "--timeout", options.timeout_s)
    _check_time(settings, "--worker-timeout", options.worker_timeout_s)
    server = load(options.target, Server)
    _check(server, options.target)
    database = _database(options.dynamodb, options.table)
    background = Background(lambda: _pool(options, database))
    lambda_handler = handler(
        server,
        settings=settings,
        store=dynamodb_store(options.table, settings, connect=lambda: database.client),
        dispatcher=background,
    )
    local = bind(options.host, options.port, Function(lambda_handler, options.timeout_s, options.owner_header))
    if not is_private(local):
        logger.warning("listening on %s: whoever reaches it may call every tool, as any owner", local.server_name)
    # While the last requests are answered, workers get through as well.
    stopping = threading.Thread(target=background.stop, args=(GRACE_S,), name="stop workers")
    code = run(local, lambda: _announce(options.host, local.server_port), stopping.start)
    stopping.join()
    return code


def _pool(options: Options, database: Database) -> "Pool":
    """The workers. They load the same file, and reach the same table."""
    from mcp_baton.local.workers.launch import Launch
    from mcp_baton.local.workers.pool import Policy, Pool
    from mcp_baton.local.workers.queue import Retries

    def launch() -> Launch:
        return Launch(options.target, options.table, database.url(), allow_anonymous=options.owner_header is None)

    return Pool(launch, Policy(options.worker_timeout_s, Retries(options.retry_after_s)))


def _check(server: Server, target: str) -> None:
    try:
        server.check()
    except RegistrationError as error:
        raise ServeError(f"{target} cannot be served:\n{error}") from error


def _check_time(settings: Settings, option: str, timeout_s: float) -> None:
    kept_ms = settings.write_reserve_ms + START_MARGIN_MS
    if timeout_s * 1000 <= kept_ms:
        raise SettingsError(
            f"{option} {timeout_s:g} leaves no time to work: BATON_WRITE_RESERVE_MS={settings.write_reserve_ms} and "
            f"{START_MARGIN_MS} ms to start a step are kept back. Give more than {kept_ms / 1000:g} seconds, or lower "
            "BATON_WRITE_RESERVE_MS"
        )


def _database(where: str, table: str) -> Database:
    from botocore.exceptions import BotoCoreError, ClientError

    from mcp_baton.local.dynamodb import create_table, embedded_client, embedded_engine, http_client

    try:
        if where == EMBEDDED:
            engine = embedded_engine()
            database = Database(embedded_client(engine), lambda: _on_loopback(engine))
        else:
            database = Database(http_client(where), lambda: where)
        create_table(database.client, table)
    except (BotoCoreError, ClientError, ValueError) as error:
        raise ServeError(f"the table {table!r} cannot be had from DynamoDB at {where}: {error}") from error
    return database


def _on_loopback(engine: "EmbeddedEngine") -> str:
    """The URL of the DynamoDB in this process, for its workers."""
    from mcp_baton.local.engine_http import loopback_answer
    from mcp_baton.local.loopback import LoopbackServer

    return f"http://{LoopbackServer(loopback_answer(engine)).address}"


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

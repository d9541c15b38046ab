"""`baton serve`: the composition root of the local server (docs/local.md)."""

import errno
import logging
import os
import shlex
import sys
import threading
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_baton.aws import compose, dynamodb_store
from mcp_baton.exceptions import RegistrationError, SettingsError
from mcp_baton.local.background import Background
from mcp_baton.local.httpd import Function, LambdaHandler, LocalServer
from mcp_baton.local.loader import find, load
from mcp_baton.local.reload import Served, Watcher
from mcp_baton.local.report.log import PLAIN, LogStyle
from mcp_baton.local.report.requests import watched, with_refusals
from mcp_baton.local.run import GRACE_S, run
from mcp_baton.local.task_table import Database, ServeError, open_database
from mcp_baton.protocol.json import dumps
from mcp_baton.server.server import Server
from mcp_baton.server.workflows.engine_host import START_MARGIN_MS
from mcp_baton.settings import Settings

if TYPE_CHECKING:
    from mcp_baton.local.workers.pool import Pool

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Options:
    """What `baton serve` was told on the command line.

    Attributes:
        target: `PATH[:ATTR]` or `package.module[:ATTR]` of the server object.
        host: The address to listen on.
        port: Its port; 0 for a free one.
        dynamodb: `embedded`, or the URL of a DynamoDB.
        table: The table of the tasks, created where it is missing.
        owner_header: The header whose value is the owner; `None` for anonymous callers.
        timeout_s: Seconds that each invocation is given.
        data: The file that keeps the tasks of the embedded DynamoDB; `None` for none.
        reload: Whether the files are loaded anew when they change.
        log: How to log.
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
    data: Path | None = None
    reload: bool = False
    log: LogStyle = PLAIN


def serve(options: Options) -> int:
    """Serve until told to stop; the exit code.

    Raises:
        LoadError: there is no server object to be had from the file.
        DataFileError: the file of the tasks cannot be used.
        SettingsError: an environment variable holds a value that cannot be used, or no time is left for requests.
        ServeError: the database or the address cannot be used.
    """
    environment = Settings.from_environment(os.environ)
    _check_time(environment, "--timeout", options.timeout_s)
    _check_time(environment, "--worker-timeout", options.worker_timeout_s)
    find(options.target)
    database = open_database(options.dynamodb, options.table, options.data)
    try:
        return _serve_from(options, _settings(options, environment, database), database)
    finally:
        database.close()


def _settings(options: Options, environment: Settings, database: Database) -> Settings:
    """What the environment says, as far as it matters on a machine of one's own."""
    made = replace(
        environment,
        table=options.table,
        allow_anonymous=options.owner_header is None,
        local_only=True,
        observed=False,
        console=True,
    )
    if made.state_key is not None or made.state_key_secret is not None:
        return made
    # States that travel through clients stay good over a reload, and with a file over a restart.
    return replace(made, state_key=database.state_key or os.urandom(32))


def _serve_from(options: Options, settings: Settings, database: Database) -> int:
    background = Background(lambda: _pool(options, database))
    store = dynamodb_store(options.table, settings, connect=lambda: database.client)

    def make() -> LambdaHandler:
        server = load_checked(options.target)
        made = compose(server, settings, store=store, dispatcher=background, call_method=watched())
        return with_refusals(made)

    if options.reload:
        # A file that is changed twice in a second, and keeps its length, would be taken for its compiled first form.
        sys.dont_write_bytecode = True
    served = Served(make, background.renew)
    local = bind(options.host, options.port, Function(served, options.timeout_s, options.owner_header))
    if not is_private(local):
        logger.warning("listening on %s: whoever reaches it may call every tool, as any owner", local.server_name)
    watcher = Watcher(find(options.target).folder, served.look) if options.reload else None
    # While the last requests are answered, workers get through as well.
    stopping = threading.Thread(target=background.stop, args=(GRACE_S,), name="stop workers")
    code = run(local, lambda: _announce(options, local.server_port), stopping.start)
    if watcher is not None:
        watcher.stop()
    stopping.join()
    return code


def _pool(options: Options, database: Database) -> "Pool":
    """The workers. They load the same file, and reach the same table."""
    from mcp_baton.local.workers.launch import Launch
    from mcp_baton.local.workers.pool import Policy, Pool
    from mcp_baton.local.workers.queue import Retries

    def launch() -> Launch:
        anonymous = options.owner_header is None
        return Launch(options.target, options.table, database.url(), allow_anonymous=anonymous, log=options.log)

    return Pool(launch, Policy(options.worker_timeout_s, Retries(options.retry_after_s)))


def load_checked(target: str) -> Server:
    """The server that a target names, checked in full.

    Raises:
        LoadError: there is no server object to be had.
        ServeError: something that it publishes cannot work; says what and where, and what to write instead.
    """
    server = load(target, Server)
    try:
        server.check()
    except RegistrationError as error:
        from mcp_baton.local.checks.checking import server_faults

        first, *more = [*map(str, server_faults(server, find(target).folder))] or [str(error)]
        rest = f"\n{len(more)} more: baton check {shlex.quote(target)}" if more else ""
        raise ServeError(f"{first}{rest}") from error
    return server


def _check_time(settings: Settings, option: str, timeout_s: float) -> None:
    kept_ms = settings.write_reserve_ms + START_MARGIN_MS
    if timeout_s * 1000 <= kept_ms:
        raise SettingsError(
            f"{option} {timeout_s:g} leaves no time to work: BATON_WRITE_RESERVE_MS={settings.write_reserve_ms} and "
            f"{START_MARGIN_MS} ms to start a step are kept back. Give more than {kept_ms / 1000:g} seconds, or lower "
            "BATON_WRITE_RESERVE_MS"
        )


def bind(host: str, port: int, function: Function) -> LocalServer:
    """A server that listens.

    Raises:
        ServeError: the address cannot be had.
    """
    try:
        return LocalServer(host, port, function)
    except OSError as error:
        remedy = f": --port {port + 1} is another, --port 0 takes a free one" if error.errno == errno.EADDRINUSE else ""
        # Python's own text names the address once more.
        reason = (error.strerror or str(error)).partition(" (while attempting")[0]
        raise ServeError(f"cannot listen on {host} port {port}: {reason}{remedy}") from error


def is_private(server: LocalServer) -> bool:
    """Whether this machine alone reaches a server."""
    return ip_address(server.server_name).is_loopback


def _announce(options: Options, port: int) -> None:
    name = f"[{options.host}]" if ":" in options.host else options.host
    url = f"http://{name}:{port}/mcp"
    line = dumps({"event": "listening", "url": url}) if options.log.as_json else f"Baton is listening on {url}"
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()

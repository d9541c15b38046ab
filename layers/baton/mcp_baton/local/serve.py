"""`baton serve`: the composition root of the local server (docs/commands.md, Serve)."""

import logging
import os
import shlex
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mcp_baton.aws import compose, dynamodb_store
from mcp_baton.exceptions import BatonError, RegistrationError, SettingsError
from mcp_baton.local.clock import Clock
from mcp_baton.local.data_file import DataFile
from mcp_baton.local.dynamodb import create_table, embedded_client, embedded_engine, http_client
from mcp_baton.local.faults import Definitions
from mcp_baton.local.http_server import GRACE_S, LOOPBACK, Function, LambdaHandler, LocalServer, bind, dynamodb_app, run
from mcp_baton.local.loader import find, load
from mcp_baton.local.log import PLAIN, LogStyle
from mcp_baton.local.reload import ReloadingHandler, Watcher
from mcp_baton.local.request_log import with_refusal_log, with_request_log
from mcp_baton.local.worker_pool import Pool
from mcp_baton.local.worker_process import Launch
from mcp_baton.protocol.json import dumps
from mcp_baton.server.server import Server
from mcp_baton.settings import Settings, unknown_settings
from mcp_baton.workflow.engine_host import START_MARGIN_MS

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from mcp_baton.local.embedded import EmbeddedEngine
    from mcp_baton.local.gateway import InvocationContext

logger = logging.getLogger(__name__)

EMBEDDED = "embedded"


@dataclass(frozen=True, slots=True)
class Options:
    """The options of `baton serve` (docs/commands.md). `dynamodb` is `embedded` or a URL."""

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
    """Serve until a signal arrives. Return the exit code."""
    environment = Settings.from_environment(os.environ)
    _check_time(environment, "--timeout", options.timeout_s)
    _check_time(environment, "--worker-timeout", options.worker_timeout_s)
    for warning in unknown_settings(os.environ):
        logger.warning("%s", warning)
    find(options.target)
    with closing(open_database(options.dynamodb, options.table, options.data)) as database:
        return _serve_from(options, _settings(options, environment, database), database)


def _check_time(settings: Settings, option: str, timeout_s: float) -> None:
    reserved_ms = settings.write_reserve_ms + START_MARGIN_MS
    if timeout_s * 1000 <= reserved_ms:
        raise SettingsError(
            f"{option} {timeout_s:g} leaves no time to work: BATON_WRITE_RESERVE_MS={settings.write_reserve_ms} and "
            f"{START_MARGIN_MS} ms to start a step are reserved. Use more than {reserved_ms / 1000:g} seconds, or a "
            "lower BATON_WRITE_RESERVE_MS"
        )


def _settings(options: Options, environment: Settings, database: "Database") -> Settings:
    merged = replace(
        environment,
        table=options.table,
        allow_anonymous=options.owner_header is None,
        local_only=True,
        observed=False,
        console=True,
    )
    if merged.state_key is not None or merged.state_key_secret is not None:
        return merged
    # States that clients hold stay valid after a reload and, with a data file, after a restart.
    return replace(merged, state_key=database.state_key or os.urandom(32))


def _serve_from(options: Options, settings: Settings, database: "Database") -> int:
    # The address is known once a port is bound, and requests are served after the server is loaded.
    def invoke(event: dict[str, Any], context: "InvocationContext") -> dict[str, Any]:
        return current_handler(event, context)

    local = bind(options.host, options.port, Function(invoke, options.timeout_s, options.owner_header))
    settings = replace(settings, base_url=settings.base_url or _address(options.host, local.server_port))

    def launch() -> Launch:
        return Launch(options.target, options.table, database.url(), settings, options.log, tuple(sys.path))

    workers = Pool(launch, options.worker_timeout_s, options.retry_after_s)
    store = dynamodb_store(options.table, settings, connect=lambda: database.client)

    def make() -> LambdaHandler:
        server = load_checked(options.target)
        handler = compose(server, settings, store=store, dispatcher=workers, call_method=with_request_log())
        return with_refusal_log(handler)

    if options.reload:
        # Python would use the compiled old form of a file that changes twice within a second and keeps its length.
        sys.dont_write_bytecode = True
    try:
        current_handler = ReloadingHandler(make, workers.renew)
    except BaseException:
        local.server_close()
        raise
    if not local.is_private:
        logger.warning("listening on %s: everyone who can connect can call every tool as any owner", local.server_name)
    watcher = Watcher(find(options.target).folder, current_handler.reload_if_changed) if options.reload else None
    clock = Clock(current_handler, options.timeout_s) if settings.sweep else None
    # Workers may finish while the last requests are answered.
    stop_thread = threading.Thread(target=workers.stop, args=(GRACE_S,), name="stop workers")
    code = run(local, lambda: _announce(options, local.server_port), stop_thread.start)
    if watcher is not None:
        watcher.stop()
    if clock is not None:
        clock.stop()
    stop_thread.join()
    return code


def load_checked(target: str) -> Server:
    """Return the server that a target names, after a full check."""
    definitions = Definitions()
    server = load(target, Server, definitions)
    try:
        server.check()
    except RegistrationError as error:
        from mcp_baton.local.checking import server_faults

        first, *others = [*map(str, server_faults(server, definitions))] or [str(error)]
        hint = f"\n{len(others)} more: baton check {shlex.quote(target)}" if others else ""
        raise BatonError(f"{first}{hint}") from error
    return server


def _address(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _announce(options: Options, port: int) -> None:
    url = f"{_address(options.host, port)}/mcp"
    line = dumps({"event": "listening", "url": url}) if options.log.as_json else f"Baton is listening on {url}"
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


@dataclass(frozen=True, slots=True)
class Database:
    """The DynamoDB with the tasks. `url` is for other processes; `state_key` comes from the data file."""

    client: "DynamoDBClient"
    url: Callable[[], str]
    state_key: bytes | None = None
    close: Callable[[], None] = lambda: None


def open_database(location: str, table: str, data: Path | None) -> Database:
    """Return the DynamoDB, embedded or at a URL, with the task table, which is created if missing."""
    from botocore.exceptions import BotoCoreError, ClientError

    if data is not None and location != EMBEDDED:
        raise SettingsError("--data is for the embedded DynamoDB: omit --data or --dynamodb")
    try:
        if location == EMBEDDED:
            return _embedded(table, data)
        client = http_client(location)
        create_table(client, table)
    except (BotoCoreError, ClientError, ValueError) as error:
        raise BatonError(f"the table {table!r} is not available in DynamoDB at {location}: {error}") from error
    return Database(client, lambda: location)


def _embedded(table: str, data: Path | None) -> Database:
    file = None if data is None else DataFile(data)
    try:
        engine = embedded_engine(file)
        client = embedded_client(engine)
        create_table(client, table)
        if file is not None:
            _fill(engine, client, file, {table})
    except BaseException:
        if file is not None:
            file.close()
        raise

    @cache
    def url() -> str:
        return f"http://{LocalServer(LOOPBACK, 0, dynamodb_app(engine)).start().address}"

    return Database(client, url) if file is None else Database(client, url, file.state_key(), file.close)


def _fill(engine: "EmbeddedEngine", client: "DynamoDBClient", file: DataFile, tables: set[str]) -> None:
    """Put the items of the file into the engine, except expired ones: DynamoDB would have deleted them."""
    expired_keys: dict[tuple[str, str, str], None] = {}
    for table, item in file.items():
        if float(item.get("expires_at", {}).get("N", "inf")) <= time.time():
            expired_keys[table, item["pk"]["S"], item["sk"]["S"]] = None
            continue
        if table not in tables:
            create_table(client, table)
            tables.add(table)
        engine.put(table, item)
    try:
        file.write(expired_keys)
    except sqlite3.Error as error:
        logger.warning("expired tasks stay in the data file, which cannot be written: %s", error)

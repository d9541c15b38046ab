"""`baton serve`: the composition root of the local server (docs/commands.md, Serve)."""

import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from mcp_baton.aws import compose, dynamodb_store
from mcp_baton.exceptions import BatonError, SettingsError
from mcp_baton.local.checking import load_checked
from mcp_baton.local.clean_text import echo
from mcp_baton.local.dynamodb import create_table, embedded_client, embedded_engine, http_client
from mcp_baton.local.http_server import (
    EXIT_CODES,
    LOOPBACK,
    STOP_GRACE_S,
    HttpFunction,
    LocalServer,
    dynamodb_app,
    end_by_force,
    listen,
    run,
)
from mcp_baton.local.loader import find
from mcp_baton.local.log import LogLevel, log_to_stderr
from mcp_baton.local.request_log import logged_call, with_refusal_log, with_task_log
from mcp_baton.local.worker_pool import LocalClock, Pool
from mcp_baton.settings import Settings, unknown_settings
from mcp_baton.workflow.engine_host import START_MARGIN_MS

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from mcp_baton.local.gateway import InvocationContext

logger = logging.getLogger(__name__)

EMBEDDED = "embedded"
AGAIN: Final = "The server starts again when a Python file changes."

type Serve = Callable[[socket.socket], int]


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """The options of `baton serve` (docs/commands.md). `dynamodb` is `embedded` or a URL."""

    target: str
    host: str
    port: int
    dynamodb: str
    table: str
    owner_header: str | None
    timeout_s: float
    worker_timeout_s: float = 900.0
    reload: bool = False
    log_level: LogLevel = "info"


def serve(options: ServeOptions) -> int:
    """Serve until a signal arrives. Return the exit code."""
    environment = Settings.from_environment(os.environ)
    _check_time(environment, "--timeout", options.timeout_s)
    _check_time(environment, "--worker-timeout", options.worker_timeout_s)
    for warning in unknown_settings(os.environ):
        logger.warning("%s", warning)
    folder = find(options.target).folder
    # States that clients hold stay valid when the server restarts after a change.
    state_key = os.urandom(32)
    with listen(options.host, options.port) as listener:
        client, url = open_database(options.dynamodb, options.table)
        if not options.reload:
            return _serve_tasks(options, state_key, client, listener)
        child_options = replace(options, dynamodb=url(), port=listener.getsockname()[1])
        return _restart_on_changes(folder, options.log_level, listener, partial(_serve_again, child_options, state_key))


def _check_time(settings: Settings, option: str, timeout_s: float) -> None:
    reserved_ms = settings.write_reserve_ms + START_MARGIN_MS
    if timeout_s * 1000 <= reserved_ms:
        raise SettingsError(
            f"{option} {timeout_s:g} leaves no time to work: BATON_WRITE_RESERVE_MS={settings.write_reserve_ms} and "
            f"{START_MARGIN_MS} ms to start a step are reserved. Use more than {reserved_ms / 1000:g} seconds, or a "
            "lower BATON_WRITE_RESERVE_MS"
        )


def _settings(options: ServeOptions, state_key: bytes) -> Settings:
    settings = structs.replace(
        Settings.from_environment(os.environ),
        table=options.table,
        allow_anonymous=options.owner_header is None,
        local_only=True,
        observed=False,
        console=True,
    )
    has_key = settings.state_key is not None or settings.state_key_secret is not None
    return settings if has_key else structs.replace(settings, state_key=state_key)


def _serve_again(options: ServeOptions, state_key: bytes, listener: socket.socket) -> int:
    """Serve in a child process. `options` names the DynamoDB by its URL."""
    return _serve_tasks(options, state_key, http_client(options.dynamodb), listener)


def _serve_tasks(options: ServeOptions, state_key: bytes, client: "DynamoDBClient", listener: socket.socket) -> int:
    server, settings = load_checked(options.target), _settings(options, state_key)

    def invoke(event: dict[str, Any], context: "InvocationContext") -> dict[str, Any]:
        return handler(event, context)

    function = HttpFunction(invoke, options.timeout_s, options.owner_header)
    local = LocalServer(options.host, options.port, function, listener)
    host = f"[{options.host}]" if ":" in options.host else options.host
    address = f"http://{host}:{local.server_port}"
    settings = structs.replace(settings, base_url=settings.base_url or address)
    workers = Pool(with_task_log(invoke), options.worker_timeout_s)
    store = dynamodb_store(options.table, settings, connect=lambda: client)
    composed = compose(server, settings, store=store, dispatcher=workers, call_method=logged_call)
    handler = with_refusal_log(composed)
    if not local.is_private:
        logger.warning("listening on %s: everyone who can connect can call every tool as any owner", local.server_name)
    clock = LocalClock(handler, options.timeout_s) if settings.sweep else None
    # Workers may finish while the last requests are answered.
    stop_thread = threading.Thread(target=workers.stop, args=(STOP_GRACE_S,), name="stop workers")
    code = run(local, lambda: echo(f"Baton is listening on {address}/mcp"), stop_thread.start)
    if clock is not None:
        clock.stop()
    stop_thread.join()
    return code


def open_database(location: str, table: str) -> "tuple[DynamoDBClient, Callable[[], str]]":
    """Return a client of the DynamoDB, embedded or at a URL, and what returns its URL for other processes. The task
    table is created if missing."""
    from botocore.exceptions import BotoCoreError, ClientError

    if location == EMBEDDED:
        engine = embedded_engine()
        client = embedded_client(engine)
        create_table(client, table)
        return client, lambda: f"http://{LocalServer(LOOPBACK, 0, dynamodb_app(engine)).start().address}"
    try:
        client = http_client(location)
        create_table(client, table)
    except (BotoCoreError, ClientError, ValueError) as error:
        raise BatonError(f"the table {table!r} is not available in DynamoDB at {location}: {error}") from error
    return client, lambda: location


# `--reload`: the server is a child process, which restarts when a Python file changes. This process keeps the listening
# socket and the embedded DynamoDB, so that no connection is refused and no task is lost.


def _restart_on_changes(folder: Path, log_level: LogLevel, listener: socket.socket, serve: Serve) -> int:
    """Run `serve` in a child process, and again after each change of a Python file in the folder, until a signal.
    Return the exit code."""
    try:
        from watchfiles import PythonFilter, watch
    except ModuleNotFoundError as error:
        raise SettingsError("--reload needs the package 'watchfiles': install mcp-baton[local]") from error

    start = partial(_start, log_level, listener, serve)
    code = 0

    def interrupt(number: int, _frame: object) -> None:
        nonlocal code
        code = EXIT_CODES[signal.Signals(number)]
        raise KeyboardInterrupt

    # Both signals end `watch`, also if a shell has started this process with SIGINT ignored.
    for number in EXIT_CODES:
        signal.signal(number, interrupt)
    process = start()
    try:
        # Not `run_process`: it stops a child by SIGINT, for which a child that still starts prints a traceback.
        ended = None
        for changes in watch(
            folder, watch_filter=PythonFilter(), raise_interrupt=False, rust_timeout=1_000, yield_on_timeout=True
        ):
            if changes:
                logger.info("%s has changed: restarting", Path(min(changes)[1]).name)
                _stop(process)
                process = start()
            elif process.exitcode and process is not ended:  # a tool has ended it, such as by a crash in C
                ended = process
                logger.error("the server has ended with the exit code %s\n%s", process.exitcode, AGAIN)
    finally:
        _stop(process)
    return code


def _start(log_level: LogLevel, listener: socket.socket, serve: Serve) -> BaseProcess:
    process = multiprocessing.get_context("spawn").Process(target=_serve_in_child, args=(log_level, listener, serve))
    process.start()
    return process


def _stop(process: BaseProcess) -> None:
    process.terminate()
    # Requests and workers have one grace period, and the end of the process another one.
    process.join(2 * STOP_GRACE_S + 1)
    process.kill()
    process.join()


def _serve_in_child(log_level: LogLevel, listener: socket.socket, serve: Serve) -> None:
    log_to_stderr(log_level)
    # Python would use the compiled old form of a file that changes twice within a second and keeps its length.
    sys.dont_write_bytecode = True
    if hasattr(os, "setsid"):
        os.setsid()  # Ctrl-C reaches only the parent, which stops this process
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    try:
        end_by_force(serve(listener))
    except BatonError as error:
        logger.error("the server cannot be started: %s\n%s", error, AGAIN)  # noqa: TRY400 - the user needs the reason


def _end_with_parent() -> None:
    """End this process as soon as its parent has ended, even if that was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)

"""The connection to WHERE: a URL, a file or module that is served in this process, or the table of the tasks."""

import json
import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Any, Final

from mcp_baton.cli.options import ConnectionOptions, check_encryption
from mcp_baton.cli.remote.client import Receive, Remote
from mcp_baton.cli.remote.errors import protocol_error
from mcp_baton.cli.remote.printing import ProgressDisplay, short
from mcp_baton.cli.remote.questions import Terminal, at_terminal
from mcp_baton.exceptions import BatonError

if TYPE_CHECKING:
    from mcp_baton.cli.remote.http import HttpTransport
    from mcp_baton.testing.client import Client

UNUSABLE: Final = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Errors that an answer causes if its form is not MCP's. Answers are not validated against a schema."""

MAX_LOCAL_SLEEP_S: Final = 1.0


@contextmanager
def open_connection(
    connection: ConnectionOptions, *, for_tasks: bool = False, as_json: bool = False
) -> Iterator[Remote]:
    """Connect to the server at WHERE; with `--table`, to a server without tools for the tasks of an owner.

    Args:
        for_tasks: Whether the command is about existing tasks: a file would be served without tasks.
        as_json: Whether nothing is shown or asked.
    """
    progress = ProgressDisplay(shown=not as_json)
    terminal = Terminal(interactive=not as_json and at_terminal(), quiet=progress.stop)
    try:
        if connection.table is not None:
            from mcp_baton.cli.remote.table import table_tasks

            if connection.has_credentials:
                raise BatonError("--table uses AWS credentials: --api-key, --token, --aws and --header are for URLs")
            with table_tasks(connection.table, connection.owner, connection.dynamodb) as send:
                yield Remote(send, terminal, progress, time.sleep)
            return
        connection.check_where(may_be_target=not for_tasks)
        if connection.is_target:
            with _served_here(connection.where or "") as client:
                yield Remote(partial(_send_locally, client), terminal, progress, _sleeping(client), connection.where)
            return
        with open_http(connection) as server:
            yield Remote(server.send, terminal, progress, time.sleep)
    finally:
        progress.stop()


@contextmanager
def open_http(connection: ConnectionOptions, *, has_secret_path: bool = False) -> "Iterator[HttpTransport]":
    """Connect to the server at a URL. `has_secret_path` is whether a path of the requests is a credential. The block
    raises `Unreachable` if it cannot use an answer."""
    try:
        from mcp_baton.cli.remote.http import HttpTransport, access_of
    except ModuleNotFoundError as error:
        raise BatonError(
            f"a connection to a server needs the package {error.name!r}: install mcp-baton[local]"
        ) from error
    connection.check_where(may_be_target=False)
    access = access_of(connection)
    if has_secret_path:
        check_encryption(access.url, insecure_http=access.insecure_http)
    with closing(HttpTransport(access)) as server:
        try:
            yield server
        except UNUSABLE as error:
            frame = extract_tb(error.__traceback__)[-1]
            problem = short(f"{type(error).__name__}: {error}, {Path(frame.filename).name} line {frame.lineno}")
            raise protocol_error(f"{connection.where} gave an answer that cannot be used ({problem})") from error


@contextmanager
def _served_here(where: str) -> "Iterator[Client]":
    from mcp_baton.local.checking import load_checked
    from mcp_baton.local.log import TerminalHandler
    from mcp_baton.testing.connecting import connect

    # Without a handler, Python would print errors of tools with unsafe characters.
    logging.basicConfig(level=logging.WARNING, handlers=[TerminalHandler(sys.stderr, in_full=False, remedy="")])
    with connect(load_checked(where), owner="local") as client:
        yield client


def _sleeping(client: "Client") -> Callable[[float], None]:
    """Return a sleep after which background tasks that have become due continue, as with the clock of `baton serve`."""

    def sleep(seconds: float) -> None:
        # The server is in this process, so each poll may come early.
        time.sleep(min(seconds, MAX_LOCAL_SLEEP_S))
        client.clock.sweep()

    return sleep


def _send_locally(client: "Client", message: Mapping[str, Any], headers: Mapping[str, str], receive: Receive) -> int:
    """Send a message to a server in this process, and take the messages of its answer as they are made."""
    from mcp_baton.testing.wire import Stream

    response, _ = client.stage.function.invoke(client.wire.event(message, headers), Stream(receive).open)
    client.stage.worker.process_due()
    if response.get("body"):
        receive(json.loads(response["body"]))
    return int(response.get("statusCode", 200))

"""The connection to WHERE: a URL, or a file or module that is served in this process."""

import json
import logging
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from traceback import extract_tb
from typing import Any, Final

from mcp_baton.cli.options import ConnectionOptions
from mcp_baton.cli.remote.client import Receive, Remote
from mcp_baton.cli.remote.errors import protocol_error
from mcp_baton.cli.remote.printing import ProgressDisplay, short
from mcp_baton.cli.remote.questions import Terminal, at_terminal
from mcp_baton.exceptions import BatonError
from mcp_baton.local.log import TerminalHandler
from mcp_baton.testing.client import Client
from mcp_baton.testing.connecting import connect
from mcp_baton.testing.wire import Stream

UNUSABLE: Final = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Errors that an answer causes if its form is not MCP's. Answers are not validated against a schema."""


@contextmanager
def open_connection(
    connection: ConnectionOptions, *, for_tasks: bool = False, as_json: bool = False
) -> Iterator[Remote]:
    """Connect to the server at WHERE; with `--table`, to a server without tools for the tasks of an owner.

    Args:
        for_tasks: Whether the command is about existing tasks: a file would be served without tasks.
        as_json: Whether nothing is shown or asked.
    """
    where, progress = connection.where or "", ProgressDisplay(shown=not as_json)
    terminal = Terminal(interactive=not as_json and at_terminal(), quiet=progress.stop)
    try:
        if connection.table is not None:
            from mcp_baton.cli.remote.table import table_tasks

            with table_tasks(connection.table, connection.owner, connection.dynamodb) as send:
                yield Remote(send, terminal, progress, time.sleep)
            return
        connection.check_where(may_be_target=not for_tasks)
        if connection.is_target:
            from mcp_baton.local.checking import load_checked

            # Without a handler, Python would print errors of tools with unsafe characters.
            handler = TerminalHandler(sys.stderr, in_full=False, remedy="")
            logging.basicConfig(level=logging.WARNING, handlers=[handler])
            with connect(load_checked(where), owner="local") as client:
                yield Remote(partial(_send_locally, client), terminal, progress, client.clock.advance)
            return
        try:
            from mcp_baton.cli.remote.http import HttpTransport, access_of
        except ModuleNotFoundError as error:
            raise BatonError(
                f"a connection to a server needs the package {error.name!r}: install mcp-baton[local]"
            ) from error
        with closing(HttpTransport(access_of(connection))) as server:
            try:
                yield Remote(server.send, terminal, progress, time.sleep)
            except UNUSABLE as error:
                frame = extract_tb(error.__traceback__)[-1]
                problem = f"{type(error).__name__}: {error}, {Path(frame.filename).name} line {frame.lineno}"
                raise protocol_error(f"{where} gave an answer that cannot be used ({short(problem)})") from error
    finally:
        progress.stop()


def _send_locally(client: Client, message: Mapping[str, Any], headers: Mapping[str, str], receive: Receive) -> int:
    """Send a message to a server in this process, and take the messages of its answer as they are made."""
    response, _ = client.stage.function.invoke(client.wire.event(message, headers), Stream(receive).open)
    client.stage.worker.process_due()
    if response.get("body"):
        receive(json.loads(response["body"]))
    return int(response.get("statusCode", 200))

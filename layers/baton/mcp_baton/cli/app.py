"""The command `baton` (docs/commands.md).

Each command is a function in a module of this package. So that `baton --help` is fast, a command imports AWS's SDK, the
local server and the testing kit only when it runs.
"""

import errno
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from io import TextIOWrapper
from typing import Annotated, Final

import typer

from mcp_baton.cli.check import check
from mcp_baton.cli.graph import graph
from mcp_baton.cli.http_api import approvals, approve, callback, deny
from mcp_baton.cli.new import new
from mcp_baton.cli.owner_data import export, forget
from mcp_baton.cli.redrive import redrive
from mcp_baton.cli.remote.errors import EXIT_FAILED, print_error
from mcp_baton.cli.run import call, resume, run
from mcp_baton.cli.serve import dynamodb, serve
from mcp_baton.cli.tasks import cancel, complete, show, tasks
from mcp_baton.exceptions import BatonError
from mcp_baton.local.clean_text import echo

EXIT_INTERRUPTED: Final = 130
OUTPUT_ERRORS: Final = (errno.EPIPE, errno.ENOSPC, errno.EFBIG, errno.EIO)
"""Errors of writing the output to a pipe that was closed, which is usual, or to a file."""

app = typer.Typer(
    name="baton",
    help="MCP servers with durable workflows.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_TASK_COMMANDS = (run, call, tasks, show, resume, complete, cancel, approvals, approve, deny, callback)
COMMANDS = (new, serve, check, graph, *_TASK_COMMANDS, export, forget, dynamodb, redrive)
for command in COMMANDS:
    app.command()(command)


def _show_version(requested: bool) -> None:
    if requested:
        typer.echo(f"baton {version('mcp-baton')}")
        raise typer.Exit


@app.callback()
def baton(
    show_version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_show_version, help="Print the version."),
    ] = False,
) -> None:
    """MCP servers with durable workflows."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, by default those of the process. Return the exit code."""
    if isinstance(sys.stdout, TextIOWrapper):
        # A pipe or a terminal may have another encoding than UTF-8, which lacks characters of foreign texts.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = app(None if arguments is None else list(arguments), prog_name="baton", standalone_mode=False)
        sys.stdout.flush()
    except typer.TyperException as error:
        return _usage_error(error)
    except BatonError as error:
        return print_error(error, as_json=False)
    except OSError as error:
        if error.errno not in OUTPUT_ERRORS:
            raise
        # The rest of the output is dropped; otherwise the end of the process would try to write it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno != errno.EPIPE:
            echo(f"baton: the output cannot be written: {error.strerror}", err=True)
        return EXIT_FAILED
    except (KeyboardInterrupt, typer.Abort):
        return EXIT_INTERRUPTED
    return code if isinstance(code, int) else 0


def _usage_error(error: typer.TyperException) -> int:
    if isinstance(error, typer.BadParameter):
        # Typer prepends the kind of Python's exception to the message about an option with choices.
        error.message = error.message.removeprefix("Value error, ")
    show = getattr(error, "show", None)
    if show:
        show()
    else:
        typer.echo(f"Error: {error}", err=True)
    return error.exit_code

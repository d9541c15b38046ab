"""`baton serve`: an MCP server on this machine (docs/commands.md, Serve). `baton dynamodb`: the embedded DynamoDB over
HTTP, for functions in other processes (docs/local.md)."""

import logging
from typing import Annotated, Any, Final

import typer

from mcp_baton.cli import options
from mcp_baton.local.clean_text import echo
from mcp_baton.local.log import LogLevel, log_to_stderr

logger = logging.getLogger(__name__)

DATABASE_PORT: Final = 8001
SECONDS: Final[dict[str, Any]] = {"min": 0.001, "max": 1_000_000, "metavar": "SECONDS"}
DATABASE_HELP: Final = "Where tasks are stored: in this process, until it ends, or in the DynamoDB at a URL."
OWNER_HELP: Final = "The header that contains a request's owner. Without the option, every caller is anonymous."
LEVEL_HELP: Final = "'warning' omits requests that succeed, 'debug' shows whole tracebacks."


def serve(
    target: options.Target,
    port: options.Port = 8000,
    host: options.Host = "127.0.0.1",
    reload: Annotated[bool, typer.Option("--reload", help="Restart when a Python file changes.")] = False,
    log_level: Annotated[LogLevel, typer.Option(metavar="debug|info|warning|error", help=LEVEL_HELP)] = "info",
    dynamodb: Annotated[
        str, typer.Option(parser=options.database, metavar="embedded|URL", help=DATABASE_HELP)
    ] = "embedded",
    table: Annotated[
        str, typer.Option(parser=options.table_name, metavar="NAME", help="The table, created if missing.")
    ] = "baton",
    owner_header: Annotated[
        str | None, typer.Option(parser=options.header_name, metavar="NAME", help=OWNER_HELP)
    ] = None,
    timeout: Annotated[float, typer.Option(**SECONDS, help="The time limit of a request.")] = 300.0,
    worker_timeout: Annotated[float, typer.Option(**SECONDS, help="The time limit of a worker's invocation.")] = 900.0,
) -> int:
    """Serve a Server on this machine, over HTTP at /mcp.

    Requests go through the Lambda handler that you deploy. The command logs a line for each. /console shows the tasks.
    """
    from mcp_baton.local.http_server import end_by_force
    from mcp_baton.local.serve import ServeOptions
    from mcp_baton.local.serve import serve as serve_locally

    times = {"timeout_s": timeout, "worker_timeout_s": worker_timeout}
    log_to_stderr(log_level)
    code = serve_locally(
        ServeOptions(target, host, port, dynamodb, table, owner_header, **times, reload=reload, log_level=log_level)
    )
    end_by_force(code)
    return code


def dynamodb(
    port: options.Port = DATABASE_PORT,
    host: options.Host = "127.0.0.1",
    table: Annotated[str, typer.Option(parser=options.table_name, metavar="NAME", help="The table.")] = "baton",
) -> int:
    """Serve the embedded DynamoDB over HTTP, for sam local.

    It contains the table of the tasks. Its contents are lost when the process ends.
    """
    from mcp_baton.local.dynamodb import create_table, embedded_client, embedded_engine
    from mcp_baton.local.http_server import LocalServer, dynamodb_app, listen, run

    log_to_stderr()
    engine = embedded_engine()
    create_table(embedded_client(engine), table)
    server = LocalServer(host, port, dynamodb_app(engine), listen(host, port))
    if not server.is_private:
        logger.warning("listening on %s: everyone who can connect can change every table", server.server_name)
    return run(server, lambda: echo(f"DynamoDB is listening on http://{server.address} with the table {table}"))

"""`baton serve`: an MCP server on this machine (docs/commands.md, Serve)."""

from pathlib import Path
from typing import Annotated

import typer

from mcp_baton.cli import values


def serve(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="The Server: app.py, app.py:server if the file holds several, or package.module:server.",
        ),
    ],
    port: Annotated[int, typer.Option(parser=values.port, metavar="PORT", help="0 for a free one.")] = 8000,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1",
    reload: Annotated[bool, typer.Option("--reload", help="Load the files anew when a Python file changes.")] = False,
    data: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Keep the tasks in this file, for the next start; it is made if missing."),
    ] = None,
    log_level: Annotated[
        str,
        typer.Option(
            parser=values.log_level,
            metavar="debug|info|warning|error",
            help="What to log: 'warning' leaves out requests that went well, 'debug' shows whole tracebacks.",
        ),
    ] = "info",
    as_json: Annotated[bool, typer.Option("--json", help="Log a JSON object a line.")] = False,
    dynamodb: Annotated[
        str,
        typer.Option(
            parser=values.database,
            metavar="embedded|URL",
            help="Where the tasks are kept: in this process, gone when it ends, or a DynamoDB's URL.",
        ),
    ] = "embedded",
    table: Annotated[
        str, typer.Option(parser=values.table, metavar="NAME", help="The table, created if missing.")
    ] = "baton",
    owner_header: Annotated[
        str | None,
        typer.Option(
            parser=values.header,
            metavar="NAME",
            help="The header whose value is a request's owner; without the option every caller is anonymous.",
        ),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(parser=values.seconds, metavar="SECONDS", help="Time for each request."),
    ] = 300.0,
    worker_timeout: Annotated[
        float,
        typer.Option(parser=values.seconds, metavar="SECONDS", help="Time for each invocation of a worker."),
    ] = 900.0,
    worker_retries: Annotated[
        str,
        typer.Option(
            callback=values.delays_as_text,
            metavar="SECONDS,SECONDS",
            help="How long after a failed invocation of a worker the next one is made; 'none' for no retries. The "
            "default is what Lambda does.",
        ),
    ] = "60,120",
) -> int:
    """Serve a Server on this machine, over HTTP at /mcp.

    It goes through the Lambda handler that is deployed, and prints a line for each request. /console shows the tasks.
    """
    from mcp_baton.local.http_server import end_by_force
    from mcp_baton.local.log import LogStyle, log_to_stderr
    from mcp_baton.local.serve import Options
    from mcp_baton.local.serve import serve as serve_here

    options = Options(
        target=target,
        host=host,
        port=port,
        dynamodb=dynamodb,
        table=table,
        owner_header=owner_header,
        timeout_s=timeout,
        worker_timeout_s=worker_timeout,
        retry_after_s=values.delays(worker_retries),
        data=data,
        reload=reload,
        log=LogStyle(log_level, as_json),
    )
    log_to_stderr(options.log)
    code = serve_here(options)
    end_by_force(code)
    return code

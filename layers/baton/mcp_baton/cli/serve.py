"""`baton serve`: an MCP server on this machine (README.md, Test locally)."""

from typing import Annotated

import typer

from mcp_baton.cli import values


def serve(
    target: Annotated[
        str, typer.Argument(metavar="PATH[:ATTR]", help="The Python file, and the object's name if it holds several.")
    ],
    port: Annotated[int, typer.Option(parser=values.port, metavar="PORT", help="0 for a free one.")] = 8000,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1",
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
    """Serve the Server object in a Python file through its Lambda handler, over HTTP at /mcp."""
    from mcp_baton.local.logs import log_to_stderr
    from mcp_baton.local.run import end_by_force
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
    )
    log_to_stderr()
    code = serve_here(options)
    end_by_force(code)
    return code

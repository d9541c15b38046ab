"""`baton dynamodb`: a DynamoDB on this machine (docs/local.md)."""

from typing import Annotated, Final

import typer

from mcp_baton.cli import values

DATABASE_PORT: Final = 8001


def dynamodb(
    port: Annotated[int, typer.Option(parser=values.port, metavar="PORT", help="0 for a free one.")] = DATABASE_PORT,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1",
    table: Annotated[str, typer.Option(parser=values.table, metavar="NAME", help="The table.")] = "baton",
) -> int:
    """Serve the embedded DynamoDB over HTTP, as for sam local.

    The table of the tasks is in it. It is gone when the process ends.
    """
    from mcp_baton.local.database import serve_database
    from mcp_baton.local.report.log import log_to_stderr

    log_to_stderr()
    return serve_database(host, port, table)

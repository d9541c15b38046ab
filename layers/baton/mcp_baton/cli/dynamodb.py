"""`baton dynamodb`: the embedded DynamoDB over HTTP, for functions in other processes (docs/local.md)."""

import logging
from typing import Annotated, Final

import typer

from mcp_baton.cli import options
from mcp_baton.local.clean_text import echo
from mcp_baton.local.log import log_to_stderr

logger = logging.getLogger(__name__)

DATABASE_PORT: Final = 8001


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
    url = f"http://127.0.0.1:{server.server_port}"
    return run(server, lambda: echo(f"DynamoDB is listening on {url} with the table {table}"))

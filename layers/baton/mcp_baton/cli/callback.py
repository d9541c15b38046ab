"""`baton callback`: send the result of a waiting step, as another system does (docs/waiting.md)."""

from typing import Annotated

import typer

from mcp_baton.cli.approvals import open_http
from mcp_baton.cli.options import ConnectionOptions, Served, uses_server
from mcp_baton.cli.remote.errors import EXIT_DONE
from mcp_baton.exceptions import BatonError
from mcp_baton.protocol.json import MAX_DEPTH, loads

CALLBACKS_RESOURCE = "callbacks"


@uses_server(Served)
def callback(
    connection: ConnectionOptions,
    address: Annotated[
        str, typer.Argument(metavar="ADDRESS", help="The address that a tool has made, or only its last part.")
    ],
    body: Annotated[str, typer.Argument(metavar="BODY", help="The JSON that the step waits for.")],
    *,
    as_json: bool,
) -> int:
    """Send a callback to a waiting step."""
    from mcp_baton.cli.remote.printing import console
    from mcp_baton.local.clean_text import print_json

    try:
        payload = loads(body, MAX_DEPTH)
    except ValueError as error:
        raise BatonError(f"BODY is not JSON: {error}") from error
    with open_http(connection, has_secret_path=True) as server:
        reply = server.call("POST", f"{CALLBACKS_RESOURCE}/{address.rpartition('/')[2]}", body=payload)
    if as_json:
        print_json(reply)
    else:
        console().print("accepted")
    return EXIT_DONE

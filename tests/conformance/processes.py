"""The fixture server with a separate process for each request, so that no request finds another's data in memory.

On Lambda, too, a client's answer can reach another instance of the function than the one that waits for it.

    python tests/conformance/processes.py URL-OF-A-DYNAMODB
"""

import sys
from pathlib import Path
from socketserver import ForkingMixIn

from mcp_baton import Server
from mcp_baton.aws import dynamodb_store, handler
from mcp_baton.local.dynamodb import create_table, http_client
from mcp_baton.local.http_server import HttpFunction, LocalServer
from mcp_baton.local.loader import load
from mcp_baton.settings import Settings

FIXTURE = Path(__file__).parent / "server.py"
TABLE = "conformance"
TIMEOUT_S = 60.0


class ProcessPerRequest(ForkingMixIn, LocalServer):
    """Serves the fixture. Each request runs in a fork of this process."""

    max_children = 64
    block_on_close = False

    def __init__(self, dynamodb: str) -> None:
        server = load(str(FIXTURE), Server)
        super().__init__("127.0.0.1", 0, function(server, dynamodb, frozenset()))
        self.origin = f"http://127.0.0.1:{self.server_port}"
        self.app = function(server, dynamodb, frozenset({self.origin}))


def function(server: Server, dynamodb: str, origins: frozenset[str]) -> HttpFunction:
    """Return a server as a function that pages of these origins may call."""
    settings = Settings(table=TABLE, allow_anonymous=True, allowed_origins=origins)
    # A connection must not be shared across a fork, so each process creates its own client.
    store = dynamodb_store(TABLE, settings, connect=lambda: http_client(dynamodb))
    return HttpFunction(handler(server, settings=settings, store=store), TIMEOUT_S)


def main(dynamodb: str) -> None:
    client = http_client(dynamodb)
    create_table(client, TABLE)
    client.close()
    local = ProcessPerRequest(dynamodb)
    sys.stdout.write(f"Baton is listening on {local.origin}/mcp\n")
    sys.stdout.flush()
    local.serve_forever(poll_interval=0.1)


if __name__ == "__main__":
    main(sys.argv[1])

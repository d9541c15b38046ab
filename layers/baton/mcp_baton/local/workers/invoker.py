"""How a worker process sends for another worker: Lambda's `Invoke`, as the local server takes it."""

from http.client import HTTPConnection, HTTPException

from mcp_baton.exceptions import NotDispatched
from mcp_baton.local.workers.runtime_api import INVOCATIONS
from mcp_baton.protocol.json import JsonObject, dumps

TIMEOUT_S = 10.0


class Invoker:
    """Sends events to the queue that this process gets its own from.

    Args:
        address: `host:port` of the Runtime API, which takes events as well.
    """

    def __init__(self, address: str) -> None:
        self._address = address

    def dispatch(self, event: JsonObject) -> None:
        """Hand an event over.

        Raises:
            NotDispatched: it was not taken.
        """
        connection = HTTPConnection(self._address, timeout=TIMEOUT_S)
        try:
            connection.request("POST", INVOCATIONS, dumps(event).encode(), {"X-Amz-Invocation-Type": "Event"})
            reply = connection.getresponse()
            told = reply.read().decode().strip()
        except (OSError, HTTPException) as error:
            raise NotDispatched(f"the local server does not answer: {error}") from error
        finally:
            connection.close()
        if reply.status != 202:
            raise NotDispatched(f"the local server answered {reply.status}: {told}")

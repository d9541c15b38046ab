"""DynamoDB asked by Baton itself: its JSON over HTTP, signed (docs/performance.md, botocore).

https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.LowLevelAPI.html
"""

import re
import time
from binascii import crc32
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from mcp_baton.dynamodb.connections import Answer, Connections
from mcp_baton.dynamodb.notation import ITEMS_IN, from_json, to_json
from mcp_baton.dynamodb.requests import NoAnswer, Refused, Requests
from mcp_baton.dynamodb.signing import Signer, credentials_in

if TYPE_CHECKING:
    from mcp_baton.dynamodb.environment import Endpoint

_VERSION: Final = "DynamoDB_20120810"
_TRACE: Final = re.compile(r"[A-Za-z0-9=:;-]{1,256}")


class DirectClient(Requests):
    """Asks one DynamoDB over connections of its own. Any number of threads may.

    Args:
        endpoint: The DynamoDB.
        environment: Where the credentials are, read for each request.
        connect_timeout_s: How long opening a connection may take.
        read_timeout_s: How long each part of an answer may take to come.
        now: Epoch seconds, for signatures.
    """

    def __init__(
        self,
        endpoint: "Endpoint",
        environment: Mapping[str, str],
        *,
        connect_timeout_s: float,
        read_timeout_s: float,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._environment = environment
        self._now = now
        self._connections = Connections(endpoint, connect_timeout_s, read_timeout_s)
        self._signer = Signer(endpoint.region, endpoint.authority, endpoint.path)
        self._begin = f"POST {endpoint.path} HTTP/1.1\r\n"

    def request(self, operation: str, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """Make one attempt at a request: see `Requests`."""
        body = to_json(parameters)
        signed = self._signer.lines(f"{_VERSION}.{operation}", body, credentials_in(self._environment), self._now())
        head = (
            f"{self._begin}{signed}{self._trace()}user-agent:mcp-baton\r\naccept-encoding:identity\r\n"
            f"content-length:{len(body)}\r\n\r\n"
        )
        return _understood(operation, self._connections.exchange(head.encode() + body))

    def close(self) -> None:
        """Close the connections that are kept. Others may be opened after that."""
        self._connections.close()

    def _trace(self) -> str:
        """The header by which AWS notices functions that call themselves without end, as its SDKs send it."""
        trace = self._environment.get("_X_AMZN_TRACE_ID", "")
        if "AWS_LAMBDA_FUNCTION_NAME" not in self._environment or not _TRACE.fullmatch(trace):
            return ""
        return f"x-amzn-trace-id:{trace}\r\n"


def _understood(operation: str, answer: Answer) -> Mapping[str, Any]:
    status, headers, body = answer
    checksum = headers.get("x-amz-crc32")
    if checksum is not None and checksum != str(crc32(body)):
        raise NoAnswer("the answer was damaged on its way: its checksum is another one")
    try:
        found = from_json(body)
    except (ValueError, TypeError, RecursionError) as error:
        if status != 200:
            raise _refused({}, status) from error
        raise NoAnswer(f"the answer is not DynamoDB's: {error}") from error
    if status != 200:
        raise _refused(found if isinstance(found, dict) else {}, status)
    member = ITEMS_IN.get(operation, "")
    items = found.get(member) if isinstance(found, dict) else ()
    if items is not None and not isinstance(items, list if member == "Items" else dict):
        raise NoAnswer("the answer is not DynamoDB's: it is no JSON object, or its items are none")
    return found  # type: ignore[no-any-return]  # a dict, as its items are looked for in it


def _refused(found: dict[str, Any], status: int) -> Refused:
    """An error: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors.html."""
    code = str(found.get("__type", status)).partition(":")[0].rpartition("#")[2]
    item = found.get("Item")
    message = str(found.get("message", found.get("Message", "")))
    return Refused(code, message, status, item if isinstance(item, dict) else None)

"""DynamoDB asked by Baton itself: its JSON over HTTP, signed with Signature Version 4 (docs/performance.md, botocore).

https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.LowLevelAPI.html
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

import json
import re
import time
from base64 import b64decode, b64encode
from binascii import crc32
from collections.abc import Callable, Mapping
from hashlib import sha256
from hmac import digest
from typing import Any, Final, NamedTuple

from mcp_baton.dynamodb.connections import Answer, Connections, Endpoint
from mcp_baton.dynamodb.requests import NoAnswer, NotSent, Refused, Requests

_VERSION: Final = "DynamoDB_20120810"
_TRACE: Final = re.compile(r"[A-Za-z0-9=:;-]{1,256}")
CONTENT_TYPE: Final = "application/x-amz-json-1.0"
SERVICE: Final = "dynamodb"
KEY_ID, SECRET, TOKEN = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"
_PRINTED: Final = re.compile(r"[!-~]+")
_ALGORITHM: Final = "AWS4-HMAC-SHA256"

ITEMS_IN: Final = {"GetItem": "Item", "UpdateItem": "Attributes", "Query": "Items"}
"""Which member of an operation's answer holds items."""


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
        endpoint: Endpoint,
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


def to_json(request: Mapping[str, Any]) -> bytes:
    """A request as it is sent.

    Raises:
        TypeError: a value is neither JSON nor bytes.
    """
    return _ENCODER.encode(request).encode()


def from_json(body: bytes) -> Any:
    """What an answer holds, with bytes in the place of their base64.

    Raises:
        ValueError: it is not JSON, or a binary value is not base64.
        TypeError: an element of a set of binary values is no text.
    """
    # Few answers hold binary values, and a function that is called for each object costs most of the parsing.
    return json.loads(body, object_hook=_with_bytes if b'"B' in body else None)


def _base64(value: object) -> str:
    if isinstance(value, bytes):
        return b64encode(value).decode()
    raise TypeError(f"a request to DynamoDB holds a {type(value).__name__}")


_ENCODER = json.JSONEncoder(default=_base64, separators=(",", ":"))


def _with_bytes(found: dict[str, Any]) -> dict[str, Any]:
    """A JSON object; of a binary attribute value, or a set of them, with bytes in the place of their base64."""
    # Of an attribute value the one member is the type, and an element of a map that is called so is an object.
    if len(found) == 1:
        if "B" in found and isinstance(found["B"], str):
            return {"B": b64decode(found["B"])}
        if "BS" in found and isinstance(found["BS"], list):
            return {"BS": [b64decode(text) for text in found["BS"]]}
    return found


class Credentials(NamedTuple):
    """What a caller signs with; `token` is empty for a user's own keys, which have none."""

    key_id: str
    secret: str
    token: str


def credentials_in(environment: Mapping[str, str]) -> Credentials:
    """The credentials in the environment as it is now.

    Raises:
        NotSent: there are none, or they cannot be written into a request.
    """
    found = Credentials(environment.get(KEY_ID, ""), environment.get(SECRET, ""), environment.get(TOKEN, ""))
    for name, value in ((KEY_ID, found.key_id), (SECRET, found.secret), (TOKEN, found.token)):
        if not value and name != TOKEN:
            raise NotSent(f"there are no credentials: {name} is not set")
        if value and not _PRINTED.fullmatch(value):
            raise NotSent(f"{name} holds a space or another character that no credentials have")
    return found


class Signer:
    """Signs requests to one endpoint.

    Args:
        region: The region that the signature is valid in.
        host: The request's `Host`.
        path: The request's path, of unreserved characters and slashes.
    """

    def __init__(self, region: str, host: str, path: str) -> None:
        self._region = region
        self._host = host
        self._path = path
        # The last signing key and what it was made of: it is valid for a day.
        self._last: tuple[str, str, bytes] = ("", "", b"")

    def lines(self, target: str, body: bytes, credentials: Credentials, now_s: float) -> str:
        """The header lines that are signed, and the signature's, each with its end.

        Args:
            target: The value of `X-Amz-Target`.
            body: All of the request's body.
            credentials: The caller's.
            now_s: The time, epoch seconds.
        """
        at = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now_s))
        day = at[:8]
        token = credentials.token
        with_token = f"x-amz-security-token:{token}\n" if token else ""
        signed = f"content-type;host;x-amz-date;{'x-amz-security-token;' if token else ''}x-amz-target"
        headers = (
            f"content-type:{CONTENT_TYPE}\nhost:{self._host}\nx-amz-date:{at}\n{with_token}x-amz-target:{target}\n"
        )
        canonical = f"POST\n{self._path}\n\n{headers}\n{signed}\n{sha256(body).hexdigest()}"
        scope = f"{day}/{self._region}/{SERVICE}/aws4_request"
        to_sign = f"{_ALGORITHM}\n{at}\n{scope}\n{sha256(canonical.encode()).hexdigest()}"
        signature = digest(self._key(credentials.secret, day), to_sign.encode(), "sha256").hex()
        authorization = (
            f"authorization:{_ALGORITHM} Credential={credentials.key_id}/{scope}, "
            f"SignedHeaders={signed}, Signature={signature}\n"
        )
        return (headers + authorization).replace("\n", "\r\n")

    def _key(self, secret: str, day: str) -> bytes:
        last_secret, last_day, key = self._last
        if (last_secret, last_day) != (secret, day):
            key = f"AWS4{secret}".encode()
            for part in (day, self._region, SERVICE, "aws4_request"):
                key = digest(key, part.encode(), "sha256")
            # One assignment: another thread sees all of it or nothing.
            self._last = (secret, day, key)
        return key

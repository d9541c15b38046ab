"""A DynamoDB in memory for botocore clients. Requests and responses are real; the engine is the one of the simulation.

It is about twenty times as fast as moto. `tests/simulation/test_expressions.py` compares it with AWS's own engine, and
`tests/store` tests it like every other engine.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator
from io import BytesIO
from threading import Lock
from typing import TYPE_CHECKING, Any

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.compat import HTTPHeaders

from mcp_baton.local.dynamodb import embedded_client
from mcp_baton.local.http_server import LOOPBACK, LocalServer, dynamodb_app
from mcp_baton.testing.store import TABLE
from tests.simulation.dynamodb.database import Answer, Database
from tests.simulation.dynamodb.refusals import Refusal

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

HEADERS = HTTPHeaders.from_pairs([("Content-Type", "application/x-amz-json-1.0")])
PREFIX = "com.amazonaws.dynamodb.v20120810#"


class Body(BytesIO):
    """The body of a response for botocore. moto's class is not used, because killed workers do not load moto."""

    def stream(self, **_: object) -> Iterator[bytes]:
        """Yield the whole body at once."""
        yield self.read()


def to_json(answer: Answer) -> bytes:
    """Serialize an answer as DynamoDB does, with binary values as base64."""
    return json.dumps(answer, default=lambda binary: b64encode(binary).decode()).encode()


def from_json(body: bytes) -> Any:
    """Parse a request's body. Binary values become bytes."""
    return json.loads(body, object_hook=_with_bytes if b'"B' in body else None)


def _with_bytes(value: dict[str, Any]) -> dict[str, Any]:
    # An attribute value has one member, its type. A map may have an element of that name, but its value is an object.
    match value:
        case {"B": str(text)} if len(value) == 1:
            return {"B": b64decode(text)}
        case {"BS": list(texts)} if len(value) == 1:
            return {"BS": [b64decode(text) for text in texts]}
    return value


class MemoryDynamoDB:
    """Tables that live as long as this object. It processes one request at a time."""

    def __init__(self) -> None:
        self._tables: dict[str, Database] = {}
        self._lock = Lock()

    def create(self, name: str) -> None:
        self._tables[name] = Database()

    @property
    def names(self) -> list[str]:
        return [*self._tables]

    def answer(self, request: AWSPreparedRequest, **_: object) -> AWSResponse:
        """Answer a signed request. As a handler of botocore's `before-send` event, it keeps botocore from sending
        the request.
        """
        target = request.headers["X-Amz-Target"]
        operation = (target.decode() if isinstance(target, bytes) else target).rpartition(".")[2]
        data: Any = request.body
        parameters: dict[str, Any] = from_json(data or b"{}")
        try:
            with self._lock:
                status, answer = 200, self._answer(operation, parameters)
        except Refusal as refusal:
            item = {} if refusal.item is None else {"Item": refusal.item}
            status, answer = 400, {"__type": PREFIX + refusal.code, "message": refusal.message, **item}
        body: Any = Body(to_json(answer))
        return AWSResponse(request.url, status, HEADERS, body)

    def _answer(self, operation: str, parameters: dict[str, Any]) -> Answer:
        name = parameters.pop("TableName")
        if operation == "CreateTable":
            self._create_new(name)
        table = self._tables.get(name)
        if table is None:
            raise Refusal("ResourceNotFoundException", "Requested resource not found")
        match operation:
            case "CreateTable" | "UpdateTimeToLive":
                return {}
            case "DescribeTable":
                return {"Table": {"TableName": name, "TableStatus": "ACTIVE"}}
            case "Scan":
                return {
                    "Items": list(table.items.values()),
                    "Count": len(table.items),
                    "ScannedCount": len(table.items),
                }
            case _:
                return table.request(operation, parameters)

    def _create_new(self, name: str) -> None:
        if name in self._tables:
            raise Refusal("ResourceInUseException", f"Table already exists: {name}")
        self.create(name)


def loopback_server(engine: MemoryDynamoDB) -> LocalServer:
    """Serve this engine over HTTP, for other processes."""
    untyped_engine: Any = engine
    return LocalServer(LOOPBACK, 0, dynamodb_app(untyped_engine)).start()


def memory_client(engine: MemoryDynamoDB) -> "DynamoDBClient":
    untyped_engine: Any = engine
    return embedded_client(untyped_engine)


def memory_database() -> "DynamoDBClient":
    """Return a client of a new database that has the table of a server under test (`mcp_baton.testing`)."""
    engine = MemoryDynamoDB()
    engine.create(TABLE)
    return memory_client(engine)

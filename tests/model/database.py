"""The DynamoDB of the model's servers: the engine of the simulation, called directly. Most of the time of a plan would
otherwise be botocore's, which serializes and signs each request; `tests/store` tests the store with botocore."""

from collections.abc import Callable, Mapping
from threading import Lock
from types import SimpleNamespace
from typing import Any

from tests.simulation.client import PlainClient, refused
from tests.simulation.dynamodb.database import Database
from tests.simulation.dynamodb.refusals import Refusal

OPERATIONS = ("PutItem", "UpdateItem", "GetItem", "DeleteItem", "Query", "Scan")


class DirectClient(PlainClient):
    """A client with what `mcp_baton.testing` uses of botocore's: the operations, a paginator, and two events."""

    def __init__(self) -> None:
        super().__init__(Database())
        self._lock = Lock()
        self._handlers: dict[str, Callable[..., Any]] = {}
        self.meta = SimpleNamespace(events=self, service_model=SimpleNamespace(operation_names=OPERATIONS))

    def register(self, event: str, handler: Callable[..., Any]) -> None:
        self._handlers[event] = handler

    def get_paginator(self, _operation: str) -> Any:
        return SimpleNamespace(paginate=lambda **_: [{"Items": list(self.database.items.values())}])

    def close(self) -> None:
        """Forget the tables."""
        self.database = Database()

    def _send(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        self._handlers["before-call.dynamodb"](f"before-call.dynamodb.{operation}", {"body": b""})
        try:
            with self._lock:
                answer = super()._send(operation, request)
        except Refusal as refusal:
            raise refused(refusal, operation) from None
        self._handlers["after-call.dynamodb"](SimpleNamespace(status_code=200), f"after-call.dynamodb.{operation}")
        return answer

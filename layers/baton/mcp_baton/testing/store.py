"""The DynamoDB of a server under test: requests that fail or kill the function, by the events of botocore's client."""

from dataclasses import dataclass
from secrets import token_urlsafe
from threading import Lock
from typing import TYPE_CHECKING, Any

from mcp_baton.callbacks.items import CALLBACK_SORT_KEY as CALLBACK
from mcp_baton.callbacks.items import callback_key
from mcp_baton.local.worker_pool import MINUTE_S
from mcp_baton.tasks.dynamodb.items import LISTED_AT, LISTED_IN, LISTS, OUTBOX
from mcp_baton.tasks.ids import text_digest
from mcp_baton.testing.function import Invocations

if TYPE_CHECKING:
    from botocore.awsrequest import AWSResponse
    from mypy_boto3_dynamodb import DynamoDBClient

TABLE = "tasks"
SERVER_FAULTS = {"InternalServerError": 500, "ServiceUnavailable": 503}
"""DynamoDB answers every other error with 400 (its API reference, Common Errors)."""


@dataclass(slots=True)
class Fault:
    """A failure that a test has requested. The retries of the `last` request that failed fail, too."""

    error: str | Exception
    times: int | None
    last: object = None


class Store:
    """The DynamoDB behind a server under test."""

    def __init__(self, client: "DynamoDBClient", invocations: Invocations) -> None:
        self.client = client
        self._operations = frozenset(client.meta.service_model.operation_names)
        self._invocations = invocations
        self._faults: dict[str, Fault] = {}
        self._lock = Lock()
        # botocore uses the result of a `before-call` handler as the response; its stubs do not know this.
        before: Any = self._before_call
        client.meta.events.register("before-call.dynamodb", before)
        client.meta.events.register("after-call.dynamodb", self._after_call)

    def has_operation(self, operation: str) -> bool:
        return operation in self._operations

    def fails(self, operation: str, *, times: int | None = 1, error: str | Exception = "InternalServerError") -> None:
        """Make the next requests of an operation (`PutItem`, `UpdateItem`, …) fail, retries included. They do not reach
        the engine. Raises `ValueError` if DynamoDB has no such operation.

        Args:
            times: The number of requests; `None` for all, 0 to stop.
            error: DynamoDB's error code, e.g. `ThrottlingException`; or the exception of botocore if there is no
                response, e.g. `EndpointConnectionError(endpoint_url="")`.
        """
        if not self.has_operation(operation):
            raise ValueError(
                f"store.fails({operation!r}): DynamoDB has no such operation; "
                "Baton sends PutItem, UpdateItem, GetItem, Query and DeleteItem"
            )
        self._faults[operation] = Fault(error, times)

    def next_sweep_s(self, now_ms: int) -> float | None:
        """The seconds until a sweep finds something in the outbox; a minute if something is due already. `None` if it
        is empty, or if an invocation is running: its claim would seem to have ended."""
        if self._invocations.current is not None:
            return None
        pages = self.client.get_paginator("scan").paginate(TableName=TABLE, IndexName=LISTS)
        items = [item for page in pages for item in page["Items"] if LISTED_IN in item]  # moto's index has all items
        outbox_items = [item for item in items if item[LISTED_IN]["S"].startswith(OUTBOX)]
        first_ms = min((int(item[LISTED_AT]["S"].partition("#")[0]) for item in outbox_items), default=None)
        if first_ms is None:
            return None
        return (first_ms + 1 - now_ms) / 1000 if first_ms >= now_ms else MINUTE_S

    def callback_token(self, task_id: str, step: str) -> str:
        """Return the token of a new address for a waiting step. Only digests of addresses are stored, so this copies
        one. Raises `ValueError` if there is none."""
        pages = self.client.get_paginator("scan").paginate(TableName=TABLE)
        items = [item for page in pages for item in page["Items"] if item["sk"]["S"] == CALLBACK]
        of_task = (item for item in items if task_id in (item["task"]["S"], item["job"]["S"] if "job" in item else ""))
        callback = next((item for item in of_task if item["step"]["S"] == step), None)
        if callback is None:
            raise ValueError(f"no tool of the task {task_id} has called ctx.callback_url({step!r})")
        token = token_urlsafe(32)
        self.client.put_item(TableName=TABLE, Item={**callback, **callback_key(text_digest(token))})
        return token

    def _before_call(
        self, event_name: str, params: dict[str, Any], **_: object
    ) -> "tuple[AWSResponse, dict[str, Any]] | None":
        self._invocations.raise_if_killed()
        # A retry of the store has the same bytes, its token included.
        fault = self._fault_for(event_name.rpartition(".")[2], (self._invocations.current, params["body"]))
        if fault is None:
            return None
        if isinstance(fault.error, Exception):
            raise fault.error
        return refusal(fault.error)

    def _fault_for(self, operation: str, request: object) -> Fault | None:
        with self._lock:
            fault = self._faults.get(operation)
            if fault is not None and fault.last == request:
                return fault
            if fault is None or fault.times == 0:
                return None
            fault.last = request
            if fault.times is not None:
                fault.times -= 1
            return fault

    def _after_call(self, http_response: "AWSResponse", event_name: str, **_: object) -> None:
        if http_response.status_code == 200:
            self._invocations.note_action(event_name.rpartition(".")[2])


def refusal(code: str) -> "tuple[AWSResponse, dict[str, Any]]":
    from botocore.awsrequest import AWSResponse
    from botocore.compat import HTTPHeaders

    status = SERVER_FAULTS.get(code, 400)
    error = {"Code": code, "Message": "requested by the test"}
    parsed_response = {"Error": error, "ResponseMetadata": {"HTTPStatusCode": status, "RetryAttempts": 0}}
    return AWSResponse("", status, HTTPHeaders(), None), parsed_response

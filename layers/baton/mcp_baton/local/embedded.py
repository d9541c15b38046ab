"""moto's DynamoDB as an atomic engine for one client. Imported only when the engine is used.

`moto.mock_aws` would answer every AWS client of the process, for example the user's S3 client. Here the requests of one
client go to one private backend.
"""

import copy
import json
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from moto.core.botocore_stubber import MockRawResponse
from moto.core.request import normalize_request
from moto.dynamodb.exceptions import ItemSizeToUpdateTooLarge
from moto.dynamodb.models import DynamoDBBackend
from moto.dynamodb.models.dynamo_type import Item, LimitedSizeDict
from moto.dynamodb.parsing.validators import ActionCountValidator, OverlappingPathsValidator
from moto.dynamodb.responses import DynamoHandler, DynamoResult
from werkzeug.exceptions import HTTPException

from mcp_baton.tasks.dynamodb.values import item_size

ACCOUNT = "123456789012"
ITEM_BYTES = 409_600
PLAIN_MEMBERS = {"Item", "Items", "Attributes", "Count", "ScannedCount", "LastEvaluatedKey", "ConsumedCapacity"}
MAX_FRAMES = 10_000
DISPATCH_LOCK = Lock()
"""Held while an engine answers: moto is not atomic, and the recursion limit applies to the whole process."""


class EmbeddedEngine:
    """A DynamoDB with its own tables.

    moto reads, checks the condition and writes without a lock: of 1600 conditional writes by 16 threads up to 458
    were lost. One lock around the whole dispatch makes each request atomic, as DynamoDB's are.
    """

    def __init__(self) -> None:
        self._handler: type[DynamoHandler] = type(
            "EmbeddedHandler", (FastHandler,), {"dynamodb_backend": AtomicBackend("us-east-1", ACCOUNT)}
        )

    def answer(self, request: AWSPreparedRequest, **_: object) -> AWSResponse:
        """Answer a signed request, as a handler of botocore's `before-send` event: botocore then sends nothing."""
        normalized = normalize_request(request)
        with DISPATCH_LOCK, deep_stack():
            try:
                status, headers, body = self._handler.dispatch(normalized, normalized.raw_url, normalized.headers)
            except HTTPException as error:
                status, headers, body = error.code or 500, dict(error.get_headers()), error.get_body()
        return AWSResponse(request.url, status, headers, MockRawResponse(body))


def _only_at_root(check: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a check of an expression that runs only at its root. moto repeats the check of all clauses at each clause,
    which takes quadratic time and finds no other error."""

    def check_root(validator: Any, node: Any) -> Any:
        return node if node.parent else check(validator, node)

    return check_root


for _validator, _check in (
    (OverlappingPathsValidator, "check_for_overlapping_paths"),
    (ActionCountValidator, "verify_action_counts"),
):
    setattr(_validator, _check, _only_at_root(getattr(_validator, _check)))


class FastHandler(DynamoHandler):
    """moto's handler, with direct serialization of answers that contain items.

    moto looks up each attribute value in the API's model, which takes a third of the time of a request.
    """

    def serialized(self, action_result: Any) -> Any:
        result = action_result.result
        is_plain = isinstance(result, dict) and result.keys() <= PLAIN_MEMBERS
        if not (is_plain and isinstance(action_result, DynamoResult)):
            return super().serialized(action_result)
        headers = {"Content-Type": "application/x-amz-json-1.0", **self.response_headers}
        return 200, headers, json.dumps(result, default=lambda value: b64encode(value).decode())


class AtomicBackend(DynamoDBBackend):
    """moto's backend with DynamoDB's item limit and atomic updates.

    moto counts compressed values in base64, stops at 405,000 bytes, and leaves a rejected update half applied.
    """

    def put_item(self, table_name: str, item_attrs: dict[str, Any], *args: Any, **kwargs: Any) -> Item:
        item = super().put_item(table_name, item_attrs, *args, **kwargs)
        item.attrs = UnlimitedAttributes(item.attrs)
        return item

    def update_item(self, table_name: str, key: dict[str, dict[str, Any]], *args: Any, **kwargs: Any) -> Item:
        """Update an item, or leave it unchanged."""
        item = self.get_item(table_name, key)
        old_attributes = None if item is None else copy.deepcopy(item).attrs
        try:
            updated = super().update_item(table_name, key, *args, **kwargs)
            if item_size({name: value.to_regular_json() for name, value in updated.attrs.items()}) > ITEM_BYTES:
                raise ItemSizeToUpdateTooLarge
        except Exception:
            if item is not None and old_attributes is not None:
                item.attrs = UnlimitedAttributes(old_attributes)
            raise
        return updated


class UnlimitedAttributes(LimitedSizeDict):
    """An item's attributes without moto's limit."""

    def __setitem__(self, key: str, value: Any) -> None:
        dict.__setitem__(self, key, value)


@contextmanager
def deep_stack() -> Iterator[None]:
    """Raise the recursion limit for moto's parser, which recurses for each clause: 1000 frames allow 157 clauses.

    An expression of 4096 bytes, DynamoDB's limit, needs fewer frames than the new limit.
    """
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, MAX_FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)

"""Clients for AWS, with timeouts that leave a request something to answer with. The SDK is imported with the first."""

import gc
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from botocore.awsrequest import AWSRequest
    from botocore.client import BaseClient
    from botocore.model import OperationModel
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client

    from mcp_baton.dynamodb.requests import Requests
    from mcp_baton.protocol.json import JsonObject
    from mcp_baton.tasks.jobs import Dispatcher
    from mcp_baton.telemetry import Telemetry

# A DynamoDB that hangs must leave the write reserve (5 s) something to answer with. An attempt that is accepted and
# never answered costs the read timeout, one that is never accepted the connect timeout. An answer from within the
# region takes milliseconds. botocore makes one attempt: the store sends again by itself, where it is known how much
# time there is and what a token in the item says (docs/storage.md).
CONNECT_TIMEOUT_S = 1.0
READ_TIMEOUT_S = 1.0
ATTEMPTS = 1

# What is asked of S3 and Secrets Manager is asked once more by botocore.
OTHER_ATTEMPTS = 2

# The same reserve pays for an S3 that hangs and for a DynamoDB that hangs once after it: 2 x 1 s + 1 s, and 1.5 s. One
# failure is all that S3 can cost a write, which then asks it for nothing more.
S3_TIMEOUT_S = 1.0


ITEMS_OF: Final = ("PutItem", "UpdateItem")
"""The operations whose requests hold items, or parts of them."""

_WHOLE: Final = "mcp_baton"
"""Where a request is kept whole, in what botocore calls its context."""


def connect_dynamodb(environment: Mapping[str, str]) -> "DynamoDBClient | Requests":
    """Baton's own connection to DynamoDB, or botocore's client where only that understands the environment."""
    return own_dynamodb(environment) or dynamodb_client()


def own_dynamodb(environment: Mapping[str, str]) -> "Requests | None":
    """Baton's own connection to the DynamoDB that botocore would ask in this environment.

    Returns:
        `None` where the environment holds what only botocore understands (docs/storage.md, How DynamoDB is asked).
    """
    with _without_collecting():
        from mcp_baton.dynamodb.environment import endpoint_in

        endpoint = endpoint_in(environment)
        if endpoint is None:
            return None
        from mcp_baton.dynamodb.direct import DirectClient

        return DirectClient(endpoint, environment, connect_timeout_s=CONNECT_TIMEOUT_S, read_timeout_s=READ_TIMEOUT_S)


def dynamodb_client() -> "DynamoDBClient":
    """A client for DynamoDB where AWS's own configuration says it is."""
    # Holding each of an item's values against botocore's model takes longer than sending it, and DynamoDB does it too.
    client = _client("dynamodb", CONNECT_TIMEOUT_S, READ_TIMEOUT_S, ATTEMPTS, parameter_validation=False)
    pass_items_through(client)
    return cast("DynamoDBClient", client)


def pass_items_through(client: "BaseClient | DynamoDBClient") -> None:
    """Let a client for DynamoDB, made without parameter validation, write and read items as JSON as they are, but for
    the bytes in them.

    botocore walks through every attribute value by its model, in requests and in answers, which for a large task took
    half of a request's CPU time, and makes the same of it: DynamoDB's JSON is the notation that its clients take and
    give out (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.LowLevelAPI.html).
    """
    from mcp_baton.dynamodb.direct import ITEMS_IN

    # botocore takes what this one gives; its stubs say that handlers give nothing.
    keep_params: Any = _keep_params
    for operation in ITEMS_OF:
        client.meta.events.register(f"provide-client-params.dynamodb.{operation}", keep_params)
        client.meta.events.register(f"before-call.dynamodb.{operation}", _write_body)
    for operation in ITEMS_IN:
        client.meta.events.register(f"before-parse.dynamodb.{operation}", _take_items)


def _keep_params(params: dict[str, Any], context: dict[str, Any], **_: object) -> dict[str, Any]:
    """Leave botocore a request's texts alone, by which it finds the endpoint; all of it is written by `_write_body`."""
    context[_WHOLE] = params
    return {name: value for name, value in params.items() if isinstance(value, str)}


def _write_body(params: dict[str, Any], context: dict[str, Any], **_: object) -> None:
    from mcp_baton.dynamodb.direct import to_json

    params["body"] = to_json(context[_WHOLE])


def _take_items(
    operation_model: "OperationModel",
    response_dict: dict[str, Any],
    customized_response_dict: dict[str, Any],
    **_: object,
) -> None:
    """Put the items of an answer where botocore takes them over, and leave the rest of it to botocore's parser.

    An answer that is not as DynamoDB's are is left to it as a whole.
    """
    from mcp_baton.dynamodb.direct import ITEMS_IN, from_json

    member = ITEMS_IN[operation_model.name]
    if response_dict["status_code"] != 200:
        return
    try:
        answer = from_json(response_dict["body"])
        items = answer.pop(member, None) if isinstance(answer, dict) else None
        if not isinstance(items, list if member == "Items" else dict):
            return
        rest = json.dumps(answer).encode()
    except (ValueError, TypeError):
        return
    response_dict["body"] = rest
    customized_response_dict[member] = items


def s3_client() -> "S3Client":
    """A client for S3 where AWS's own configuration says it is."""
    client = _client("s3", S3_TIMEOUT_S, S3_TIMEOUT_S, OTHER_ATTEMPTS)
    # Asking S3 before sending an object costs a round trip, and where S3 hangs a second more than the timeout.
    client.meta.events.register("request-created.s3.PutObject", _send_at_once)
    return cast("S3Client", client)


def secrets_client() -> "BaseClient":
    """A client for Secrets Manager where AWS's own configuration says it is."""
    return _client("secretsmanager", CONNECT_TIMEOUT_S, READ_TIMEOUT_S, OTHER_ATTEMPTS)


def lambda_client() -> "BaseClient":
    """A client for Lambda where AWS's own configuration says it is.

    It makes one attempt: whether an event is sent again is for the dispatcher to say (`mcp_baton.dispatching`).
    """
    return _client("lambda", CONNECT_TIMEOUT_S, READ_TIMEOUT_S, ATTEMPTS)


class WorkerDispatcher:
    """Invokes the worker asynchronously. Implements `tasks.jobs.Dispatcher`.

    All that it takes is imported and made with the first event: few requests start background work.

    Args:
        worker: The function and its alias: an ARN, or `name:alias`.
        telemetry: Where invocations are noted.
    """

    def __init__(self, worker: str, telemetry: "Telemetry") -> None:
        self._worker = worker
        self._telemetry = telemetry
        self._made: Dispatcher | None = None

    def dispatch(self, event: "JsonObject") -> None:
        """Hand the event over. It was taken, not worked on, when this returns.

        Raises:
            NotDispatched: it was not taken, or that is not known.
        """
        if self._made is None:
            from mcp_baton.dispatching import LambdaDispatcher

            self._made = LambdaDispatcher(self._worker, lambda_client, telemetry=self._telemetry)
        self._made.dispatch(event)


def _client(
    service: str, connect_timeout_s: float, read_timeout_s: float, attempts: int, *, parameter_validation: bool = True
) -> "BaseClient":
    """botocore's client, which is what boto3 would give out, without the imports around it (docs/performance.md).

    What is imported here stays, and looking for garbage among it in between costs a twentieth.
    """
    with _without_collecting():
        from botocore.config import Config
        from botocore.session import get_session

        session = get_session()
        config = Config(
            # Given as a text, it is not put together of its parts twice for each request.
            user_agent=session.user_agent(),
            connect_timeout=connect_timeout_s,
            read_timeout=read_timeout_s,
            retries={"mode": "standard", "total_max_attempts": attempts},
            tcp_keepalive=True,
            parameter_validation=parameter_validation,
        )
        return session.create_client(service, config=config)


@contextmanager
def _without_collecting() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _send_at_once(request: "AWSRequest", **_: object) -> None:
    del request.headers["Expect"]


def given_client[Client](service: str, client: Client | None) -> Callable[[], Client] | None:
    """What gives out a client that the caller made; `None` where they made none.

    Raises:
        TypeError: it is no client, or another service's.
    """
    if client is None:
        return None
    model = getattr(getattr(client, "meta", None), "service_model", None)
    if model is None or model.service_name != service:
        raise TypeError(
            f"handler({service}=…) takes a client, boto3.client({service!r}), and got {type(client).__name__!r}; "
            "a boto3 resource has its client at `.meta.client`"
        )
    return lambda: client

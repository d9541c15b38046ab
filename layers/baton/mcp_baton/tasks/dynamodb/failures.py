"""What a failed request to DynamoDB means: whether it may have been applied, and whether a retry can help.

Source: DynamoDB Developer Guide, "Error handling with DynamoDB",
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors.html.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from mcp_baton.exceptions import OutcomeUnknown, StoreBusy, StoreUnavailable
from mcp_baton.tasks.dynamodb.attributes import Item

if TYPE_CHECKING:
    from botocore.exceptions import ClientError

CONDITION_FAILED = "ConditionalCheckFailedException"
TOO_LARGE = "maximum allowed size"
THROTTLED = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "ThrottlingException",
        "RequestLimitExceeded",
        "Throttling",
        "TooManyRequestsException",
    }
)
"""Error codes of throttled requests. DynamoDB did not apply them."""

FIRST_FAULT = 500
"""First HTTP status of DynamoDB's own faults. The request may have been applied."""

RETRY_AFTER_MS = 1_000


class ConditionFailed(Exception):
    """The condition of a write does not hold.

    Args:
        item: The current item; `None` if it does not exist or the engine did not return it.
        unsure: Whether an earlier attempt had no answer, so that this write may have been applied.
    """

    def __init__(self, item: Item | None, *, unsure: bool = False) -> None:
        super().__init__("the condition of a write does not hold")
        self.item = item
        self.unsure = unsure


class ItemTooLarge(Exception):
    """The item would exceed DynamoDB's size limit. Nothing was written."""


class Unreached(StoreUnavailable):
    """The request did not reach DynamoDB. Nothing was written."""


def failure_of(error: Exception, rng: Callable[[], float]) -> Exception | None:
    """Return the exception that says what a failed attempt means.

    Args:
        error: The error of an attempt.
        rng: Returns a number from 0 up to 1. It spreads the retries of throttled callers.

    Returns:
        `ConditionFailed`, `ItemTooLarge` or a `StoreUnavailable`; `None` if `error` is not an error of boto3.
    """
    from botocore import exceptions as botocore

    if isinstance(error, botocore.ClientError):
        return _refused(error, rng)
    cause = f"DynamoDB did not answer: {type(error).__name__}: {error}"
    if isinstance(error, botocore.ConnectTimeoutError | botocore.EndpointConnectionError):
        return Unreached(cause)
    if isinstance(error, botocore.HTTPClientError | botocore.IncompleteReadError | botocore.ResponseStreamingError):
        return OutcomeUnknown(cause)
    # boto3 could not send the request: no region, no credentials, or a parameter that it cannot serialise.
    return StoreUnavailable(cause) if isinstance(error, botocore.BotoCoreError) else None


def _refused(error: "ClientError", rng: Callable[[], float]) -> Exception:
    response = error.response
    details = response.get("Error", {})
    code, message = details.get("Code", ""), details.get("Message", "")
    if code == CONDITION_FAILED:
        item: Item | None = response.get("Item")  # type: ignore[assignment]  # not in the stubs' generic response
        return ConditionFailed(item)
    if code == "ValidationException" and TOO_LARGE in message:
        return ItemTooLarge()
    cause = f"DynamoDB refused: {code}: {message}"
    if code in THROTTLED:
        return StoreBusy(cause, RETRY_AFTER_MS + int(RETRY_AFTER_MS * rng()))
    if response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) >= FIRST_FAULT:
        return OutcomeUnknown(cause)
    return StoreUnavailable(cause)

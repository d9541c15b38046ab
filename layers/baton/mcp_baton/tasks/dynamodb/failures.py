"""What a failed attempt at a request means: whether it was written, and whether it is worth sending again.

AWS's words: DynamoDB Developer Guide, "Error handling with DynamoDB".
"""

from collections.abc import Callable, Mapping
from typing import Any

from mcp_baton.exceptions import OutcomeUnknown, StoreBusy, StoreUnavailable

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
"""The codes of a request that was turned away for now. It was not carried out."""

FIRST_FAULT = 500
"""DynamoDB's own faults begin at this HTTP status: the request may have been carried out."""

RETRY_AFTER_MS = 1_000


class ItemTooLarge(Exception):
    """The item would have outgrown what DynamoDB takes. Nothing was written."""


class Unreached(StoreUnavailable):
    """The request did not reach DynamoDB. Nothing was written."""


def failure_of(error: Exception, rng: Callable[[], float]) -> Exception:
    """The exception that says what botocore's means.

    Args:
        error: A `ClientError`, for what DynamoDB answered, or a `BotoCoreError`.
        rng: Gives a number from 0 up to 1: those who are turned away together are not asked to come back together.
    """
    from botocore.exceptions import ClientError

    return _refused(error.response, rng) if isinstance(error, ClientError) else _unanswered(error)


def _refused(response: Mapping[str, Any], rng: Callable[[], float]) -> Exception:
    told = response.get("Error", {})
    code, message = told.get("Code", ""), told.get("Message", "")
    if code == "ValidationException" and TOO_LARGE in message:
        return ItemTooLarge()
    cause = f"DynamoDB refused: {code}: {message}"
    if code in THROTTLED:
        return StoreBusy(cause, RETRY_AFTER_MS + int(RETRY_AFTER_MS * rng()))
    if response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) >= FIRST_FAULT:
        return OutcomeUnknown(cause)
    return StoreUnavailable(cause)


def _unanswered(error: Exception) -> StoreUnavailable:
    from botocore import exceptions as botocore

    cause = f"DynamoDB did not answer: {type(error).__name__}: {error}"
    if isinstance(error, botocore.ConnectTimeoutError | botocore.EndpointConnectionError):
        return Unreached(cause)
    if isinstance(error, botocore.HTTPClientError | botocore.IncompleteReadError | botocore.ResponseStreamingError):
        return OutcomeUnknown(cause)
    # The request could not be made: no region, no credentials, a parameter that the model does not take.
    return StoreUnavailable(cause)

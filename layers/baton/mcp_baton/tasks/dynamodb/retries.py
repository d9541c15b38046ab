"""What a failed request to DynamoDB means, and how long it is retried (docs/storage.md)."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from mcp_baton.exceptions import RETRY_AFTER_MS, OutcomeUnknown, StoreBusy, StoreUnavailable
from mcp_baton.tasks.dynamodb.attributes import Item

if TYPE_CHECKING:
    from botocore.exceptions import ClientError

CONDITION_FAILED = "ConditionalCheckFailedException"
ITEM_TOO_LARGE = "maximum allowed size"
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

FIRST_FAULT_STATUS = 500
"""First HTTP status of DynamoDB's own faults. The request may have been applied."""


ATTEMPT_S = 1.0
"""The duration of one attempt, seconds: the timeouts of the client (`mcp_baton.clients`)."""

REPLY_S = 0.3
"""The part of the function's time for its reply, seconds."""

FIRST_PAUSE_S = 0.1
MAX_PAUSE_S = 1.0

FIRST_RACE_PAUSE_S = 0.005
MAX_RACE_PAUSE_S = 0.1


class RetryPolicy(Struct, frozen=True):
    """How long a request is retried, seconds from its first attempt.

    Attributes:
        throttled_s: How long while DynamoDB throttles it.
        unanswered_s: How long while DynamoDB cannot be reached, does not respond or fails. At most 30: a token lives
            for 60.
        reserved_s: The part of the function's time that is reserved for later requests.
    """

    throttled_s: float
    unanswered_s: float
    reserved_s: float = 0.0

    def pause_s(
        self, attempt: int, since_s: float, left_s: float | None, rng: float, *, throttled: bool
    ) -> float | None:
        """The pause after this number of attempts, seconds; `None` if there is no next attempt.

        `since_s` counts from the first attempt, `left_s` until the function is stopped. `rng` is a random number from 0
        up to 1 (full jitter): callers that were throttled together retry apart.
        """
        pause_s = rng * min(FIRST_PAUSE_S * 2.0 ** min(attempt - 1, 16), MAX_PAUSE_S)
        budget_s = self.throttled_s if throttled else self.unanswered_s
        if since_s + pause_s >= budget_s:
            return None
        if left_s is not None and left_s - pause_s < ATTEMPT_S + REPLY_S + self.reserved_s:
            return None
        return pause_s


READ = RetryPolicy(throttled_s=10.0, unanswered_s=4.0)
CREATE = RetryPolicy(throttled_s=0.5, unanswered_s=2.0)
"""For requests before anything runs. Longer retries would only take capacity from active runs."""

RENEW = RetryPolicy(throttled_s=0.0, unanswered_s=0.0)
"""For renewals. The renewing thread has a client to answer, and renews again soon."""

WRITE = RetryPolicy(throttled_s=10.0, unanswered_s=10.0)
END = RetryPolicy(throttled_s=20.0, unanswered_s=10.0)
"""For the end of a run: its results are stored nowhere else."""

CHECKPOINT = RetryPolicy(throttled_s=20.0, unanswered_s=10.0, reserved_s=3 * ATTEMPT_S)
"""For a checkpoint. If it fails, the end of the run writes the same, and needs time for that."""


class ConditionFailed(Exception):
    """The condition of a write does not hold. `item` is `None` if it does not exist or the engine did not return it.
    `unsure`: the response to an earlier attempt was lost, so this write may have been applied."""

    def __init__(self, item: Item | None, *, unsure: bool = False) -> None:
        super().__init__("the condition of a write does not hold")
        self.item = item
        self.unsure = unsure


class ItemTooLarge(Exception):
    """The item would exceed DynamoDB's size limit. Nothing was written."""


class RequestNotSent(StoreUnavailable):
    """The request did not reach DynamoDB. Nothing was written."""


def failure_of(error: Exception, rng: Callable[[], float]) -> Exception | None:
    """The exception that says what a failed attempt means: `ConditionFailed`, `ItemTooLarge` or a `StoreUnavailable`;
    `None` if `error` is not an error of boto3. `rng` spreads the retries of throttled callers."""
    from botocore import exceptions as botocore

    if isinstance(error, botocore.ClientError):
        return _client_failure(error, rng)
    cause = f"DynamoDB did not answer: {type(error).__name__}: {error}"
    if isinstance(error, botocore.ConnectTimeoutError | botocore.EndpointConnectionError):
        return RequestNotSent(cause)
    if isinstance(error, botocore.HTTPClientError | botocore.IncompleteReadError | botocore.ResponseStreamingError):
        return OutcomeUnknown(cause)
    # boto3 could not send the request: no region, no credentials, or a parameter that it cannot serialise.
    return StoreUnavailable(cause) if isinstance(error, botocore.BotoCoreError) else None


def _client_failure(error: "ClientError", rng: Callable[[], float]) -> Exception:
    response = error.response
    details = response.get("Error", {})
    code, message = details.get("Code", ""), details.get("Message", "")
    if code == CONDITION_FAILED:
        item: Item | None = response.get("Item")  # type: ignore[assignment]  # not in the stubs' generic response
        return ConditionFailed(item)
    if code == "ValidationException" and ITEM_TOO_LARGE in message:
        return ItemTooLarge()
    cause = f"DynamoDB refused: {code}: {message}"
    if code in THROTTLED:
        return StoreBusy(cause, RETRY_AFTER_MS + int(RETRY_AFTER_MS * rng()))
    if response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) >= FIRST_FAULT_STATUS:
        return OutcomeUnknown(cause)
    return StoreUnavailable(cause)

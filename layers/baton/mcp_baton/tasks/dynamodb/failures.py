"""What a failed attempt at a request means: whether it was written, and whether it is worth sending again.

AWS's words: DynamoDB Developer Guide, "Error handling with DynamoDB".
"""

from collections.abc import Callable

from mcp_baton.dynamodb.requests import NoAnswer, NotConnected, Refused, RequestFailed
from mcp_baton.exceptions import OutcomeUnknown, StoreBusy, StoreUnavailable
from mcp_baton.tasks.dynamodb.attributes import Item

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


class ConditionFailed(Exception):
    """A conditional write was refused.

    Args:
        item: The item as it stands; `None` when there is none.
        unsure: Whether it was sent before and no answer came, so that it may have been made all the same.
    """

    def __init__(self, item: Item | None, *, unsure: bool = False) -> None:
        super().__init__("the condition of a write does not hold")
        self.item = item
        self.unsure = unsure


class ItemTooLarge(Exception):
    """The item would have outgrown what DynamoDB takes. Nothing was written."""


class Unreached(StoreUnavailable):
    """The request did not reach DynamoDB. Nothing was written."""


def failure_of(error: RequestFailed, rng: Callable[[], float]) -> Exception:
    """The exception that says what a failed attempt means.

    Args:
        error: How it failed.
        rng: Gives a number from 0 up to 1: those who are turned away together are not asked to come back together.
    """
    if isinstance(error, Refused):
        return _refused(error, rng)
    cause = f"DynamoDB did not answer: {error}"
    if isinstance(error, NotConnected):
        return Unreached(cause)
    if isinstance(error, NoAnswer):
        return OutcomeUnknown(cause)
    return StoreUnavailable(cause)


def _refused(error: Refused, rng: Callable[[], float]) -> Exception:
    if error.code == "ValidationException" and TOO_LARGE in error.message:
        return ItemTooLarge()
    cause = f"DynamoDB refused: {error}"
    if error.code in THROTTLED:
        return StoreBusy(cause, RETRY_AFTER_MS + int(RETRY_AFTER_MS * rng()))
    if error.status >= FIRST_FAULT:
        return OutcomeUnknown(cause)
    return StoreUnavailable(cause)

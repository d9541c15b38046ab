"""Errors with which DynamoDB refuses a request."""

from typing import Any


class Refusal(Exception):
    """A request that is refused. Nothing was changed.

    Args:
        item: The item that a condition failed on, where the request asked for it.
    """

    def __init__(self, code: str, message: str, item: dict[str, Any] | None = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.item = item


class Invalid(Refusal):
    def __init__(self, message: str) -> None:
        super().__init__("ValidationException", message)


class ConditionFalse(Refusal):
    def __init__(self, item: dict[str, Any] | None = None) -> None:
        super().__init__("ConditionalCheckFailedException", "The conditional request failed", item)

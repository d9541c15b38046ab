"""DynamoDB's error responses."""

from typing import Any


class Refusal(Exception):
    """A rejected request. It changed nothing.

    Args:
        item: The item that did not satisfy the condition, if the request asked for it.
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

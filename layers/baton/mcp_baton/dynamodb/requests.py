"""One request to DynamoDB and its answer, whatever carries it, and the ways in which it fails.

Operations, parameters and answers are those of DynamoDB's API, values in its own notation with bytes for binary ones:
https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_Operations_Amazon_DynamoDB.html
"""

from collections.abc import Mapping
from typing import Any


class Requests:
    """What asks DynamoDB: botocore's client (`mcp_baton.dynamodb.by_botocore`) or a connection of Baton's own."""

    def request(self, operation: str, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """Make one attempt at a request.

        Args:
            operation: `PutItem`, `UpdateItem`, `GetItem`, `DeleteItem` or `Query`.
            parameters: The operation's.

        Returns:
            The answer of a request that succeeded.

        Raises:
            Refused: DynamoDB answered with an error.
            NotSent: the request could not be made.
            NotConnected: DynamoDB was not reached.
            NoAnswer: the request was sent, and what became of it is not known.
        """
        raise NotImplementedError


class RequestFailed(Exception):
    """An attempt at a request did not succeed. Its text says why; its cause is what a library raised, if one did."""


class Refused(RequestFailed):
    """DynamoDB answered with an error.

    Args:
        code: Its name, without a namespace: `ThrottlingException`.
        message: What DynamoDB says about it.
        status: The HTTP status.
        item: The item that a condition failed on, where it was asked for and is there.
    """

    def __init__(self, code: str, message: str, status: int, item: dict[str, Any] | None = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status
        self.item = item


class NotSent(RequestFailed):
    """The request could not be made: there is no region, there are no credentials. Nothing was written."""


class NotConnected(RequestFailed):
    """No connection to DynamoDB came about. Nothing was written."""


class NoAnswer(RequestFailed):
    """The request was sent, whole or in part, and no answer came that can be understood."""

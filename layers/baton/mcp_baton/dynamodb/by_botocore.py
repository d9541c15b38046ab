"""DynamoDB asked by botocore's client, or boto3's, or by what stands in for one."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from mcp_baton.dynamodb.requests import NoAnswer, NotConnected, NotSent, Refused, RequestFailed, Requests

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_METHODS: Final = {
    "PutItem": "put_item",
    "UpdateItem": "update_item",
    "GetItem": "get_item",
    "DeleteItem": "delete_item",
    "Query": "query",
}


class BotocoreClient(Requests):
    """Asks a DynamoDB through a client that makes one attempt at each request, or as many as its owner wants.

    Args:
        client: The client.
    """

    def __init__(self, client: "DynamoDBClient") -> None:
        self._client = client

    def request(self, operation: str, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """Make one attempt at a request: see `Requests`."""
        send = getattr(self._client, _METHODS[operation])
        try:
            answer: Mapping[str, Any] = send(**parameters)
        except Exception as error:
            if failure := failure_of(error):
                raise failure from error
            raise
        return answer


def failure_of(error: Exception) -> RequestFailed | None:
    """What an exception of botocore's says; `None` for any other."""
    from botocore.exceptions import BotoCoreError, ClientError

    if isinstance(error, ClientError):
        return _refused(error.response)
    return _unanswered(error) if isinstance(error, BotoCoreError) else None


def _refused(response: Mapping[str, Any]) -> Refused:
    told = response.get("Error", {})
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return Refused(told.get("Code", ""), told.get("Message", ""), status, response.get("Item"))


def _unanswered(error: Exception) -> RequestFailed:
    from botocore import exceptions as botocore

    cause = f"{type(error).__name__}: {error}"
    if isinstance(error, botocore.ConnectTimeoutError | botocore.EndpointConnectionError):
        return NotConnected(cause)
    if isinstance(error, botocore.HTTPClientError | botocore.IncompleteReadError | botocore.ResponseStreamingError):
        return NoAnswer(cause)
    # The request could not be made: no region, no credentials, a parameter that the model does not take.
    return NotSent(cause)

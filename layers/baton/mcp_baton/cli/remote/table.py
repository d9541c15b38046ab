"""The tasks in the DynamoDB table, for operators (docs/storage.md)."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, NoCredentialsError
from botocore.exceptions import ConnectionError as AwsConnectionError
from msgspec import structs

from mcp_baton.aws import compose, dynamodb_store
from mcp_baton.cli.options import SET_REGION, check_region, environment_region
from mcp_baton.cli.remote.client import Receive, Send
from mcp_baton.cli.remote.errors import Denied, Unreachable
from mcp_baton.exceptions import BatonError, StoreUnavailable
from mcp_baton.local.gateway import InvocationContext, proxy_event
from mcp_baton.protocol.json import dumps
from mcp_baton.server.server import Server
from mcp_baton.settings import Settings
from mcp_baton.tasks.store import TaskStore

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from mcp_baton.stores import DynamoDBStore

OWNER: Final = "Baton-Owner"
"""The header with the owner of the tasks."""

TIMEOUT_S: Final = 300.0
REACH: Final = f"Check the network. {SET_REGION}"


@contextmanager
def table_tasks(name: str, owner: str | None, url: str | None) -> Iterator[Send]:
    """Open the tasks of an owner in a table, as `table_store` does. Raises `BatonError` if the owner is missing."""
    if not owner:
        raise BatonError("--table needs --owner: tasks are stored by owner (docs/storage.md)")
    with table_store(name, url) as store:
        store.list(owner, None)  # names a missing table or missing credentials; a handler does not
        yield tasks_of(store, owner)


def tasks_of(store: TaskStore, owner: str) -> Send:
    """Serve the tasks of an owner with a server that has no tools."""
    handler = compose(Server("tasks"), Settings(), store=store)

    def send(message: Mapping[str, Any], headers: Mapping[str, str], receive: Receive) -> int:
        fields = {"Content-Type": "application/json", "Accept": "application/json", **headers, OWNER: owner}
        body = dumps(message).encode()
        event = proxy_event("POST", "/mcp", [*fields.items()], body, request_id="baton", owner_header=OWNER)
        response = handler(event, InvocationContext(TIMEOUT_S, "baton"))
        receive(json.loads(response["body"]))
        return int(response["statusCode"])

    return send


@contextmanager
def table_store(name: str, url: str | None) -> "Iterator[DynamoDBStore]":
    """Open the store of a table. `url` names a DynamoDB other than AWS's. The block raises `BatonError` if there is no
    such table, and `Denied` if there are no credentials, or they do not allow it."""

    def connect() -> "DynamoDBClient":
        from mcp_baton.clients import dynamodb_client
        from mcp_baton.local.dynamodb import http_client

        try:
            if url is not None and url != "embedded":
                client = http_client(url)
            else:
                client = dynamodb_client(environment_region())
                check_region(client.meta.region_name)
            _check_reachable(client, name)
        except (AwsConnectionError, HTTPClientError) as error:
            place = f"at {url}" if url else f"in the region {client.meta.region_name}"
            raise Unreachable(f"DynamoDB {place} cannot be reached: {error}. {REACH}") from error
        except (BotoCoreError, ValueError) as error:
            raise Unreachable(f"DynamoDB cannot be reached: {error} {SET_REGION}") from error
        return client

    # The environment has the deployment's limits, as for its function.
    settings = structs.replace(Settings.from_environment(os.environ), table=name)
    try:
        yield cast("DynamoDBStore", dynamodb_store(name, settings, connect=connect))
    except StoreUnavailable as error:
        cause = error.__cause__
        code = cause.response.get("Error", {}).get("Code", "") if isinstance(cause, ClientError) else ""
        if isinstance(cause, NoCredentialsError) or code.startswith(("AccessDenied", "UnrecognizedClient")):
            raise Denied(f"DynamoDB rejects the credentials: {cause}") from error
        if code == "ResourceNotFoundException":
            raise BatonError(f"there is no table {name!r}: name the deployment's table, in its region") from error
        raise


def _check_reachable(client: "DynamoDBClient", name: str) -> None:
    """Send one request without retries. The store would try again for seconds, for each of its requests. Raises
    `AwsConnectionError` or `HTTPClientError` if nobody answers. The store's requests raise all other errors."""
    try:
        client.get_item(TableName=name, Key={"pk": {"S": "-"}, "sk": {"S": "-"}})
    except (AwsConnectionError, HTTPClientError):
        raise
    except (BotoCoreError, ClientError):
        pass

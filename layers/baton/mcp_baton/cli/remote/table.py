"""The tasks in the DynamoDB table, for operators (docs/storage.md)."""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Self, cast

from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, NoCredentialsError, NoRegionError
from botocore.exceptions import ConnectionError as AwsConnectionError
from msgspec import structs
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from mcp_baton.aws import compose, dynamodb_store
from mcp_baton.cli.options import SET_REGION, check_region, environment_region
from mcp_baton.cli.remote.client import Receive, Send
from mcp_baton.cli.remote.errors import Denied, Unreachable
from mcp_baton.cli.remote.printing import console
from mcp_baton.exceptions import BatonError, StoreUnavailable
from mcp_baton.local.gateway import InvocationContext, proxy_event
from mcp_baton.protocol.json import dumps
from mcp_baton.server.server import Server
from mcp_baton.settings import Settings
from mcp_baton.tasks.dynamodb.attributes import Item
from mcp_baton.tasks.dynamodb.retries import RetryPolicy
from mcp_baton.tasks.dynamodb.table import TaskTable
from mcp_baton.tasks.store import TaskStore

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from mcp_baton.stores import DynamoDBStore

OWNER: Final = "Baton-Owner"
"""The header with the owner of the tasks."""

SCAN_RETRIES: Final = RetryPolicy(throttled_s=300.0, unanswered_s=30.0)

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
            remedy = f" {SET_REGION}" if isinstance(error, NoRegionError) else ""
            raise Unreachable(f"DynamoDB cannot be reached: {error}{remedy}") from error
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
    `AwsConnectionError` or `HTTPClientError` if the address does not respond. The store raises all other errors."""
    try:
        client.get_item(TableName=name, Key={"pk": {"S": "-"}, "sk": {"S": "-"}})
    except (AwsConnectionError, HTTPClientError):
        raise
    except (BotoCoreError, ClientError):
        pass


class Scan(Progress):
    """One scan of a whole table, page by page at a limited rate, with a progress bar at a terminal. `request` has the
    filter and the projection, `units_per_s` is the most read units a second. `units` are those that DynamoDB has
    charged."""

    def __init__(self, table: TaskTable, request: Mapping[str, Any], units_per_s: float) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        disabled = not sys.stderr.isatty()
        super().__init__(
            *columns, console=console(errors=True), transient=True, redirect_stdout=False, disable=disabled
        )
        self._table = table
        self._request = {"ReturnConsumedCapacity": "TOTAL", **request}
        self._units_per_s = units_per_s
        self.units = 0.0

    def __enter__(self) -> Self:
        size = None
        # The table's owner may forbid the question. DynamoDB counts every six hours.
        with suppress(BotoCoreError, ClientError):
            if not self.disable:
                size = self._table.connection.client().describe_table(TableName=self._table.name)["Table"]["ItemCount"]
        self._bar = self.add_task("items read", total=size)
        super().__enter__()
        return self

    def describe(self, text: str) -> None:
        """Show a text beside the progress bar."""
        self.update(self._bar, description=text)

    def items(self) -> Iterator[Item]:
        request = self._request
        while True:
            began_s = self._table.monotonic()
            page = self._table.scan(request, SCAN_RETRIES)
            units = page.get("ConsumedCapacity", {}).get("CapacityUnits", 0.0)
            self.units += units
            yield from page["Items"]
            self.advance(self._bar, page["ScannedCount"])
            if "LastEvaluatedKey" not in page:
                return
            request = {**self._request, "ExclusiveStartKey": page["LastEvaluatedKey"]}
            self._table.sleep(max(0.0, units / self._units_per_s - (self._table.monotonic() - began_s)))

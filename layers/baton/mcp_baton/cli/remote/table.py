"""The tasks in the DynamoDB table, for operators (docs/storage.md)."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, NoCredentialsError
from botocore.exceptions import ConnectionError as AwsConnectionError
from msgspec import structs

from mcp_baton.aws import dynamodb_store
from mcp_baton.cli.aws_region import SET_REGION, check_region, environment_region
from mcp_baton.cli.remote.client import find_id
from mcp_baton.cli.remote.errors import Denied, Unreachable
from mcp_baton.exceptions import BatonError, StoreUnavailable
from mcp_baton.present.mcp_task import ViewOptions, listed_view, task_view
from mcp_baton.present.view import TaskView, view_in_result
from mcp_baton.settings import Settings
from mcp_baton.tasks.record import TaskRecord
from mcp_baton.tasks.store import TaskStore

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from mcp_baton.stores import DynamoDBStore

REACH: Final = f"Check the network. {SET_REGION}"

MAX_TABLE_PAGES = 20
"""The maximum number of pages of a list."""


class Table:
    """The tasks of an owner in a table, with the methods of `Remote`."""

    def __init__(self, store: TaskStore, owner: str) -> None:
        self._store = store
        self._owner = owner
        self._view_options = ViewOptions(now_ms=store.now_ms, store=store)

    def tasks(self, limit: int | None) -> list[dict[str, Any]]:
        """Return the tasks, newest first, as `tasks/list` shows them."""
        entries: list[dict[str, Any]] = []
        cursor: str | None = None
        for _ in range(MAX_TABLE_PAGES):
            page = self._store.list(self._owner, cursor)
            entries += [dict(listed_view(task, self._view_options)) for task in page.tasks]
            cursor = page.cursor
            if cursor is None or (limit is not None and len(entries) >= limit):
                break
        return entries

    def find_task(self, prefix: str) -> str:
        """Return the id of the owner's only task with this prefix."""
        return find_id(prefix, lambda: self.tasks(None))

    def task(self, task_id: str) -> TaskView:
        return self._state(self._store.get(self._owner, task_id))

    def end_task(self, task_id: str, result: Mapping[str, Any] | None = None) -> TaskView:
        """Cancel a task, or complete it with a result.

        Raises:
            TaskFinished: it has already ended.
        """
        if result is None:
            return self._state(self._store.cancel(self._owner, task_id))
        return self._state(self._store.complete(self._owner, task_id, dict(result)))

    def _state(self, task: TaskRecord) -> TaskView:
        return structs.replace(view_in_result(task_view(task, self._view_options)), workflow=task.workflow)


@contextmanager
def table(name: str, owner: str | None, url: str | None) -> Iterator[Table]:
    """Open the tasks of an owner in a table, as `table_store` does.

    Raises:
        BatonError: the owner is missing.
    """
    if not owner:
        raise BatonError("--table needs --owner: tasks are stored by owner (docs/storage.md)")
    with table_store(name, url) as store:
        yield Table(store, owner)


@contextmanager
def table_store(name: str, url: str | None) -> "Iterator[DynamoDBStore]":
    """Open the store of a table. `url` names a DynamoDB other than AWS's.

    Raises:
        BatonError: in the block: there is no such table.
        Denied: in the block: there are no credentials, or they do not allow it.
    """

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
    """Send one request without retries. The store would try again for seconds, for each of its requests.

    Raises:
        AwsConnectionError, HTTPClientError: nobody answers. Other errors are left to the requests of the store.
    """
    try:
        client.get_item(TableName=name, Key={"pk": {"S": "-"}, "sk": {"S": "-"}})
    except (AwsConnectionError, HTTPClientError):
        raise
    except (BotoCoreError, ClientError):
        pass

"""The tasks in the DynamoDB table, for operators (docs/storage.md)."""

import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from msgspec import structs

from mcp_baton.cli.options import WhereError
from mcp_baton.cli.remote.client import is_task_id, only_id
from mcp_baton.cli.remote.errors import Denied, Unreachable
from mcp_baton.cli.remote.task import TaskState, state_of
from mcp_baton.exceptions import StoreUnavailable
from mcp_baton.tasks.record import TaskRecord
from mcp_baton.tasks.store import TaskStore

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from mcp_baton.server.workflows.task_view import ViewOptions

PAGES = 20
"""The number of pages in which a prefix is looked up."""


class Table:
    """The tasks of an owner in a table.

    Args:
        store: The store of the table.
        owner: The owner.
    """

    def __init__(self, store: TaskStore, owner: str) -> None:
        self._store = store
        self._owner = owner

    def find_task(self, prefix: str) -> str:
        """Return the id of the only task with this prefix.

        Raises:
            TaskIdError: no task or several tasks have it.
        """
        return prefix if is_task_id(prefix) else only_id(prefix, [task["taskId"] for task in self.tasks()])

    def tasks(self, most: int | None = None) -> list[dict[str, Any]]:
        """Return the tasks, newest first, as `tasks/list` shows them."""
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        for _ in range(PAGES):
            page = self._store.list(self._owner, cursor)
            found += [_listed(task, self._store) for task in page.tasks]
            cursor = page.cursor
            if cursor is None or (most is not None and len(found) >= most):
                break
        return found

    def state(self, task_id: str) -> TaskState:
        """Return a task."""
        return _task_state(self._store.get(self._owner, task_id), self._store)

    def cancel(self, task_id: str) -> TaskState:
        """Cancel a task.

        Raises:
            TaskFinished: it has already ended.
        """
        return _task_state(self._store.cancel(self._owner, task_id), self._store)

    def complete(self, task_id: str, result: dict[str, Any]) -> TaskState:
        """Complete a task with a result.

        Raises:
            TaskFinished: it has already ended.
        """
        return _task_state(self._store.complete(self._owner, task_id, result), self._store)


def open_table(name: str, owner: str | None, url: str | None) -> Table:
    """Return the tasks of an owner in a table.

    Args:
        name: The table.
        owner: The owner.
        url: The URL of a DynamoDB other than AWS's.

    Raises:
        WhereError: the owner is missing.
    """
    if not owner:
        raise WhereError("--table needs --owner: tasks are stored by owner (docs/storage.md)")
    from mcp_baton.aws import dynamodb_store
    from mcp_baton.settings import Settings

    # The environment has the deployment's shards and bucket, as for its function.
    settings = structs.replace(Settings.from_environment(os.environ), table=name)
    return Table(dynamodb_store(name, settings, connect=_client(url)), owner)


def _client(url: str | None) -> "Callable[[], DynamoDBClient]":
    def connect() -> "DynamoDBClient":
        from botocore.exceptions import BotoCoreError

        from mcp_baton.clients import dynamodb_client
        from mcp_baton.local.dynamodb import http_client

        try:
            return dynamodb_client() if url is None or url == "embedded" else http_client(url)
        except (BotoCoreError, ValueError) as error:
            raise Unreachable(f"DynamoDB cannot be reached: {error}") from error

    return connect


def asked[Answer](ask: Callable[[], Answer]) -> Answer:
    """Call a function that uses the table.

    Raises:
        Denied: there are no credentials, or they do not allow it.
        StoreError: as `ask`.
    """
    from botocore.exceptions import ClientError, NoCredentialsError

    try:
        return ask()
    except StoreUnavailable as error:
        cause = error.__cause__
        if isinstance(cause, NoCredentialsError) or (isinstance(cause, ClientError) and _is_denial(cause)):
            raise Denied(f"DynamoDB rejects the credentials: {cause}") from error
        raise


def _is_denial(error: Any) -> bool:
    return str(error.response.get("Error", {}).get("Code", "")).startswith(("AccessDenied", "UnrecognizedClient"))


def _options(store: TaskStore) -> "ViewOptions":
    from mcp_baton.server.workflows.task_view import ViewOptions

    return ViewOptions(now_ms=store.now_ms)


def _listed(task: TaskRecord, store: TaskStore) -> dict[str, Any]:
    from mcp_baton.server.workflows.task_view import listed_view

    return listed_view(task, _options(store))


def _task_state(task: TaskRecord, store: TaskStore) -> TaskState:
    from mcp_baton.server.workflows.task_view import task_view

    return replace(state_of(task_view(task, _options(store))), workflow=task.workflow)

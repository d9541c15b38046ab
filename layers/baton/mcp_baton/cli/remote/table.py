"""The task table itself, for operators: what the store tells of tasks, and does to them (docs/storage.md)."""

import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mcp_baton.cli.remote.client import chosen, is_whole
from mcp_baton.cli.remote.ending import Denied, Unreachable
from mcp_baton.cli.remote.task import TaskState, state_of
from mcp_baton.cli.remote.where import WhereError
from mcp_baton.exceptions import StoreUnavailable
from mcp_baton.tasks.record import TaskRecord
from mcp_baton.tasks.store import TaskStore

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from mcp_baton.server.workflows.task_view import ViewOptions

PAGES = 20
"""So many pages of a list are looked through for a beginning of an id."""


class Table:
    """One owner's tasks in a table.

    Args:
        store: The table.
        owner: Whose tasks.
    """

    def __init__(self, store: TaskStore, owner: str) -> None:
        self._store = store
        self._owner = owner

    def find(self, beginning: str) -> str:
        """The id of the one task that begins so.

        Raises:
            TaskIdError: there is none, or more than one.
        """
        return beginning if is_whole(beginning) else chosen(beginning, [task["taskId"] for task in self.tasks()])

    def tasks(self, most: int | None = None) -> list[dict[str, Any]]:
        """The tasks, newest first, as `tasks/list` shows them."""
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
        """A task as it stands."""
        return _state(self._store.get(self._owner, task_id), self._store)

    def cancel(self, task_id: str) -> TaskState:
        """Cancel a task.

        Raises:
            TaskFinished: it is over.
        """
        return _state(self._store.cancel(self._owner, task_id), self._store)

    def complete(self, task_id: str, result: dict[str, Any]) -> TaskState:
        """Complete a task with a result.

        Raises:
            TaskFinished: it is over.
        """
        return _state(self._store.complete(self._owner, task_id, result), self._store)


def open_table(name: str, owner: str | None, url: str | None) -> Table:
    """The tasks of an owner in a table.

    Args:
        name: The table.
        owner: Whose tasks.
        url: A DynamoDB that is not AWS's.

    Raises:
        WhereError: nobody is named, or the DynamoDB cannot be used.
    """
    if not owner:
        raise WhereError("--table needs --owner: tasks are kept by owner (docs/storage.md)")
    from mcp_baton.aws import dynamodb_store
    from mcp_baton.settings import Settings

    # Shards and the bucket are the deployment's: they are read where its function reads them.
    settings = replace(Settings.from_environment(os.environ), table=name)
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


def asked[Told](ask: Callable[[], Told]) -> Told:
    """What the table says.

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
            raise Denied(f"DynamoDB does not let you in: {cause}") from error
        raise


def _is_denial(error: Any) -> bool:
    return str(error.response.get("Error", {}).get("Code", "")).startswith(("AccessDenied", "UnrecognizedClient"))


def _options(store: TaskStore) -> "ViewOptions":
    from mcp_baton.server.workflows.task_view import ViewOptions

    return ViewOptions(now_ms=store.now_ms)


def _listed(task: TaskRecord, store: TaskStore) -> dict[str, Any]:
    from mcp_baton.server.workflows.task_view import listed_view

    return listed_view(task, _options(store))


def _state(task: TaskRecord, store: TaskStore) -> TaskState:
    from mcp_baton.server.workflows.task_view import task_view

    return replace(state_of(task_view(task, _options(store))), workflow=task.workflow)

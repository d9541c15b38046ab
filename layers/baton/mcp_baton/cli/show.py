"""`baton show`, `baton cancel` and `baton complete`: one task (docs/commands.md)."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from mcp_baton.cli.remote import where as options
from mcp_baton.cli.remote.ending import DONE, ends

if TYPE_CHECKING:
    from mcp_baton.cli.remote.task import TaskState
    from mcp_baton.cli.remote.where import Way


@ends
def show(
    where: options.WhereOrTask,
    task: options.Task = None,
    table: options.Table = None,
    owner: options.Owner = None,
    dynamodb: options.DynamoDB = None,
    api_key: options.ApiKey = None,
    token: options.Token = None,
    aws: options.Aws = False,
    header: options.Header = None,
    as_json: options.AsJson = False,
) -> int:
    """Show a task: its steps, its pause, and what comes next."""
    from mcp_baton.cli.remote.where import Way

    way = Way(where, api_key, token, aws, header)
    with _tasks(way, task, table, owner, dynamodb, as_json=as_json) as (tasks, task_id):
        return _shown(tasks.state(task_id), as_json=as_json)


@ends
def cancel(
    where: options.WhereOrTask,
    task: options.Task = None,
    table: options.Table = None,
    owner: options.Owner = None,
    dynamodb: options.DynamoDB = None,
    api_key: options.ApiKey = None,
    token: options.Token = None,
    aws: options.Aws = False,
    header: options.Header = None,
    as_json: options.AsJson = False,
) -> int:
    """Cancel a task.

    One that is over stays as it is, and the exit code is 1.
    """
    from mcp_baton.cli.remote.where import Way

    way = Way(where, api_key, token, aws, header)
    with _tasks(way, task, table, owner, dynamodb, as_json=as_json) as (tasks, task_id):
        return _shown(tasks.cancel(task_id), as_json=as_json)


@ends
def complete(
    where: options.WhereOrTask,
    task: options.Task = None,
    result: Annotated[
        str, typer.Option("--result", metavar="JSON", help="The result, a JSON object; @FILE for a file's.")
    ] = "",
    table: options.Table = None,
    owner: options.Owner = None,
    dynamodb: options.DynamoDB = None,
    api_key: options.ApiKey = None,
    token: options.Token = None,
    aws: options.Aws = False,
    header: options.Header = None,
    as_json: options.AsJson = False,
) -> int:
    """Complete a task with a result of your own.

    One that is over stays as it is, and the exit code is 1.
    """
    from mcp_baton.cli.remote.where import Way

    value, way = _object(result), Way(where, api_key, token, aws, header)
    with _tasks(way, task, table, owner, dynamodb, as_json=as_json) as (tasks, task_id):
        return _shown(tasks.complete(task_id, value), as_json=as_json)


def _object(text: str) -> dict[str, Any]:
    from mcp_baton.cli.remote.arguments import ArgumentError, for_tool, given

    if not text:
        raise ArgumentError("--result is missing: a JSON object, such as --result '{\"refunded\": true}'")
    word = f"--result=@{text[1:]}" if text.startswith("@") else f"--result={text}"
    [written] = given([word])
    value = for_tool([written], {"properties": {"--result": {"type": "object"}}})["--result"]
    return dict(value)


class Tasks(Protocol):
    """Where one task is: behind a server, or in a table."""

    def state(self, task_id: str) -> "TaskState":
        """The task as it stands."""

    def cancel(self, task_id: str) -> "TaskState":
        """Cancel it."""

    def complete(self, task_id: str, result: dict[str, Any]) -> "TaskState":
        """Complete it."""


@contextmanager
def _tasks(
    way: "Way", task: str | None, table: str | None, owner: str | None, dynamodb: str | None, *, as_json: bool
) -> Iterator[tuple[Tasks, str]]:
    """Where the task is, and its whole id. With a table, the first argument is the task."""
    from mcp_baton.cli.remote.where import WhereError, connection, refuse_target

    if table is not None:
        from mcp_baton.cli.remote.table import asked, open_table

        if task is not None:
            raise WhereError("with --table there is no WHERE: name the task alone")
        opened = open_table(table, owner, dynamodb)
        yield opened, asked(lambda: opened.find(way.where))
        return
    if task is None:
        raise WhereError("the task is missing: name WHERE it is, and then its id")
    refuse_target(way)
    from mcp_baton.cli.remote.client import find
    from mcp_baton.cli.remote.served import ServedTasks

    with connection(way, as_json=as_json) as reached:
        yield ServedTasks(reached.remote), find(reached.remote, task)


def _shown(state: "TaskState", *, as_json: bool) -> int:
    from mcp_baton.cli.remote.printing import console, print_json
    from mcp_baton.cli.remote.reports import print_task

    if as_json:
        print_json(state.to_json())
    else:
        print_task(state, console(), time.time_ns() // 1_000_000)
    return DONE

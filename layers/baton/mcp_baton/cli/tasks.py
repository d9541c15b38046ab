"""`baton tasks`, `show`, `cancel` and `complete` (docs/commands.md)."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final

import typer

from mcp_baton.cli.options import ConnectionOptions, OptionalTask, WhereOrTable, WhereOrTask, uses_server
from mcp_baton.cli.remote.arguments import ArgumentError, for_tool, parse_arguments
from mcp_baton.cli.remote.client import Remote
from mcp_baton.cli.remote.connection import open_connection
from mcp_baton.cli.remote.errors import EXIT_DONE
from mcp_baton.cli.remote.printing import (
    STYLES,
    TASK_ID_PREFIX_CHARS,
    age,
    console,
    paused_text,
    print_task,
    records,
    status_text,
)
from mcp_baton.exceptions import BatonError
from mcp_baton.local.clean_text import print_json
from mcp_baton.present.view import TaskView, view_in_list

TASKS_PER_PAGE: Final = 50
RESULT_SCHEMA: Final = {"properties": {"--result": {"type": "object"}}}


@uses_server(WhereOrTable, optional=True, table=True)
def tasks(
    connection: ConnectionOptions,
    everything: Annotated[bool, typer.Option("--all", help="List all tasks, not only the newest, about 50.")] = False,
    *,
    as_json: bool,
) -> int:
    """List your tasks, newest first."""
    if (connection.where is None) == (connection.table is None):
        raise BatonError("name either WHERE or --table")
    with open_connection(connection, for_tasks=True, as_json=True) as source:
        entries = source.tasks(None if everything else TASKS_PER_PAGE)
        rows = _rows(entries)
    if as_json:
        print_json({"tasks": entries})
    else:
        columns = ("task", "what", "status", "at", "age", "changed")
        console().print(records(columns, rows, right=columns[-2:]) if rows else "no tasks")
    return EXIT_DONE


@uses_server(WhereOrTask, table=True)
def show(connection: ConnectionOptions, task: OptionalTask = None, *, as_json: bool) -> int:
    """Show a task: its steps, its pause reason, and the next calls."""
    return _print_task(connection, task, Remote.task, as_json=as_json)


@uses_server(WhereOrTask, table=True)
def cancel(connection: ConnectionOptions, task: OptionalTask = None, *, as_json: bool) -> int:
    """Cancel a task.

    A task that has already ended is not changed, and the exit code is 1.
    """
    return _print_task(connection, task, Remote.end_task, as_json=as_json)


@uses_server(WhereOrTask, table=True)
def complete(
    connection: ConnectionOptions,
    task: OptionalTask = None,
    result: Annotated[
        str, typer.Option("--result", metavar="JSON", help="The result, a JSON object; @FILE reads it from a file.")
    ] = "",
    *,
    as_json: bool,
) -> int:
    """Complete a task with a result that you supply.

    A task that has already ended is not changed, and the exit code is 1.
    """
    if not result:
        raise ArgumentError("--result is missing: a JSON object, such as --result '{\"refunded\": true}'")
    value = for_tool(parse_arguments([f"--result={result}"]), RESULT_SCHEMA)["--result"]
    return _print_task(connection, task, lambda source, task_id: source.end_task(task_id, value), as_json=as_json)


def _print_task(
    connection: ConnectionOptions, task: str | None, act: Callable[[Remote, str], TaskView], *, as_json: bool
) -> int:
    """Do something with a task and print it. With --table, the first argument of the command is the task."""
    if connection.table is not None and task is not None:
        raise BatonError("with --table there is no WHERE: name only the task")
    prefix = task if connection.table is None else connection.where
    if prefix is None:
        raise BatonError("the task is missing: name WHERE, and then the task's id")
    with open_connection(connection, for_tasks=True, as_json=as_json) as source:
        state = act(source, source.find_task(prefix))
    if as_json:
        print_json(state.to_json())
    else:
        print_task(state, console())
    return EXIT_DONE


def _rows(entries: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    now_ms, rows = time.time_ns() // 1_000_000, []
    for task in map(view_in_list, entries):
        status = status_text(task.status)
        if task.pauses and task.status == "working":
            status = status.append(f", {paused_text(task.message)}", style=STYLES["paused"])
        types = ", ".join(dict.fromkeys(str(pause["type"]) for pause in task.pauses))
        # An ended task waits for nothing, whatever its steps have waited for.
        position = "" if task.ended else (task.open_step or task.message or "") + (f" ({types})" if types else "")
        ages = age(task.created, now_ms), age(task.updated, now_ms)
        rows.append((task.task_id[:TASK_ID_PREFIX_CHARS], task.workflow or task.tool or "", status, position, *ages))
    return rows

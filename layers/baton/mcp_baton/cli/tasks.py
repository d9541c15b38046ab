"""`baton tasks`, `show`, `cancel` and `complete` (docs/commands.md)."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mcp_baton.cli import options
from mcp_baton.cli.options import Way, WhereError
from mcp_baton.cli.remote.errors import DONE, reports_errors

if TYPE_CHECKING:
    from rich.table import Table as RichTable

    from mcp_baton.cli.remote.client import Remote
    from mcp_baton.cli.remote.table import Table
    from mcp_baton.cli.remote.task import TaskState

WATCH_S: Final = 2.0
PAGE: Final = 50

type Listing = Callable[[], list[dict[str, Any]]]


@reports_errors
def tasks(
    where: Annotated[
        str | None, typer.Argument(metavar="WHERE", help="A URL, or a profile's name; not with --table.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Keep the list on the screen and update it.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="List all tasks, not about 50.")] = False,
    table: options.Table = None,
    owner: options.Owner = None,
    dynamodb: options.DynamoDB = None,
    api_key: options.ApiKey = None,
    token: options.Token = None,
    aws: options.Aws = False,
    header: options.Header = None,
    as_json: options.AsJson = False,
) -> int:
    """List your tasks, newest first."""
    import sys

    from mcp_baton.cli.remote.printing import console
    from mcp_baton.local.clean_text import print_json

    if watch and (as_json or not sys.stdout.isatty()):
        raise WhereError("--watch needs a terminal and cannot be used with --json")
    most = None if everything else PAGE
    way = None if where is None else Way(where, api_key, token, aws, header)
    with _listing(way, table, owner, dynamodb, most) as listed:
        if as_json:
            print_json({"tasks": listed()})
        elif watch:
            _watch(listed)
        else:
            console().print(_table_of(found) if (found := listed()) else "no tasks")
    return DONE


@reports_errors
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
    """Show a task: its steps, its pause reason, and the next calls."""
    from mcp_baton.cli.remote.tools import get_task

    way = Way(where, api_key, token, aws, header)
    if table is not None:
        state = _in_table(way, task, table, owner, dynamodb, lambda opened, task_id: opened.state(task_id))
    else:
        state = _on_server(way, task, get_task, as_json=as_json)
    return _shown(state, as_json=as_json)


@reports_errors
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

    A task that has already ended is not changed, and the exit code is 1.
    """
    from mcp_baton.cli.remote.tools import end_task

    way = Way(where, api_key, token, aws, header)
    if table is not None:
        state = _in_table(way, task, table, owner, dynamodb, lambda opened, task_id: opened.cancel(task_id))
    else:
        state = _on_server(way, task, end_task, as_json=as_json)
    return _shown(state, as_json=as_json)


@reports_errors
def complete(
    where: options.WhereOrTask,
    task: options.Task = None,
    result: Annotated[
        str, typer.Option("--result", metavar="JSON", help="The result, a JSON object; @FILE reads it from a file.")
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
    """Complete a task with a result that you supply.

    A task that has already ended is not changed, and the exit code is 1.
    """
    from mcp_baton.cli.remote.tools import end_task

    value, way = _object(result), Way(where, api_key, token, aws, header)
    if table is not None:
        state = _in_table(way, task, table, owner, dynamodb, lambda opened, task_id: opened.complete(task_id, value))
    else:
        state = _on_server(way, task, lambda remote, task_id: end_task(remote, task_id, value), as_json=as_json)
    return _shown(state, as_json=as_json)


def _object(text: str) -> dict[str, Any]:
    from mcp_baton.cli.remote.arguments import ArgumentError, for_tool, given

    if not text:
        raise ArgumentError("--result is missing: a JSON object, such as --result '{\"refunded\": true}'")
    written = given([f"--result={text}"])
    return dict(for_tool(written, {"properties": {"--result": {"type": "object"}}})["--result"])


def _in_table(
    way: Way,
    task: str | None,
    table: str,
    owner: str | None,
    dynamodb: str | None,
    do: "Callable[[Table, str], TaskState]",
) -> "TaskState":
    """Do something with a task in a table. The first argument of the command is the task."""
    from mcp_baton.cli.remote.table import asked, open_table

    if task is not None:
        raise WhereError("with --table there is no WHERE: name only the task")
    opened = open_table(table, owner, dynamodb)
    return asked(lambda: do(opened, opened.find_task(way.where)))


def _on_server(way: Way, task: str | None, do: "Callable[[Remote, str], TaskState]", *, as_json: bool) -> "TaskState":
    """Do something with a task of a server."""
    from mcp_baton.cli.remote.connection import connection

    if task is None:
        raise WhereError("the task is missing: name WHERE, and then the task's id")
    way.refuse_target()
    with connection(way, as_json=as_json) as connected:
        return do(connected.remote, connected.remote.find_task(task))


def _shown(state: "TaskState", *, as_json: bool) -> int:
    from mcp_baton.cli.remote.printing import console, print_task
    from mcp_baton.local.clean_text import print_json

    if as_json:
        print_json(state.to_json())
    else:
        print_task(state, console(), time.time_ns() // 1_000_000)
    return DONE


@contextmanager
def _listing(
    way: Way | None, table: str | None, owner: str | None, dynamodb: str | None, most: int | None
) -> Iterator[Listing]:
    if (way is None) == (table is None):
        raise WhereError("name either WHERE or --table")
    if way is None and table is not None:
        from mcp_baton.cli.remote.table import asked, open_table

        opened = open_table(table, owner, dynamodb)
        yield lambda: asked(lambda: opened.tasks(most))
    elif way is not None:
        from mcp_baton.cli.remote.connection import connection

        way.refuse_target()
        with connection(way, as_json=True) as connected:
            yield lambda: connected.remote.pages("tasks/list", "tasks", era="2025", most=most)


def _watch(listed: Listing) -> None:
    from rich.live import Live

    from mcp_baton.cli.remote.printing import console

    with Live(_table_of(listed()), console=console(), auto_refresh=False) as live:
        try:
            while True:
                time.sleep(WATCH_S)
                live.update(_table_of(listed()), refresh=True)
        except KeyboardInterrupt:
            return


def _table_of(listed: Sequence[Mapping[str, Any]]) -> "RichTable":
    from rich.table import Table
    from rich.text import Text

    from mcp_baton.cli.remote.printing import PREFIX, STYLES, age, plain, status_text
    from mcp_baton.tasks.record import PAUSED

    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("task", "what", "status", "at", "age", "changed"):
        table.add_column(
            name, no_wrap=name not in ("at", "status"), justify="right" if name in ("age", "changed") else "left"
        )
    now_ms = time.time_ns() // 1_000_000
    for task in listed:
        meta = task.get("_meta", {})
        pause = meta.get("pause_reason")
        status = status_text(task["status"])
        if pause and task["status"] == "working":
            status = status.append(f", {PAUSED}", style=STYLES["paused"])
        at = meta.get("step") or task.get("statusMessage") or ""
        at = f"{at} ({pause['type']})" if pause else at
        table.add_row(
            Text(task["taskId"][:PREFIX]),
            Text(plain(meta.get("workflow") or meta.get("tool") or "")),
            status,
            Text(plain(at)),
            age(task.get("createdAt", ""), now_ms),
            age(task.get("lastUpdatedAt", ""), now_ms),
        )
    return table

"""`baton tasks`: the caller's tasks (docs/commands.md)."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mcp_baton.cli.remote import where as options
from mcp_baton.cli.remote.ending import DONE, ends

if TYPE_CHECKING:
    from rich.table import Table

    from mcp_baton.cli.remote.where import Way

WATCH_S: Final = 2.0
PAGE: Final = 50

type Listing = Callable[[], list[dict[str, Any]]]


@ends
def tasks(
    where: Annotated[
        str | None, typer.Argument(metavar="WHERE", help="A URL, or a profile's name; not with --table.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Keep the list on the screen, and up to date.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="All tasks, not the newest 50 or so.")] = False,
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

    from mcp_baton.cli.remote.printing import print_json
    from mcp_baton.cli.remote.where import Way, WhereError

    if watch and (as_json or not sys.stdout.isatty()):
        raise WhereError("--watch draws on a terminal, and goes without --json")
    most = None if everything else PAGE
    way = None if where is None else Way(where, api_key, token, aws, header)
    with _listing(way, table, owner, dynamodb, most) as listed:
        if as_json:
            print_json({"tasks": listed()})
        elif watch:
            _watch(listed)
        else:
            _print(listed())
    return DONE


@contextmanager
def _listing(
    way: "Way | None", table: str | None, owner: str | None, dynamodb: str | None, most: int | None
) -> Iterator[Listing]:
    from mcp_baton.cli.remote.where import WhereError, connection, refuse_target

    if (way is None) == (table is None):
        raise WhereError("name either WHERE or --table")
    if way is None and table is not None:
        from mcp_baton.cli.remote.table import asked, open_table

        opened = open_table(table, owner, dynamodb)
        yield lambda: asked(lambda: opened.tasks(most))
    elif way is not None:
        refuse_target(way)
        with connection(way, as_json=True) as reached:
            yield lambda: reached.remote.pages("tasks/list", "tasks", era="2025", most=most)


def _print(listed: Sequence[Mapping[str, Any]]) -> None:
    from mcp_baton.cli.remote.printing import console

    out = console()
    out.print(_table(listed) if listed else "no tasks")


def _watch(listed: Listing) -> None:
    from rich.live import Live

    from mcp_baton.cli.remote.printing import console

    with Live(_table(listed()), console=console(), auto_refresh=False) as live:
        try:
            while True:
                time.sleep(WATCH_S)
                live.update(_table(listed()), refresh=True)
        except KeyboardInterrupt:
            return


def _table(listed: Sequence[Mapping[str, Any]]) -> "Table":
    from rich.table import Table
    from rich.text import Text

    from mcp_baton.cli.remote.printing import PREFIX, STYLES, plain, since, status_text
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
        paused = pause and task["status"] == "working"
        status = status_text(task["status"])
        if paused:
            status = status.append(f", {PAUSED}", style=STYLES["paused"])
        at = meta.get("step") or task.get("statusMessage") or ""
        at = f"{at} ({pause['type']})" if pause else at
        table.add_row(
            Text(task["taskId"][:PREFIX]),
            Text(plain(meta.get("workflow") or meta.get("tool") or "")),
            status,
            Text(plain(at)),
            since(task.get("createdAt", ""), now_ms),
            since(task.get("lastUpdatedAt", ""), now_ms),
        )
    return table

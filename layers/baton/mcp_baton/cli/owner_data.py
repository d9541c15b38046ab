"""`baton export` and `baton forget`: the stored data of an owner (docs/operating.md, The data of an owner)."""

import json
import sys
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from mcp_baton.cli import options
from mcp_baton.cli.remote.errors import EXIT_DONE, print_error
from mcp_baton.exceptions import BatonError
from mcp_baton.local.clean_text import echo

if TYPE_CHECKING:
    from mcp_baton.cli.owner_items import OwnerItems
    from mcp_baton.tasks.dynamodb.attributes import Item

Owner = Annotated[str, typer.Option("--owner", metavar="OWNER", help="The owner, as in the keys of the items.")]
Table = Annotated[str, typer.Option("--table", parser=options.table_name, metavar="NAME", help="The table.")]


def export(owner: Owner, table: Table, dynamodb: options.Database = None, read_units: options.ReadUnits = 1000) -> int:
    """Print everything that is stored of an owner, as JSON lines.

    These are tasks with all their values, answers to questions, and approvals that the owner has requested.
    """

    def write(items: "OwnerItems", item: "Item") -> None:
        if line := items.exported(item):
            sys.stdout.write(f"{json.dumps(line)}\n")

    return _for_each(owner, table, dynamodb, read_units, write)


def forget(
    owner: Owner,
    table: Table,
    yes: Annotated[bool, typer.Option("--yes", help="Delete it. This cannot be undone.")] = False,
    dynamodb: options.Database = None,
    read_units: options.ReadUnits = 1000,
) -> int:
    """Delete everything that is stored of an owner.

    Approvals are kept for the audit, without their arguments and messages. The command can be repeated.
    """
    if not yes:
        raise BatonError("forget deletes everything that is stored of the owner, and cannot be undone: add --yes")
    counts = Counter[str]()

    def delete(items: "OwnerItems", item: "Item") -> None:
        if outcome := items.delete(item):
            counts[outcome] += 1

    try:
        return _for_each(owner, table, dynamodb, read_units, delete)
    finally:
        echo(", ".join(f"{name}: {count}" for name, count in sorted(counts.items())) or "nothing was deleted")


def _for_each(
    owner: str, table: str, dynamodb: str | None, read_units: float, process: "Callable[[OwnerItems, Item], None]"
) -> int:
    from mcp_baton.cli.owner_items import OwnerItems
    from mcp_baton.cli.remote.table import table_store
    from mcp_baton.cli.remote.table_scan import Scan

    try:
        with table_store(table, dynamodb) as store:
            items = OwnerItems(store, owner)
            with Scan(store.table, items.request, read_units) as scan:
                for item in filter(items.has, scan.items()):
                    process(items, item)
    except BatonError as error:
        return print_error(error, as_json=False)
    return EXIT_DONE

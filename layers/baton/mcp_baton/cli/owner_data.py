"""`baton export` and `baton forget`: the stored data of an owner (docs/operating.md, The data of an owner)."""

import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

import typer
from msgspec import structs, to_builtins

from mcp_baton.approvals.items import APPROVAL_ITEM_PREFIX as APPROVAL_PREFIX
from mcp_baton.approvals.items import LINK_PREFIX, to_approval
from mcp_baton.approvals.record import ApprovalRecord
from mcp_baton.approvals.waiting_items import WAITING_PREFIX as APPROVALS_PREFIX
from mcp_baton.callbacks.items import CALLBACK_PREFIX
from mcp_baton.cli import options
from mcp_baton.cli.remote.errors import EXIT_DONE, print_error
from mcp_baton.exceptions import BatonError, StoreError, StoreUnavailable
from mcp_baton.local.clean_text import echo
from mcp_baton.protocol.json import Json
from mcp_baton.questions.items import QUESTION_KEY
from mcp_baton.stores import DynamoDBStore
from mcp_baton.tasks.dynamodb.attributes import Item, decode
from mcp_baton.tasks.dynamodb.items import OWNER_PREFIX, QUESTION_PREFIX, TASK_PREFIX, owner_of
from mcp_baton.tasks.dynamodb.outside import VALUE_PREFIX, owner_digest
from mcp_baton.tasks.dynamodb.starts import START_PREFIX
from mcp_baton.tasks.texts import to_text

NOT_EXPORTED: Final = ("large_values", "source")


class OwnerItems:
    """The items of an owner: tasks, counts, questions and values; the starts of its calls and events; the addresses of
    callbacks to its tasks; and the approvals that it has requested, with their links."""

    def __init__(self, store: DynamoDBStore, owner: str) -> None:
        self._store = store
        self._owner = owner

    @property
    def request(self) -> dict[str, Any]:
        """The filter of a scan for these items. It also matches approvals, links, addresses and starts of other owners,
        because their keys do not contain the owner."""
        owner = to_text(self._owner)
        prefixes = [f"{QUESTION_PREFIX}{owner}#", f"{VALUE_PREFIX}{owner_digest(self._owner)}#"]
        prefixes += [APPROVAL_PREFIX, APPROVALS_PREFIX, LINK_PREFIX, CALLBACK_PREFIX, START_PREFIX]
        values = {f":{number}": {"S": prefix} for number, prefix in enumerate(prefixes)}
        matches = " OR ".join(["pk=:owner", *(f"begins_with(pk,{placeholder})" for placeholder in values)])
        values[":owner"] = {"S": f"{OWNER_PREFIX}{owner}"}
        return {"FilterExpression": matches, "ExpressionAttributeValues": values}

    def has(self, item: Item) -> bool:
        """Whether an item that the scan has found is the owner's."""
        if item["pk"]["S"].startswith(OWNER_PREFIX):
            return owner_of(item) == self._owner
        if item["pk"]["S"].startswith(QUESTION_PREFIX):  # another owner's name may begin with this one and a `#`
            return item["pk"]["S"].rpartition("#")[0] == f"{QUESTION_PREFIX}{to_text(self._owner)}"
        if item["pk"]["S"].startswith((CALLBACK_PREFIX, APPROVALS_PREFIX, START_PREFIX)):
            return item["owner"]["S"] == to_text(self._owner)
        if item["pk"]["S"].startswith(LINK_PREFIX):
            record = self._store.approvals.get(item["approval_id"]["S"])
            return record is not None and record.owner == self._owner
        record = _approval(item)
        return record is None or record.owner == self._owner

    def exported(self, item: Item) -> dict[str, Json] | None:
        """What an item stores. `None` for a count, and for a value: it is exported with its task."""
        if (approval := _approval(item)) is not None:
            return {"kind": "approval", **approval.to_json(for_requester=True)}
        if item["pk"]["S"].startswith(LINK_PREFIX):
            return {"kind": "link", "approvalId": item["approval_id"]["S"]}
        if item["pk"]["S"].startswith(CALLBACK_PREFIX):
            return {"kind": "callback", "task": item["task"]["S"], "step": item["step"]["S"]}
        if item["pk"]["S"].startswith(START_PREFIX):
            return {"kind": "start", "task": item["task"]["S"] if "task" in item else None}
        if item["sk"]["S"] == QUESTION_KEY:
            return {"kind": "question", "answer": decode(item["answer"]) if "answer" in item else None}
        return self._task(item) if item["sk"]["S"].startswith(TASK_PREFIX) else None

    def _task(self, item: Item) -> dict[str, Json]:
        task = self._store.record(self._owner, item)
        members = {name: value for name, value in structs.asdict(task).items() if name not in NOT_EXPORTED}
        if task.job is not None:
            members["job"] = structs.replace(task.job, asked=_values(task.job.asked), answers=_values(task.job.answers))
        exported: dict[str, Json] = to_builtins({"kind": "task", **members, "variables": _values(task.variables)})
        return exported | _values(task.large_values)

    def delete(self, item: Item) -> str | None:
        """Delete an item, or remove the arguments of an approval. Returns what was done; `None` for nothing."""
        if (approval := _approval(item)) is not None:
            return "approvals without arguments" if self._store.approvals.redact(approval) else None
        self._store.table.delete({"pk": item["pk"], "sk": item["sk"]})
        return f"{item['sk']['S'].partition('#')[0].lower()}s deleted"


def _approval(item: Item) -> ApprovalRecord | None:
    return to_approval(item) if item["pk"]["S"].startswith(APPROVAL_PREFIX) else None


def _values(values: Mapping[str, Json]) -> dict[str, Json]:
    """The values; for a lost one, the reason."""
    readable: dict[str, Json] = {}
    for name in values:
        try:
            readable[name] = values[name]
        except StoreUnavailable:
            raise
        except StoreError as lost:
            readable[name] = {"error": str(lost)}
    return readable


Owner = Annotated[str, typer.Option("--owner", metavar="OWNER", help="The owner, as in the keys of the items.")]
Table = Annotated[str, typer.Option("--table", parser=options.table_name, metavar="NAME", help="The table.")]


def export(owner: Owner, table: Table, dynamodb: options.Database = None, read_units: options.ReadUnits = 1000) -> int:
    """Print all stored data of an owner, as JSON lines.

    These are tasks with all their values, answers to questions, and approvals that the owner has requested.
    """

    def write(items: OwnerItems, item: Item) -> None:
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
    """Delete all stored data of an owner.

    Approvals are kept for the audit, without their arguments and messages. The command can be repeated.
    """
    if not yes:
        raise BatonError("forget deletes all stored data of the owner, and cannot be undone: add --yes")
    counts = Counter[str]()

    def delete(items: OwnerItems, item: Item) -> None:
        if outcome := items.delete(item):
            counts[outcome] += 1

    try:
        return _for_each(owner, table, dynamodb, read_units, delete)
    finally:
        echo(", ".join(f"{name}: {count}" for name, count in sorted(counts.items())) or "nothing was deleted")


def _for_each(
    owner: str, table: str, dynamodb: str | None, read_units: float, process: Callable[[OwnerItems, Item], None]
) -> int:
    from mcp_baton.cli.remote.table import Scan, table_store

    if not owner:
        raise BatonError("--owner is empty: name the owner")
    try:
        with table_store(table, dynamodb) as store:
            items = OwnerItems(store, owner)
            with Scan(store.table, items.request, read_units) as scan:
                for item in filter(items.has, scan.items()):
                    process(items, item)
    except BatonError as error:
        return print_error(error, as_json=False)
    return EXIT_DONE

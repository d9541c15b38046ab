"""Everything that is stored of one owner, to export or delete it (docs/operating.md, The data of an owner)."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import structs, to_builtins

from mcp_baton.approvals.items import APPROVAL_ITEM_PREFIX as APPROVAL_PREFIX
from mcp_baton.approvals.items import LINK_PREFIX, to_approval
from mcp_baton.approvals.record import ApprovalRecord
from mcp_baton.approvals.waiting_items import WAITING_PREFIX as APPROVALS_PREFIX
from mcp_baton.callbacks.items import CALLBACK_PREFIX
from mcp_baton.exceptions import StoreError, StoreUnavailable
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

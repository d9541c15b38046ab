"""The addresses of callbacks, one small item for each, in the table of the tasks (ARCHITECTURE.md, Items)."""

from mcp_baton.tasks.callbacks import CallbackTarget
from mcp_baton.tasks.dynamodb.attributes import Item
from mcp_baton.tasks.dynamodb.items import expired
from mcp_baton.tasks.dynamodb.table import TaskTable
from mcp_baton.tasks.texts import from_text, to_text

CALLBACK_PREFIX = "CALLBACK#"
CALLBACK_SORT_KEY = "CALLBACK"


class DynamoDBCallbackStore:
    """A `CallbackStore`."""

    def __init__(self, table: TaskTable) -> None:
        self._table = table

    def add(self, digest: str, pointer: CallbackTarget, until_ms: int) -> None:
        item: Item = {
            **callback_key(digest),
            "owner": {"S": to_text(pointer.owner)},
            "task": {"S": pointer.task_id},
            "step": {"S": to_text(pointer.step)},
            "expires_at": {"N": str(-(-until_ms // 1000))},
        }
        if pointer.job_id is not None:
            item["job"] = {"S": pointer.job_id}
        self._table.create(item, "the callback's token is taken")

    def find(self, digest: str) -> CallbackTarget | None:
        item = self._table.get(callback_key(digest))
        if item is None or expired(item, self._table.clock_ms()):
            return None
        job = item["job"]["S"] if "job" in item else None
        return CallbackTarget(from_text(item["owner"]["S"]), item["task"]["S"], from_text(item["step"]["S"]), job)


def callback_key(digest: str) -> Item:
    return {"pk": {"S": f"{CALLBACK_PREFIX}{digest}"}, "sk": {"S": CALLBACK_SORT_KEY}}

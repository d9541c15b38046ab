"""The addresses of callbacks, one small item for each, in the table of the tasks (ARCHITECTURE.md, Items)."""

from mcp_baton.tasks.dynamodb.attributes import Item, attributes, primary_key
from mcp_baton.tasks.dynamodb.items import expired, whole_s
from mcp_baton.tasks.dynamodb.table import TaskTable
from mcp_baton.tasks.store import CallbackTarget
from mcp_baton.tasks.texts import from_text, to_text

CALLBACK_PREFIX = "CALLBACK#"
CALLBACK_SORT_KEY = "CALLBACK"


class DynamoDBCallbackStore:
    """A `CallbackStore`."""

    def __init__(self, table: TaskTable) -> None:
        self._table = table

    def add(self, digest: str, pointer: CallbackTarget, until_ms: int) -> None:
        item = callback_key(digest) | attributes(
            owner=to_text(pointer.owner),
            task=pointer.task_id,
            step=to_text(pointer.step),
            job=pointer.job_id,
            expires_at=whole_s(until_ms),
        )
        self._table.create(item, "the callback's token is taken")

    def find(self, digest: str) -> CallbackTarget | None:
        item = self._table.get(callback_key(digest))
        if item is None or expired(item, self._table.clock_ms()):
            return None
        job = item["job"]["S"] if "job" in item else None
        return CallbackTarget(from_text(item["owner"]["S"]), item["task"]["S"], from_text(item["step"]["S"]), job)


def callback_key(digest: str) -> Item:
    return primary_key(CALLBACK_PREFIX + digest, CALLBACK_SORT_KEY)

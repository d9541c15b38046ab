"""What is asked of all tasks of one owner: a page of them."""

from typing import TYPE_CHECKING

from mcp_baton.tasks.dynamodb.attributes import Item
from mcp_baton.tasks.dynamodb.cursors import from_cursor
from mcp_baton.tasks.dynamodb.items import LISTED, LISTED_VARIABLES, TASK_PREFIX, Limits, partition
from mcp_baton.tasks.dynamodb.shards import Merged, Read, merged_page, names, task_id_of
from mcp_baton.tasks.dynamodb.table import TaskTable

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import QueryInputTypeDef

LAST = "~"
"""After every id."""

SMALLEST_READ = 8
"""Tasks that are read of one shard at a time, at least."""


def page_of(table: TaskTable, owner: str, cursor: str | None, now_ms: int, limits: Limits) -> Merged:
    """A page of an owner's tasks, newest first, expired ones left out: one `Query` a shard, and more where a shard
    holds few that are to be listed.

    Raises:
        ValueError: the cursor is not one that a list gave out.
    """
    after = None if cursor is None else from_cursor(cursor)
    shards = names(limits.shards)
    # Newest first, tasks are spread evenly: a page of fifty reads no fifty tasks from each of 32 shards.
    most = limits.page_size if len(shards) == 1 else max(limits.page_size * 2 // len(shards), SMALLEST_READ)

    def read(shard: str, after: str | None) -> Read:
        page = table.query(_page_query(table.name, owner, shard, now_ms, most, after))
        last = page.get("LastEvaluatedKey")
        return Read(page["Items"], None if last is None else task_id_of(last))

    return merged_page(shards, after, limits.page_size, read)


def _page_query(table: str, owner: str, shard: str, now_ms: int, most: int, after: str | None) -> "QueryInputTypeDef":
    request = _query(table, owner, shard, "#e>:now", {":now": {"N": str(now_ms // 1000)}}, after)
    listed = {f"#{place}": name for place, name in enumerate(LISTED)}
    variables = {f"#v{place}": name for place, name in enumerate(LISTED_VARIABLES)}
    request["ExpressionAttributeNames"] = {"#e": "expires_at", "#v": "variables", **listed, **variables}
    request["ProjectionExpression"] = ",".join([*listed, *(f"#v.{name}" for name in variables)])
    request["ScanIndexForward"] = False
    request["Limit"] = most
    return request


def _query(
    table: str, owner: str, shard: str, condition: str, values: Item, after: str | None = None
) -> "QueryInputTypeDef":
    return {
        "TableName": table,
        "ConsistentRead": True,
        "KeyConditionExpression": "pk=:owner AND sk BETWEEN :first AND :last",
        "FilterExpression": condition,
        "ExpressionAttributeValues": {
            ":owner": partition(owner, shard),
            ":first": {"S": TASK_PREFIX},
            ":last": {"S": TASK_PREFIX + (LAST if after is None else before(after))},
            **values,
        },
    }


def before(task_id: str) -> str:
    """The text after which, among texts of an id's length, this id is the next."""
    return task_id[:-1] + chr(ord(task_id[-1]) - 1)

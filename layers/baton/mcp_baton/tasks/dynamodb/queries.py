"""What is asked of all tasks of one owner: a page of them, and how many are live. One partition of the table each."""

from typing import TYPE_CHECKING

from mcp_baton.tasks.dynamodb.attributes import Item
from mcp_baton.tasks.dynamodb.items import LISTED, LISTED_VARIABLES, TASK_PREFIX, key_of, partition
from mcp_baton.tasks.dynamodb.table import TaskTable
from mcp_baton.tasks.record import LIVE

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import QueryInputTypeDef


QUERIES_A_PAGE = 8
"""How many requests fill a page at most; expired tasks, which DynamoDB deletes late, fill none."""


def listed_page(
    table: TaskTable, owner: str, now_ms: int, size: int, after: str | None
) -> tuple[list[Item], str | None]:
    """A page of an owner's tasks, newest first, as far as a listing reads them.

    Args:
        table: The table.
        owner: Whose tasks.
        now_ms: The time, epoch milliseconds; what expired before it is left out.
        size: The most tasks on the page. There are fewer only at the end, or behind very many expired ones.
        after: The task id after which the page begins.

    Returns:
        The items, and the task id after which the next page begins; `None` on the last.
    """
    request = _page_query(table.name, owner, now_ms, size)
    if after is not None:
        request["ExclusiveStartKey"] = key_of(owner, after)
    found: list[Item] = []
    last: Item | None = None
    for _ in range(QUERIES_A_PAGE):
        page = table.query(request)
        found += page["Items"]
        if len(found) > size:
            return found[:size], _task_id(found[size - 1])
        last = page.get("LastEvaluatedKey")
        if last is None or len(found) == size:
            break
        request["ExclusiveStartKey"] = last
    return found, None if last is None else _task_id(last)


def _task_id(item: Item) -> str:
    return item["sk"]["S"].removeprefix(TASK_PREFIX)


def _page_query(table: str, owner: str, now_ms: int, page_size: int) -> "QueryInputTypeDef":
    request = _query(table, owner, "#e>:now", {":now": {"N": str(now_ms // 1000)}})
    names = {f"#{place}": name for place, name in enumerate(LISTED)}
    variables = {f"#v{place}": name for place, name in enumerate(LISTED_VARIABLES)}
    request["ExpressionAttributeNames"] = {"#e": "expires_at", "#v": "variables", **names, **variables}
    request["ProjectionExpression"] = ",".join([*names, *(f"#v.{name}" for name in variables)])
    request["ScanIndexForward"] = False
    request["Limit"] = page_size
    return request


def live_tasks(table: TaskTable, owner: str, now_ms: int, *, enough: int) -> int:
    """How many live tasks an owner has; once there are `enough`, no more are counted."""
    live = {f":{place}": status for place, status in enumerate(sorted(LIVE))}
    condition = f"#e>:now AND #s IN ({','.join(live)})"
    values: Item = {":now": {"N": str(now_ms // 1000)}, **{k: {"S": status} for k, status in live.items()}}
    request = _query(table.name, owner, condition, values)
    request["ExpressionAttributeNames"] = {"#e": "expires_at", "#s": "status"}
    request["Select"] = "COUNT"
    count = 0
    while count < enough:
        page = table.query(request)
        count += page["Count"]
        if "LastEvaluatedKey" not in page:
            break
        request["ExclusiveStartKey"] = page["LastEvaluatedKey"]
    return count


def _query(table: str, owner: str, condition: str, values: Item) -> "QueryInputTypeDef":
    return {
        "TableName": table,
        "ConsistentRead": True,
        "KeyConditionExpression": "pk=:owner AND begins_with(sk,:task)",
        "FilterExpression": condition,
        "ExpressionAttributeValues": {":owner": partition(owner), ":task": {"S": TASK_PREFIX}, **values},
    }

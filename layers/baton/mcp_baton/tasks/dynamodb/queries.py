"""What is asked of all tasks of one owner: a page of them, and how many are live. One partition of the table each."""

from typing import TYPE_CHECKING

from mcp_baton.tasks.dynamodb.attributes import Item
from mcp_baton.tasks.dynamodb.items import LISTED, TASK_PREFIX, partition
from mcp_baton.tasks.dynamodb.patience import CREATE
from mcp_baton.tasks.dynamodb.table import TaskTable
from mcp_baton.tasks.record import LIVE

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import QueryInputTypeDef


def page_query(table: str, owner: str, now_ms: int, page_size: int) -> "QueryInputTypeDef":
    """The `Query` for a page of an owner's tasks, newest first, from the first one on."""
    request = _query(table, owner, "#e>:now", {":now": {"N": str(now_ms // 1000)}})
    names = {f"#{place}": name for place, name in enumerate(LISTED)}
    request["ExpressionAttributeNames"] = {"#e": "expires_at", **names}
    request["ProjectionExpression"] = ",".join(names)
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
        page = table.query(request, CREATE)
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

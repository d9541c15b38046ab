"""The outbox: the jobs that sweeps check, in an index of the table (docs/storage.md, The outbox)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from mcp_baton.tasks.dynamodb.attributes import Item
from mcp_baton.tasks.dynamodb.items import LISTED_AT, LISTED_IN, LISTS, OUTBOX_SHARDS, list_time, outbox_name
from mcp_baton.tasks.dynamodb.table import TaskTable
from mcp_baton.telemetry import SILENT

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import QueryInputTypeDef


def due_keys(table: TaskTable) -> Iterator[Item]:
    """The keys of the items that are due, in random order. A later sweep gets those for which this one has no time."""
    # There is a sweep every minute, mostly without an item. Metrics of its queries would cost more than the sweeps.
    table, now = replace(table, telemetry=SILENT), list_time(table.clock_ms())
    for shard in sorted(range(OUTBOX_SHARDS), key=lambda _: table.rng()):
        request = {
            "TableName": table.name,
            "IndexName": LISTS,
            "KeyConditionExpression": f"{LISTED_IN}=:list AND {LISTED_AT}<:now",
            "ExpressionAttributeValues": {":list": {"S": outbox_name(shard)}, ":now": {"S": now}},
        }
        while request:
            page = table.query(cast("QueryInputTypeDef", request))
            yield from sorted(page["Items"], key=lambda _: table.rng())
            start = page.get("LastEvaluatedKey")
            request = {**request, "ExclusiveStartKey": start} if start else {}

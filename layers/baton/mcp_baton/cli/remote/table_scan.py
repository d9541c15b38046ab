"""Scans of a whole table, for operators: page by page, at a limited rate."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, Self

from botocore.exceptions import BotoCoreError, ClientError
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from mcp_baton.cli.remote.printing import console
from mcp_baton.tasks.dynamodb.attributes import Item
from mcp_baton.tasks.dynamodb.retries import RetryPolicy
from mcp_baton.tasks.dynamodb.table import TaskTable

SCAN_RETRIES: Final = RetryPolicy(throttled_s=300.0, unanswered_s=30.0)


class Scan(Progress):
    """One scan, with a progress bar at a terminal. `request` has the filter and the projection, `units_per_s` is the
    most read units a second. `units` are those that DynamoDB has charged."""

    def __init__(self, table: TaskTable, request: Mapping[str, Any], units_per_s: float) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        disabled = not sys.stderr.isatty()
        super().__init__(
            *columns, console=console(errors=True), transient=True, redirect_stdout=False, disable=disabled
        )
        self._table = table
        self._request = {"ReturnConsumedCapacity": "TOTAL", **request}
        self._units_per_s = units_per_s
        self.units = 0.0

    def __enter__(self) -> Self:
        size = None
        # The table's owner may forbid the question. DynamoDB counts every six hours.
        with suppress(BotoCoreError, ClientError):
            if not self.disable:
                size = self._table.connection.client().describe_table(TableName=self._table.name)["Table"]["ItemCount"]
        self._bar = self.add_task("items read", total=size)
        super().__enter__()
        return self

    def describe(self, text: str) -> None:
        """Show a text beside the progress bar."""
        self.update(self._bar, description=text)

    def items(self) -> Iterator[Item]:
        request = self._request
        while True:
            began_s = self._table.monotonic()
            page = self._table.scan(request, SCAN_RETRIES)
            units = page.get("ConsumedCapacity", {}).get("CapacityUnits", 0.0)
            self.units += units
            yield from page["Items"]
            self.advance(self._bar, page["ScannedCount"])
            if "LastEvaluatedKey" not in page:
                return
            request = {**self._request, "ExclusiveStartKey": page["LastEvaluatedKey"]}
            self._table.sleep(max(0.0, units / self._units_per_s - (self._table.monotonic() - began_s)))

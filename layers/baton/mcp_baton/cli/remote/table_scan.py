"""Scans of a whole table, for operators: page by page, at a limited rate, and from any position on."""

import json
import sys
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Self

from mcp_baton.cli.remote.printing import console
from mcp_baton.exceptions import BatonError, StoreError
from mcp_baton.local.clean_text import echo
from mcp_baton.tasks.dynamodb.attributes import Item
from mcp_baton.tasks.dynamodb.table import RetryPolicy, TaskTable

if TYPE_CHECKING:
    from rich.progress import Progress

SCAN_RETRIES: Final = RetryPolicy(throttled_s=300.0, unanswered_s=30.0)


class Scan:
    """One scan.

    Args:
        request: The filter and the projection.
        units_per_s: The most read units a second.
        after: The position of an earlier scan that was interrupted: this one begins after it.

    Attributes:
        position: The key of the last item that was processed; `None` at the start and after the end.
        units: The read units that DynamoDB has charged.
    """

    def __init__(self, table: TaskTable, request: Mapping[str, Any], units_per_s: float, after: str | None) -> None:
        self._table = table
        self._request = {"ReturnConsumedCapacity": "TOTAL", **request}
        self._units_per_s = units_per_s
        self._bar: Progress | None = None
        self.position = None if after is None else _key(after)
        self.units = 0.0

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self._bar = Progress(*columns, console=console(errors=True), transient=True, redirect_stdout=False)
            self._bar.add_task("items read", total=self._size())
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        if isinstance(error, KeyboardInterrupt | StoreError) and self.token:
            echo(f"baton: interrupted. The rest: the same command with --after {self.token}", err=True)

    def describe(self, text: str) -> None:
        """Show a text beside the progress bar."""
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], description=text)

    @property
    def token(self) -> str | None:
        """The position as a text; `None` at the start and after the end."""
        if self.position is None:
            return None
        return urlsafe_b64encode(json.dumps(self.position).encode()).decode().rstrip("=")

    def items(self) -> Iterator[Item]:
        """Yield the items. The position moves past an item when the next one is requested."""
        request = self._request if self.position is None else {**self._request, "ExclusiveStartKey": self.position}
        while True:
            began_s = self._table.monotonic()
            page = self._table.scan(request, SCAN_RETRIES)
            for item in page["Items"]:
                yield item
                self.position = {"pk": item["pk"], "sk": item["sk"]}
            self.position = page.get("LastEvaluatedKey")
            if self._bar is not None:
                self._bar.advance(self._bar.task_ids[0], page["ScannedCount"])
            if self.position is None:
                return
            request = {**self._request, "ExclusiveStartKey": self.position}
            units = page.get("ConsumedCapacity", {}).get("CapacityUnits", 0.0)
            self.units += units
            self._table.sleep(max(0.0, units / self._units_per_s - (self._table.monotonic() - began_s)))

    def _size(self) -> int | None:
        """About how many items the table has; `None` if the caller may not ask. DynamoDB counts every six hours."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return self._table.connection.client().describe_table(TableName=self._table.name)["Table"]["ItemCount"]
        except (BotoCoreError, ClientError):
            return None


def _key(token: str) -> Item:
    try:
        match json.loads(urlsafe_b64decode(token + "=" * (-len(token) % 4))):
            case {"pk": {"S": str(pk)}, "sk": {"S": str(sk)}}:
                return {"pk": {"S": pk}, "sk": {"S": sk}}
    except ValueError:
        pass
    raise BatonError("--after is not the position of an interrupted command: copy it from the command's last line")

"""Where the values outside the heads are: items of their own in the same table, and S3 where there is a bucket."""

from typing import Protocol

from mcp_baton.light_dataclasses import dataclass
from mcp_baton.tasks.dynamodb.attributes import Item
from mcp_baton.tasks.dynamodb.overflow import ObjectStore


class ValueTable(Protocol):
    """The table, as far as values need it."""

    def put_value(self, item: Item) -> None:
        """Write one item, whatever was there: one unconditional `PutItem`.

        Raises:
            StoreUnavailable: it could not be written.
        """

    def get_value(self, key: Item, *, consistent: bool) -> Item | None:
        """Read one item.

        Raises:
            StoreUnavailable: it could not be read.
        """


@dataclass(frozen=True, slots=True)
class Outside:
    """Both places; `bucket` is `None` where there is none."""

    table: ValueTable
    bucket: ObjectStore | None = None

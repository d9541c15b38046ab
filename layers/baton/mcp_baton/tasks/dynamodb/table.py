"""The DynamoDB requests that a task store makes, with the failures it must tell apart (docs/storage.md).

Most writes carry a token that says whether an earlier attempt at it has landed.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from mcp_baton.exceptions import OutcomeUnknown, StoreUnavailable
from mcp_baton.tasks.dynamodb.attributes import Item
from mcp_baton.tasks.dynamodb.expressions import SETS, Update, stored_token
from mcp_baton.tasks.dynamodb.failures import ConditionFailed, ItemTooLarge
from mcp_baton.tasks.dynamodb.patience import CREATE, READ, RENEW, WRITE, Patience
from mcp_baton.tasks.dynamodb.sending import Sender, understood

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import QueryInputTypeDef, QueryOutputTypeDef

__all__ = ["ConditionFailed", "ItemTooLarge", "TaskTable"]


class TaskTable(Sender):
    """One table: see `Sender` for what it is made of."""

    def put(self, item: Item, token: str, patience: Patience = CREATE) -> None:
        """Write a new item.

        Raises:
            ConditionFailed: there is one with this key already.
            ItemTooLarge: it is too large.
            OutcomeUnknown: it may have been written.
        """

        request = {
            "TableName": self.name,
            "Item": item,
            "ConditionExpression": "attribute_not_exists(pk)",
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        begun_s = self._monotonic()
        try:
            self._repeated(lambda: self._ask("PutItem", request), patience, begun_s)
        except ConditionFailed as failed:
            self._landed({"pk": item["pk"], "sk": item["sk"]}, failed, token, patience, begun_s)

    def update(self, key: Item, update: Update, patience: Patience = WRITE, *, whole: bool = True) -> Item:
        """Make one write, however often it must be sent, and return the item after it.

        Where an attempt whose answer was lost had landed, the next one fails the condition that the token is not in
        the item yet: found there, it tells that apart from a lost race.

        Args:
            key: The item's primary key.
            update: The write.
            patience: For how long it is sent again.
            whole: Return all of the item; otherwise what was written of it may be all that is returned.

        Raises:
            ConditionFailed: a condition does not hold.
            ItemTooLarge: the item would become too large.
            OutcomeUnknown: it may have been written.
        """
        request: dict[str, Any] = {
            "TableName": self.name,
            "Key": key,
            "UpdateExpression": update.expression(),
            "ExpressionAttributeNames": update.names,
            "ExpressionAttributeValues": update.values,
            "ReturnValues": "ALL_NEW" if whole else "UPDATED_NEW",
        }
        if condition := update.condition():
            request["ConditionExpression"] = condition
            request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"

        def send() -> Item:
            item: Item = understood(self._ask("UpdateItem", request), "Attributes", OutcomeUnknown)["Attributes"]
            return item

        begun_s = self._monotonic()
        try:
            return self._repeated(send, patience, begun_s)
        except ConditionFailed as failed:
            return self._landed(key, failed, update.token, patience, begun_s)

    def get(self, key: Item, patience: Patience = READ, begun_s: float | None = None) -> Item | None:
        """Read one item, strongly consistent.

        Args:
            key: The item's primary key.
            patience: For how long the request is sent again.
            begun_s: The moment on `monotonic` from which that is counted; `None` for now.
        """
        return self._got({"TableName": self.name, "Key": key, "ConsistentRead": True}, patience, begun_s)

    def glance(self, key: Item, attributes: Sequence[str]) -> Item | None:
        """Read some attributes of one item, eventually consistent: half the price of a consistent read."""
        names = {f"#{place}": name for place, name in enumerate(attributes)}
        projection = {"ProjectionExpression": ",".join(names), "ExpressionAttributeNames": names}
        return self._got({"TableName": self.name, "Key": key, "ConsistentRead": False, **projection}, READ)

    def delete(self, key: Item) -> None:
        """Delete an item, if there is one."""
        self._read(lambda: self._ask("DeleteItem", {"TableName": self.name, "Key": key}), READ)

    def query(self, request: "QueryInputTypeDef", patience: Patience = READ) -> "QueryOutputTypeDef":
        """Read one page of a query."""
        page = self._read(lambda: understood(self._ask("Query", request), "Count"), patience)
        return cast("QueryOutputTypeDef", page)

    def put_value(self, item: Item) -> None:
        """Write a piece of a value, unless it is there and is kept as long. Nothing else is written under its key."""
        request = {
            "TableName": self.name,
            "Item": item,
            "ConditionExpression": "attribute_not_exists(pk) OR expires_at<:until",
            "ExpressionAttributeValues": {":until": item["expires_at"]},
        }
        with suppress(ConditionFailed):
            self._read(lambda: self._ask("PutItem", request), RENEW)

    def get_value(self, key: Item, *, consistent: bool) -> Item | None:
        """Read a piece of a value; an eventually consistent read is half the price, and may miss a new one."""
        return self._got({"TableName": self.name, "Key": key, "ConsistentRead": consistent}, READ)

    def _got(self, request: Mapping[str, Any], patience: Patience, begun_s: float | None = None) -> Item | None:
        item: Item | None = self._read(lambda: self._ask("GetItem", request), patience, begun_s).get("Item")
        return item

    def _landed(
        self, key: Item, failed: ConditionFailed, token: str | None, patience: Patience, begun_s: float
    ) -> Item:
        # A refusal shows no item where there is none, and some engines never show it (dynalite). The read that tells
        # these apart is part of the write: it has what is left of the write's time.
        try:
            item = failed.item or self.get(key, patience, begun_s)
        except StoreUnavailable as error:
            raise OutcomeUnknown(f"whether it was written could not be read: {error}") from error
        if item is not None and token is not None and has_token(item, token):
            return item
        raise ConditionFailed(item, unsure=failed.unsure) from failed


def has_token(item: Item, token: str) -> bool:
    """Whether the write with this token has been applied to the item."""
    stored = stored_token(token)
    return any(stored in map(bytes, item[name]["BS"]) for name in SETS if name in item)

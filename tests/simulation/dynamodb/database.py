"""A table with `pk` and `sk` in memory. Implements DynamoDB's requests, conditions, updates, limits and errors.

It supports the requests that Baton sends and rejects all others. `test_expressions.py` compares it with DynamoDB Local.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from tests.simulation.dynamodb.conditions import Bindings, compile_condition
from tests.simulation.dynamodb.paths import Attribute, Item, Path, read_path, resolve, value_at
from tests.simulation.dynamodb.refusals import ConditionFalse, Invalid
from tests.simulation.dynamodb.tokens import tokens_of
from tests.simulation.dynamodb.updates import apply_update, check

type Key = tuple[str, str]
type Answer = dict[str, Any]

PAGE_BYTES = 1_048_576
ITEM_BYTES = 409_600
MAX_KEY_BYTES = {"pk": 2048, "sk": 1024}
INDEXES = {"lists": ("listed_in", "listed_at")}
"""The indexes of the table, with their partition keys and sort keys. They contain only the keys of items."""


@dataclass(frozen=True, slots=True)
class Change:
    """A write that was made.

    Attributes:
        before: The item before the write; `None` if there was none.
        after: The item after the write; `None` if it was deleted.
        values: The values that an update set, by path; `None` for removed values.
    """

    operation: str
    key: Key
    before: Item | None
    after: Item | None
    values: Mapping[Path, Attribute | None]


@dataclass(slots=True)
class Database:
    """The table.

    Attributes:
        items: The items by key. An item is never modified: a write replaces it.
        on_write: Called after each write.
    """

    items: dict[Key, Item] = field(default_factory=dict)
    on_write: Callable[[Change], None] = lambda _change: None

    def request(self, operation: str, request: Mapping[str, Any]) -> Answer:
        """Make the request with this name."""
        return OPERATIONS[operation](self, **{name: value for name, value in request.items() if name != "TableName"})

    def put_item(self, **request: Any) -> Answer:
        item: Item = fresh(request.pop("Item"))
        key = key_of(item)
        before = self.items.get(key)
        self._check(before, request)
        _check_values(item.values())
        if item_bytes(item) > ITEM_BYTES:
            raise Invalid("Item size has exceeded the maximum allowed size")
        self._write("PutItem", key, before, item, {(name,): value for name, value in item.items()})
        return {}

    def update_item(self, **request: Any) -> Answer:
        key_item: Item = request.pop("Key")
        key = key_of(key_item)
        expression, return_values = request.pop("UpdateExpression"), request.pop("ReturnValues", "NONE")
        bindings = Bindings(request.get("ExpressionAttributeNames", {}), request.get("ExpressionAttributeValues", {}))
        before = self.items.get(key)
        self._check(before, request, check(expression, bindings))
        update = apply_update(before or dict(key_item), expression, bindings)
        if any(path[0] in MAX_KEY_BYTES for path in update.values):
            raise Invalid(
                "One or more parameter values were invalid: Cannot update attribute pk. It is part of the key"
            )
        if item_bytes(update.item) > ITEM_BYTES:
            raise Invalid("Item size to update has exceeded the maximum allowed size")
        self._write("UpdateItem", key, before, update.item, update.values)
        match return_values:
            case "ALL_NEW":
                return {"Attributes": fresh(update.item)}
            case "UPDATED_NEW":
                parts = [(path, value) for path in update.values if (value := value_at(update.item, path)) is not None]
                return {"Attributes": projected(parts)} if parts else {}
            case "NONE":
                return {}
            case _:
                raise Invalid(f"not understood: ReturnValues={return_values}")

    def get_item(self, **request: Any) -> Answer:
        key, expression = key_of(request.pop("Key")), request.pop("ProjectionExpression", None)
        names = request.pop("ExpressionAttributeNames", {})
        items = self.visible(consistent=request.pop("ConsistentRead", False))
        if request:
            raise Invalid(f"not understood: {', '.join(request)}")
        item = items.get(key)
        if item is None:
            return {}
        return {"Item": fresh(item) if expression is None else projection(item, expression, names)}

    def delete_item(self, **request: Any) -> Answer:
        key = key_of(request.pop("Key"))
        before = self.items.get(key)
        self._check(before, request)
        if before is not None:
            self._write("DeleteItem", key, before, None, {})
        return {}

    def query(self, **request: Any) -> Answer:
        names, values = request.pop("ExpressionAttributeNames", {}), request.pop("ExpressionAttributeValues", {})
        bindings = Bindings(names, values)
        matches, _ = compile_condition(request.pop("KeyConditionExpression"), "KeyConditionExpression")
        condition = request.pop("FilterExpression", None)
        accepts = compile_condition(condition, "FilterExpression")[0] if condition else None
        fields, is_count = request.pop("ProjectionExpression", None), request.pop("Select", None) == "COUNT"
        limit, is_forward = request.pop("Limit", None), request.pop("ScanIndexForward", True)
        start_key, index = request.pop("ExclusiveStartKey", None), request.pop("IndexName", None)
        consistent = request.pop("ConsistentRead", False)
        if request or (index is not None and (consistent or index not in INDEXES)):
            raise Invalid(f"not understood: {', '.join(request) or index}")
        indexed = () if index is None else INDEXES[index]
        items = {
            key: item
            for key, item in self.visible(consistent=consistent).items()
            if all(name in item for name in indexed)
        }

        def place(item: Item) -> tuple[str, ...]:
            return *(item[name]["S"] for name in indexed), *key_of(item)

        keys = sorted(
            (key for key, item in items.items() if matches(item, bindings)),
            key=lambda key: place(items[key]),
            reverse=not is_forward,
        )
        if start_key is not None:
            start = place(start_key)
            keys = [key for key in keys if (place(items[key]) > start if is_forward else place(items[key]) < start)]
        read_keys, size = [], 0
        for key in keys[:limit]:
            read_keys.append(key)
            size += item_bytes(items[key])
            if size >= PAGE_BYTES:
                break
        found_items = [items[key] for key in read_keys if accepts is None or accepts(items[key], bindings)]
        if index is not None:
            found_items = [keys_in(item, indexed) for item in found_items]
        answer: Answer = {"Count": len(found_items), "ScannedCount": len(read_keys)}
        if not is_count:
            answer["Items"] = [
                fresh(item) if fields is None else projection(item, fields, names) for item in found_items
            ]
        if len(read_keys) < len(keys) or (limit is not None and len(read_keys) == limit):
            answer["LastEvaluatedKey"] = keys_in(items[read_keys[-1]], indexed)
        return answer

    def visible(self, *, consistent: bool) -> Mapping[Key, Item]:  # noqa: ARG002 - a subclass uses it
        """Return the items that a read sees. Here, each read is consistent."""
        return self.items

    def expire(self, key: Key) -> None:
        """Delete an item, as DynamoDB does some time after the item's `expires_at`."""
        before = self.items.get(key)
        if before is not None:
            self._write("expire", key, before, None, {})

    def _check(self, before: Item | None, request: dict[str, Any], used_in_update: Iterable[str] = ()) -> None:
        names, values = request.pop("ExpressionAttributeNames", {}), request.pop("ExpressionAttributeValues", {})
        on_failure = request.pop("ReturnValuesOnConditionCheckFailure", "NONE")
        condition = request.pop("ConditionExpression", None)
        if request:
            raise Invalid(f"not understood: {', '.join(request)}")
        test, used_in_condition = compile_condition(condition) if condition is not None else (None, frozenset())
        _check_values(values.values())
        unused = {*names, *values}.difference(used_in_update, used_in_condition)
        if unused:
            raise Invalid(f"Value provided in ExpressionAttributeValues unused in expressions: keys: {sorted(unused)}")
        if test is not None and not test(before or {}, Bindings(names, values)):
            raise ConditionFalse(fresh(before) if before is not None and on_failure == "ALL_OLD" else None)

    def _write(
        self, operation: str, key: Key, before: Item | None, after: Item | None, values: Mapping[Path, Attribute | None]
    ) -> None:
        if after is None:
            del self.items[key]
        else:
            self.items[key] = after
        self.on_write(Change(operation, key, before, after, values))


OPERATIONS: dict[str, Callable[..., Answer]] = {
    "PutItem": Database.put_item,
    "UpdateItem": Database.update_item,
    "GetItem": Database.get_item,
    "DeleteItem": Database.delete_item,
    "Query": Database.query,
}


def key_of(item: Item) -> Key:
    """Return an item's primary key."""
    for name, max_bytes in MAX_KEY_BYTES.items():
        value = item.get(name, {}).get("S")
        if not value or len(value.encode()) > max_bytes:
            raise Invalid(f"One or more parameter values were invalid: the key {name} is missing, empty or too long")
    return item["pk"]["S"], item["sk"]["S"]


def keys_in(item: Item, indexed: Iterable[str]) -> Item:
    """Return the keys of an item, including those of an index."""
    return {name: item[name] for name in (*MAX_KEY_BYTES, *indexed)}


def fresh(item: Item) -> Item:
    """Return a deep copy of an item."""
    return {name: _fresh(value) for name, value in item.items()}


def _fresh(attribute: Attribute) -> Attribute:
    for kind, value in attribute.items():
        if kind == "M":
            return {"M": {name: _fresh(element) for name, element in value.items()}}
        if kind == "L":
            return {"L": [_fresh(element) for element in value]}
        return {kind: list(value) if kind == "BS" else value}
    raise Invalid("Supplied AttributeValue is empty, must contain exactly one of the supported datatypes")


def projection(item: Item, expression: str, names: Mapping[str, str]) -> Item:
    """Return the parts of an item that a projection expression names."""
    paths = [resolve(path, names) for path in _projected_paths(expression)]
    return projected([(path, value) for path in paths if (value := value_at(item, path)) is not None])


@lru_cache(maxsize=4096)
def _projected_paths(expression: str) -> tuple[Path, ...]:
    tokens = tokens_of(expression, "ProjectionExpression")
    paths = [read_path(tokens)]
    while tokens.take_if(","):
        paths.append(read_path(tokens))
    return tuple(paths)


def projected(parts: Iterable[tuple[Path, Attribute]]) -> Item:
    """Return these parts of an item inside the maps and lists that contain them. Lists have only the named elements."""
    parts_by_name: dict[str | int, Any] = {}
    for path, value in parts:
        members = parts_by_name
        for part in path[:-1]:
            members = members.setdefault(part, {})
        members[path[-1]] = _Leaf(_fresh(value))
    return {str(name): _assembled(part) for name, part in parts_by_name.items()}


@dataclass(frozen=True, slots=True)
class _Leaf:
    value: Attribute


def _assembled(part: Any) -> Attribute:
    if isinstance(part, _Leaf):
        return part.value
    if all(isinstance(name, int) for name in part):
        return {"L": [_assembled(part[place]) for place in sorted(part)]}
    return {"M": {name: _assembled(element) for name, element in part.items()}}


def _check_values(values: Iterable[Attribute]) -> None:
    for value in values:
        if len(value) != 1:
            raise Invalid("Supplied AttributeValue is empty, must contain exactly one of the supported datatypes")
        if value.get("BS") == []:
            raise Invalid("One or more parameter values were invalid: An string set  may not be empty")


def item_bytes(item: Item) -> int:
    return sum(len(name.encode()) + value_bytes(value) for name, value in item.items())


def value_bytes(attribute: Attribute) -> int:
    ((kind, value),) = attribute.items()
    match kind:
        case "S":
            return len(value) if value.isascii() else len(value.encode())
        case "B":
            return len(value)
        case "N":
            return number_bytes(value)
        case "BS":
            return sum(map(len, value))
        case "M":
            return 3 + sum(1 + len(name.encode()) + value_bytes(element) for name, element in value.items())
        case "L":
            return 3 + sum(1 + value_bytes(element) for element in value)
        case _:
            return 1


def number_bytes(number: str) -> int:
    """Estimate the size of a number: a byte per two significant digits, one more, and one for a sign."""
    digits = number.lstrip("-").replace(".", "").strip("0")
    return 1 + (len(digits) + 1) // 2 + number.startswith("-")

"""Sizes of values (AWS: DynamoDB item sizes and formats)."""

from tests.simulation.dynamodb.paths import Attribute, Item

ITEM_BYTES = 409_600


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
    """About: a byte for two significant digits, one more, and one for a sign."""
    digits = number.lstrip("-").replace(".", "").strip("0")
    return 1 + (len(digits) + 1) // 2 + number.startswith("-")

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
        case "SS":
            return sum(len(text.encode()) for text in value)
        case "BS":
            return sum(map(len, value))
        case "NS":
            return sum(map(number_bytes, value))
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


def length_of(attribute: Attribute) -> int | None:
    """What `size()` says of a value; `None` for those that have no size."""
    ((kind, value),) = attribute.items()
    match kind:
        case "S":
            return len(value.encode())
        case "B" | "SS" | "NS" | "BS" | "M" | "L":
            return len(value)
        case _:
            return None

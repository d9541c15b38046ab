"""Document paths: parsing them, and reading and replacing the value at a path."""

from collections.abc import Mapping
from typing import Any

from tests.simulation.dynamodb.refusals import Invalid
from tests.simulation.dynamodb.tokens import Tokens

type Attribute = dict[str, Any]
type Item = dict[str, Attribute]
type Path = tuple[str | int, ...]
"""Names or placeholders for names, and list indexes."""

NO_SUCH_PATH = "The document path provided in the update expression is invalid for update"


def read_path(tokens: Tokens) -> Path:
    """Parse the next path, such as `#a.b[0]`."""
    parts: list[str | int] = [_name(tokens)]
    while True:
        if tokens.take_if("."):
            parts.append(_name(tokens))
        elif tokens.take_if("["):
            place = tokens.take()
            if not place.isdigit():
                raise Invalid(f'Invalid {tokens.kind}: Syntax error; token: "{place}"')
            parts.append(int(place))
            tokens.take("]")
        else:
            return tuple(parts)


def _name(tokens: Tokens) -> str:
    name = tokens.take()
    if name[0] != "#" and not name[0].isalpha():
        raise Invalid(f'Invalid {tokens.kind}: Syntax error; token: "{name}"')
    return name


def resolve(path: Path, names: Mapping[str, str]) -> Path:
    """Replace the placeholders in a path by the stored names."""
    parts: list[str | int] = []
    for part in path:
        if not isinstance(part, str) or part[0] != "#":
            parts.append(part)
        elif part in names:
            parts.append(names[part])
        else:
            raise Invalid(
                "An expression attribute name used in the document path is not defined; attribute name: " + part
            )
    return tuple(parts)


def value_at(item: Item, path: Path) -> Attribute | None:
    """Return the value at a path, or `None` if there is none."""
    value: Attribute | None = {"M": item}
    for part in path:
        if value is None:
            return None
        value = _inside(value, part)
    return value


def _inside(attribute: Attribute, part: str | int) -> Attribute | None:
    if isinstance(part, int):
        elements = attribute.get("L")
        return elements[part] if elements is not None and part < len(elements) else None
    members = attribute.get("M")
    return members.get(part) if members is not None else None


def with_value(item: Item, path: Path, value: Attribute | None) -> Item:
    """Return a copy of an item with this value at a path, or without a value there if it is `None`. Parts outside the
    path are shared."""
    changed: Item = _replace({"M": item}, path, value)["M"]
    return changed


def _replace(attribute: Attribute, path: Path, value: Attribute | None) -> Attribute:
    part, rest = path[0], path[1:]
    if isinstance(part, int):
        return {"L": _replace_element(attribute, part, rest, value)}
    if "M" not in attribute:
        raise Invalid(NO_SUCH_PATH)
    members = dict(attribute["M"])
    if rest:
        if part not in members:
            raise Invalid(NO_SUCH_PATH)
        members[part] = _replace(members[part], rest, value)
    elif value is None:
        members.pop(part, None)
    else:
        members[part] = value
    return {"M": members}


def _replace_element(attribute: Attribute, place: int, rest: Path, value: Attribute | None) -> list[Attribute]:
    if "L" not in attribute:
        raise Invalid(NO_SUCH_PATH)
    elements = list(attribute["L"])
    if rest:
        if place >= len(elements):
            raise Invalid(NO_SUCH_PATH)
        elements[place] = _replace(elements[place], rest, value)
    elif value is None:
        del elements[place : place + 1]
    elif place < len(elements):
        elements[place] = value
    else:
        elements.append(value)
    return elements


def check_paths(paths: list[Path]) -> None:
    """Reject an update of two paths if one contains the other, or if they use one value both as a list and as a map."""
    checked_paths: set[Path] = set()
    kinds: dict[Path, type] = {}
    for path in sorted(paths, key=len):
        for length in range(1, len(path) + 1):
            if path[:length] in checked_paths:
                raise Invalid(
                    "Invalid UpdateExpression: Two document paths overlap with each other; "
                    "must remove or rewrite one of these paths"
                )
            if length < len(path) and kinds.setdefault(path[:length], type(path[length])) is not type(path[length]):
                raise Invalid("Invalid UpdateExpression: Two document paths conflict with each other;")
        checked_paths.add(path)

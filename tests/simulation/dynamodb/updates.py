"""Update expressions (AWS: Update expressions in DynamoDB). All operands are read from the item before the update."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

from tests.simulation.dynamodb.conditions import Bindings, Operand
from tests.simulation.dynamodb.conditions import parse_operand as parse_plain_operand
from tests.simulation.dynamodb.paths import Attribute, Item, Path, check_paths, read_path, resolve, value_at, with_value
from tests.simulation.dynamodb.refusals import Invalid
from tests.simulation.dynamodb.tokens import Tokens, tokens_of

KIND = "UpdateExpression"
MISSING = "The provided expression refers to an attribute that does not exist in the item"
WRONG_TYPE = "An operand in the update expression has an incorrect data type"

type Value = Callable[[Attribute | None, Item, Bindings], Attribute | None]
"""Computes the new value at an action's path from the current value, the item and the placeholders."""


@dataclass(frozen=True, slots=True)
class Action:
    """One change. `value` returns the new value at the path, or `None` to remove it."""

    clause: str
    path: Path
    value: Value


@dataclass(frozen=True, slots=True)
class UpdatedItem:
    """The item after an update, and the values that the update set, by path."""

    item: Item
    values: dict[Path, Attribute | None]


@lru_cache(maxsize=4096)
def parse_update(expression: str) -> tuple[tuple[Action, ...], frozenset[str]]:
    """Parse an update expression. Return its actions and the placeholders that it uses."""
    tokens = tokens_of(expression, KIND)
    actions: list[Action] = []
    clauses: set[str] = set()
    while tokens.next:
        clause = tokens.take().upper()
        if clause not in CLAUSES:
            raise Invalid(f'Invalid {KIND}: Syntax error; token: "{clause}"')
        if clause in clauses:
            raise Invalid(f'Invalid {KIND}: The "{clause}" section can only be used once in an update expression;')
        clauses.add(clause)
        actions.append(CLAUSES[clause](tokens))
        while tokens.take_if(","):
            actions.append(CLAUSES[clause](tokens))
    return tuple(actions), frozenset(tokens.used)


def check(expression: str, bindings: Bindings) -> frozenset[str]:
    """Make the checks of an update that need no item. Return the placeholders that it uses."""
    actions, used = parse_update(expression)
    check_paths([resolve(action.path, bindings.names) for action in actions])
    return used


def apply_update(item: Item, expression: str, bindings: Bindings) -> UpdatedItem:
    actions, _ = parse_update(expression)
    paths = [resolve(action.path, bindings.names) for action in actions]
    values = {
        path: action.value(value_at(item, path), item, bindings) for path, action in zip(paths, actions, strict=True)
    }
    changed_item = item
    # The highest index of a list is changed first, so that a removal does not shift the others.
    for path in sorted(values, key=_places, reverse=True):
        changed_item = with_value(changed_item, path, values[path])
    return UpdatedItem(changed_item, values)


def _places(path: Path) -> tuple[int, ...]:
    return tuple(part for part in path if isinstance(part, int))


def _parse_set(tokens: Tokens) -> Action:
    path = read_path(tokens)
    tokens.take("=")
    left = _parse_operand(tokens)
    if not tokens.take_if("+"):
        return Action("SET", path, lambda _current, item, bindings: _required(left(item, bindings)))
    right = _parse_operand(tokens)
    return Action("SET", path, lambda _current, item, bindings: _sum(left(item, bindings), right(item, bindings)))


def _parse_operand(tokens: Tokens) -> Operand:
    if tokens.word != "IF_NOT_EXISTS" or tokens.all_tokens[tokens.position + 1 : tokens.position + 2] != ["("]:
        return parse_plain_operand(tokens)
    tokens.take()
    tokens.take("(")
    first = _parse_operand(tokens)
    tokens.take(",")
    second = _parse_operand(tokens)
    tokens.take(")")
    return lambda item, bindings: second(item, bindings) if (value := first(item, bindings)) is None else value


def _required(attribute: Attribute | None) -> Attribute:
    if attribute is None:
        raise Invalid(MISSING)
    return attribute


def _sum(left: Attribute | None, right: Attribute | None) -> Attribute:
    addend, other_addend = _required(left), _required(right)
    if "N" not in addend or "N" not in other_addend:
        raise Invalid(WRONG_TYPE)
    return {"N": number_text(Decimal(addend["N"]) + Decimal(other_addend["N"]))}


def number_text(number: Decimal) -> str:
    text = f"{number:f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"


def _parse_remove(tokens: Tokens) -> Action:
    return Action("REMOVE", read_path(tokens), lambda _current, _item, _bindings: None)


def _parse_add(tokens: Tokens) -> Action:
    path, placeholder = read_path(tokens), tokens.take()
    return Action("ADD", path, lambda current, _item, bindings: _sum_or_union(current, bindings.value(placeholder)))


def _sum_or_union(current: Attribute | None, value: Attribute) -> Attribute:
    ((kind, added_value),) = value.items()
    if kind not in {"N", "BS"}:
        raise Invalid("Invalid UpdateExpression: Incorrect operand type for operator or function; operator: ADD")
    if current is None:
        return value
    if kind not in current:
        raise Invalid(WRONG_TYPE)
    if kind == "N":
        return {"N": number_text(Decimal(current["N"]) + Decimal(added_value))}
    return {kind: [*current[kind], *(element for element in added_value if element not in current[kind])]}


CLAUSES: dict[str, Callable[[Tokens], Action]] = {"SET": _parse_set, "REMOVE": _parse_remove, "ADD": _parse_add}

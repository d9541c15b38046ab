"""Update expressions (AWS: Update expressions in DynamoDB). All operands are read from the item before the update."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

from tests.simulation.dynamodb.conditions import Given, Operand
from tests.simulation.dynamodb.conditions import operand as plain_operand
from tests.simulation.dynamodb.paths import Attribute, Item, Path, check_apart, found, read_path, resolved, with_value
from tests.simulation.dynamodb.refusals import Invalid
from tests.simulation.dynamodb.tokens import Tokens, tokens_of

KIND = "UpdateExpression"
MISSING = "The provided expression refers to an attribute that does not exist in the item"
WRONG_TYPE = "An operand in the update expression has an incorrect data type"

type Value = Callable[[Attribute | None, Item, Given], Attribute | None]
"""Computes the new value at an action's path from the current value, the item and the placeholders."""


@dataclass(frozen=True, slots=True)
class Action:
    """One change. `value` returns the new value at the path, or `None` to remove it."""

    clause: str
    path: Path
    value: Value


@dataclass(frozen=True, slots=True)
class Changed:
    """The item after an update, and the values that the update set, by path."""

    item: Item
    put: dict[Path, Attribute | None]


@lru_cache(maxsize=4096)
def parsed(expression: str) -> tuple[tuple[Action, ...], frozenset[str]]:
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
        while tokens.took(","):
            actions.append(CLAUSES[clause](tokens))
    return tuple(actions), frozenset(tokens.used)


def check(expression: str, given: Given) -> frozenset[str]:
    """Make the checks of an update that need no item. Return the placeholders that it uses."""
    actions, used = parsed(expression)
    check_apart([resolved(action.path, given.names) for action in actions])
    return used


def updated(item: Item, expression: str, given: Given) -> Changed:
    """Apply an update to an item."""
    actions, _ = parsed(expression)
    paths = [resolved(action.path, given.names) for action in actions]
    put = {path: action.value(found(item, path), item, given) for path, action in zip(paths, actions, strict=True)}
    changed = item
    # The highest index of a list is changed first, so that a removal does not shift the others.
    for path in sorted(put, key=_places, reverse=True):
        changed = with_value(changed, path, put[path])
    return Changed(changed, put)


def _places(path: Path) -> tuple[int, ...]:
    return tuple(part for part in path if isinstance(part, int))


def _set(tokens: Tokens) -> Action:
    path = read_path(tokens)
    tokens.take("=")
    left = _operand(tokens)
    if not tokens.took("+"):
        return Action("SET", path, lambda _here, item, given: _needed(left(item, given)))
    right = _operand(tokens)
    return Action("SET", path, lambda _here, item, given: _sum(left(item, given), right(item, given)))


def _operand(tokens: Tokens) -> Operand:
    if tokens.word != "IF_NOT_EXISTS" or tokens.left[tokens.at + 1 : tokens.at + 2] != ["("]:
        return plain_operand(tokens)
    tokens.take()
    tokens.take("(")
    first = _operand(tokens)
    tokens.take(",")
    second = _operand(tokens)
    tokens.take(")")
    return lambda item, given: second(item, given) if (here := first(item, given)) is None else here


def _needed(attribute: Attribute | None) -> Attribute:
    if attribute is None:
        raise Invalid(MISSING)
    return attribute


def _sum(left: Attribute | None, right: Attribute | None) -> Attribute:
    one, other = _needed(left), _needed(right)
    if "N" not in one or "N" not in other:
        raise Invalid(WRONG_TYPE)
    return {"N": number_text(Decimal(one["N"]) + Decimal(other["N"]))}


def number_text(number: Decimal) -> str:
    text = f"{number:f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"


def _remove(tokens: Tokens) -> Action:
    return Action("REMOVE", read_path(tokens), lambda _here, _item, _given: None)


def _add(tokens: Tokens) -> Action:
    path, placeholder = read_path(tokens), tokens.take()
    return Action("ADD", path, lambda here, _item, given: _added(here, given.value(placeholder)))


def _added(here: Attribute | None, value: Attribute) -> Attribute:
    ((kind, added),) = value.items()
    if kind not in {"N", "BS"}:
        raise Invalid("Invalid UpdateExpression: Incorrect operand type for operator or function; operator: ADD")
    if here is None:
        return value
    if kind not in here:
        raise Invalid(WRONG_TYPE)
    if kind == "N":
        return {"N": number_text(Decimal(here["N"]) + Decimal(added))}
    return {kind: [*here[kind], *(element for element in added if element not in here[kind])]}


CLAUSES: dict[str, Callable[[Tokens], Action]] = {"SET": _set, "REMOVE": _remove, "ADD": _add}

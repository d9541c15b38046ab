"""Condition, filter and key condition expressions (AWS: Condition and filter expressions, operators, and functions)."""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

from tests.simulation.dynamodb.paths import Attribute, Item, found, read_path, resolved
from tests.simulation.dynamodb.refusals import Invalid
from tests.simulation.dynamodb.tokens import Tokens, tokens_of


@dataclass(frozen=True, slots=True)
class Given:
    """The names and values that a request defines for its placeholders."""

    names: Mapping[str, str]
    values: Mapping[str, Attribute]

    def value(self, placeholder: str) -> Attribute:
        if placeholder not in self.values:
            raise Invalid(
                "An expression attribute value used in expression is not defined; attribute value: " + placeholder
            )
        return self.values[placeholder]


type Operand = Callable[[Item, Given], Attribute | None]
type Test = Callable[[Item, Given], bool]

COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@lru_cache(maxsize=4096)
def compiled(expression: str, kind: str = "ConditionExpression") -> tuple[Test, frozenset[str]]:
    """Compile a condition to a function. Return it with the placeholders that it uses."""
    tokens = tokens_of(expression, kind)
    test = _either(tokens)
    if tokens.next:
        raise Invalid(f'Invalid {kind}: Syntax error; token: "{tokens.next}"')
    return test, frozenset(tokens.used)


def _either(tokens: Tokens) -> Test:
    return _joined(tokens, "OR", _both, any)


def _both(tokens: Tokens) -> Test:
    return _joined(tokens, "AND", _negated, all)


def _joined(tokens: Tokens, word: str, part: Callable[[Tokens], Test], holds: Callable[[list[bool]], bool]) -> Test:
    tests = [part(tokens)]
    while tokens.took(word):
        tests.append(part(tokens))
    # All operands are evaluated, as in DynamoDB: a placeholder without a value is always an error.
    return tests[0] if len(tests) == 1 else lambda item, given: holds([test(item, given) for test in tests])


def _negated(tokens: Tokens) -> Test:
    if not tokens.took("NOT"):
        return _simple(tokens)
    test = _negated(tokens)
    return lambda item, given: not test(item, given)


def _simple(tokens: Tokens) -> Test:
    if tokens.took("("):
        began = tokens.at
        test = _either(tokens)
        if tokens.left[began] == "(" and _closes(tokens.left, began) == tokens.at - 1:
            raise Invalid(f"Invalid {tokens.kind}: The expression has redundant parentheses;")
        tokens.take(")")
        return test
    if tokens.next.lower() in FUNCTIONS and tokens.left[tokens.at + 1 : tokens.at + 2] == ["("]:
        return _function(tokens)
    return _comparison(tokens)


def _closes(tokens: list[str], opened: int) -> int:
    """Return the index of the parenthesis that closes the one at `opened`."""
    depth = 0
    for at in range(opened, len(tokens)):
        depth += {"(": 1, ")": -1}.get(tokens[at], 0)
        if depth == 0:
            return at
    return -1


def _comparison(tokens: Tokens) -> Test:
    began = tokens.at
    left = operand(tokens)
    first = tokens.left[began : tokens.at]
    if tokens.took("IN"):
        tokens.take("(")
        choices = [operand(tokens)]
        while tokens.took(","):
            choices.append(operand(tokens))
        tokens.take(")")
        return lambda item, given: _is_in(left(item, given), [choice(item, given) for choice in choices])
    if tokens.took("BETWEEN"):
        low = operand(tokens)
        tokens.take("AND")
        at = tokens.at
        high = operand(tokens)
        _check_distinct(tokens, first, tokens.left[at : tokens.at])
        return lambda item, given: (
            compare(">=", left(item, given), low(item, given)) and compare("<=", left(item, given), high(item, given))
        )
    sign = tokens.take()
    if sign not in {*COMPARED, "=", "<>"}:
        raise Invalid(f'Invalid {tokens.kind}: Syntax error; token: "{sign}"')
    at = tokens.at
    right = operand(tokens)
    _check_distinct(tokens, first, tokens.left[at : tokens.at])
    return lambda item, given: compare(sign, left(item, given), right(item, given))


def _check_distinct(tokens: Tokens, first: list[str], other: list[str]) -> None:
    if first == other:
        raise Invalid(
            f"Invalid {tokens.kind}: The first operand must be distinct from the remaining operands for this operator "
            f"or function; first operand: {''.join(first)}"
        )


def operand(tokens: Tokens) -> Operand:
    """Parse a path or a placeholder for a value."""
    if tokens.next.startswith(":"):
        placeholder = tokens.take()
        return lambda _item, given: given.value(placeholder)
    path = read_path(tokens)
    return lambda item, given: found(item, resolved(path, given.names))


def _is_in(attribute: Attribute | None, choices: list[Attribute | None]) -> bool:
    return any(compare("=", attribute, choice) for choice in choices)


def compare(sign: str, left: Attribute | None, right: Attribute | None) -> bool:
    """Return whether a comparison is true. A missing value equals nothing. Values of different types have no order."""
    if sign in {"=", "<>"}:
        return equal(left, right) is (sign == "=")
    if left is None or right is None:
        return False
    (kind, one), (other_kind, other) = _plain(left), _plain(right)
    if kind != other_kind or kind not in {"S", "N", "B"}:
        return False
    return COMPARED[sign](one.encode(), other.encode()) if kind == "S" else COMPARED[sign](one, other)


def equal(left: Attribute | None, right: Attribute | None) -> bool:
    """Return whether two values have the same type and are equal. A missing value equals nothing."""
    return left is not None and right is not None and (left == right or _plain(left) == _plain(right))


def _plain(attribute: Attribute) -> tuple[str, Any]:
    """Return the type and the value in a form that is equal for equal attributes."""
    ((kind, value),) = attribute.items()
    match kind:
        case "N":
            return kind, Decimal(value)
        case "BS":
            return kind, frozenset(value)
        case "M":
            return kind, {name: _plain(element) for name, element in value.items()}
        case "L":
            return kind, [_plain(element) for element in value]
        case _:
            return kind, value


def _contains(where: Attribute | None, what: Attribute | None) -> bool:
    if where is None or what is None or "B" not in what:
        return False
    if "L" in where:
        return any(equal(element, what) for element in where["L"])
    held: Any = where.get("BS", where.get("B", ()))
    return what["B"] in held


FUNCTIONS: dict[str, tuple[int, Callable[..., bool]]] = {
    "attribute_exists": (1, lambda attribute: attribute is not None),
    "attribute_not_exists": (1, lambda attribute: attribute is None),
    "contains": (2, _contains),
}


def _function(tokens: Tokens) -> Test:
    name = tokens.take().lower()
    count, function = FUNCTIONS[name]
    tokens.take("(")
    operands = [operand(tokens)]
    while tokens.took(","):
        operands.append(operand(tokens))
    tokens.take(")")
    if len(operands) != count:
        raise Invalid(f"Invalid {tokens.kind}: Incorrect number of operands for operator or function; {name}")
    return lambda item, given: function(*[of(item, given) for of in operands])

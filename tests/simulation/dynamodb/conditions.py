"""Condition, filter and key condition expressions (AWS: Condition and filter expressions, operators, and functions)."""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

from tests.simulation.dynamodb.paths import Attribute, Item, read_path, resolve, value_at
from tests.simulation.dynamodb.refusals import Invalid
from tests.simulation.dynamodb.tokens import Tokens, tokens_of


@dataclass(frozen=True, slots=True)
class Bindings:
    """The names and values that a request defines for its placeholders."""

    names: Mapping[str, str]
    values: Mapping[str, Attribute]

    def value(self, placeholder: str) -> Attribute:
        if placeholder not in self.values:
            raise Invalid(
                "An expression attribute value used in expression is not defined; attribute value: " + placeholder
            )
        return self.values[placeholder]


type Operand = Callable[[Item, Bindings], Attribute | None]
type Test = Callable[[Item, Bindings], bool]

COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@lru_cache(maxsize=4096)
def compile_condition(expression: str, kind: str = "ConditionExpression") -> tuple[Test, frozenset[str]]:
    """Compile a condition to a function. Return it with the placeholders that it uses."""
    tokens = tokens_of(expression, kind)
    test = _parse_or(tokens)
    if tokens.next:
        raise Invalid(f'Invalid {kind}: Syntax error; token: "{tokens.next}"')
    return test, frozenset(tokens.used)


def _parse_or(tokens: Tokens) -> Test:
    return _chain(tokens, "OR", _parse_and, any)


def _parse_and(tokens: Tokens) -> Test:
    return _chain(tokens, "AND", _parse_not, all)


def _chain(tokens: Tokens, word: str, part: Callable[[Tokens], Test], holds: Callable[[list[bool]], bool]) -> Test:
    tests = [part(tokens)]
    while tokens.take_if(word):
        tests.append(part(tokens))
    # All operands are evaluated, as in DynamoDB: a placeholder without a value is always an error.
    return tests[0] if len(tests) == 1 else lambda item, bindings: holds([test(item, bindings) for test in tests])


def _parse_not(tokens: Tokens) -> Test:
    if not tokens.take_if("NOT"):
        return _parse_test(tokens)
    test = _parse_not(tokens)
    return lambda item, bindings: not test(item, bindings)


def _parse_test(tokens: Tokens) -> Test:
    if tokens.take_if("("):
        start = tokens.position
        test = _parse_or(tokens)
        if tokens.all_tokens[start] == "(" and _closing_index(tokens.all_tokens, start) == tokens.position - 1:
            raise Invalid(f"Invalid {tokens.kind}: The expression has redundant parentheses;")
        tokens.take(")")
        return test
    if tokens.next.lower() in FUNCTIONS and tokens.all_tokens[tokens.position + 1 : tokens.position + 2] == ["("]:
        return _parse_function(tokens)
    return _parse_comparison(tokens)


def _closing_index(tokens: list[str], opening_index: int) -> int:
    """Return the index of the parenthesis that closes the one at `opened`."""
    depth = 0
    for index in range(opening_index, len(tokens)):
        depth += {"(": 1, ")": -1}.get(tokens[index], 0)
        if depth == 0:
            return index
    return -1


def _parse_comparison(tokens: Tokens) -> Test:
    start = tokens.position
    left = parse_operand(tokens)
    left_tokens = tokens.all_tokens[start : tokens.position]
    if tokens.take_if("IN"):
        tokens.take("(")
        choices = [parse_operand(tokens)]
        while tokens.take_if(","):
            choices.append(parse_operand(tokens))
        tokens.take(")")
        return lambda item, bindings: _is_in(left(item, bindings), [choice(item, bindings) for choice in choices])
    if tokens.take_if("BETWEEN"):
        low = parse_operand(tokens)
        tokens.take("AND")
        right_start = tokens.position
        high = parse_operand(tokens)
        _check_distinct(tokens, left_tokens, tokens.all_tokens[right_start : tokens.position])
        return lambda item, bindings: (
            compare(">=", left(item, bindings), low(item, bindings))
            and compare("<=", left(item, bindings), high(item, bindings))
        )
    sign = tokens.take()
    if sign not in {*COMPARED, "=", "<>"}:
        raise Invalid(f'Invalid {tokens.kind}: Syntax error; token: "{sign}"')
    right_start = tokens.position
    right = parse_operand(tokens)
    _check_distinct(tokens, left_tokens, tokens.all_tokens[right_start : tokens.position])
    return lambda item, bindings: compare(sign, left(item, bindings), right(item, bindings))


def _check_distinct(tokens: Tokens, left_tokens: list[str], other_tokens: list[str]) -> None:
    if left_tokens == other_tokens:
        raise Invalid(
            f"Invalid {tokens.kind}: The first operand must be distinct from the remaining operands for this operator "
            f"or function; first operand: {''.join(left_tokens)}"
        )


def parse_operand(tokens: Tokens) -> Operand:
    """Parse a path or a placeholder for a value."""
    if tokens.next.startswith(":"):
        placeholder = tokens.take()
        return lambda _item, bindings: bindings.value(placeholder)
    path = read_path(tokens)
    return lambda item, bindings: value_at(item, resolve(path, bindings.names))


def _is_in(attribute: Attribute | None, choices: list[Attribute | None]) -> bool:
    return any(compare("=", attribute, choice) for choice in choices)


def compare(sign: str, left: Attribute | None, right: Attribute | None) -> bool:
    """Return whether a comparison is true. A missing value equals nothing. Values of different types have no order."""
    if sign in {"=", "<>"}:
        return equal(left, right) is (sign == "=")
    if left is None or right is None:
        return False
    (kind, value), (other_kind, other_value) = _plain(left), _plain(right)
    if kind != other_kind or kind not in {"S", "N", "B"}:
        return False
    return COMPARED[sign](value.encode(), other_value.encode()) if kind == "S" else COMPARED[sign](value, other_value)


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


def _contains(container: Attribute | None, element: Attribute | None) -> bool:
    if container is None or element is None or "B" not in element:
        return False
    if "L" in container:
        return any(equal(member, element) for member in container["L"])
    values: Any = container.get("BS", container.get("B", ()))
    return element["B"] in values


FUNCTIONS: dict[str, tuple[int, Callable[..., bool]]] = {
    "attribute_exists": (1, lambda attribute: attribute is not None),
    "attribute_not_exists": (1, lambda attribute: attribute is None),
    "contains": (2, _contains),
}


def _parse_function(tokens: Tokens) -> Test:
    name = tokens.take().lower()
    count, function = FUNCTIONS[name]
    tokens.take("(")
    operands = [parse_operand(tokens)]
    while tokens.take_if(","):
        operands.append(parse_operand(tokens))
    tokens.take(")")
    if len(operands) != count:
        raise Invalid(f"Invalid {tokens.kind}: Incorrect number of operands for operator or function; {name}")
    return lambda item, bindings: function(*[operand(item, bindings) for operand in operands])

"""Splits DynamoDB's expressions into tokens, with the checks for all expressions (AWS: Using expressions in
DynamoDB)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.simulation.dynamodb.refusals import Invalid

EXPRESSION_BYTES = 4096
_TOKEN = re.compile(r"\s*(?:([#:]?[A-Za-z_0-9]+)|(<>|<=|>=|[-=<>+(),.\[\]]))")


@dataclass(slots=True)
class Tokens:
    """The tokens of one expression, consumed from left to right."""

    kind: str
    all_tokens: list[str]
    used: set[str] = field(default_factory=set)
    position: int = 0

    @property
    def next(self) -> str:
        """The next token, which is not consumed. Empty at the end."""
        return self.all_tokens[self.position] if self.position < len(self.all_tokens) else ""

    @property
    def word(self) -> str:
        """The next token in capital letters, for comparison with keywords."""
        return self.next.upper()

    def take(self, expected: str | None = None) -> str:
        """Consume and return the next token."""
        token = self.next
        if not token or (expected is not None and token.upper() != expected):
            raise Invalid(f'Invalid {self.kind}: Syntax error; token: "{token or "<EOF>"}", expected: {expected}')
        self.position += 1
        if token[0] in "#:":
            self.used.add(token)
        return token

    def take_if(self, token: str) -> bool:
        """Consume the next token if it is this one. Return whether it was."""
        if self.word != token:
            return False
        self.position += 1
        return True


def tokens_of(expression: str, kind: str) -> Tokens:
    if not expression:
        raise Invalid(f"Invalid {kind}: The expression can not be empty;")
    if len(expression.encode()) > EXPRESSION_BYTES:
        size = len(expression.encode())
        raise Invalid(f"Invalid {kind}: Expression size has exceeded the maximum allowed size; expression size: {size}")
    return Tokens(kind, list(_split(expression, kind)))


def _split(expression: str, kind: str) -> Iterator[str]:
    position, end = 0, len(expression.rstrip())
    while position < end:
        match = _TOKEN.match(expression, position)
        if match is None:
            raise Invalid(f'Invalid {kind}: Syntax error; token: "{expression[position]}"')
        position = match.end()
        yield match[1] or match[2]

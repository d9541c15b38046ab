"""The size of an answer that Baton makes: a small request must not cause an unlimited answer (docs/http.md, Answers).

Results of the author's functions are not limited here.
"""

from typing import Final

from msgspec import Struct

from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.jsonrpc import INVALID_REQUEST, MAX_BATCH

ANSWER_BYTES: Final = 4_000_000
"""The longest answer that Baton makes, bytes. A batch is one answer."""

READ_BYTES: Final = 12_000_000
"""The stored values that are read for one answer, to show them or to put them into a call, bytes of JSON."""

REWRITE_BYTES: Final = 6_000_000
"""The stored lists that the calls of one request rewrite, bytes of JSON: one list of the greatest length."""

PLACEHOLDER_BYTES: Final = 1_000_000
"""The default for the values that placeholders put into one call, bytes of JSON."""

REFUSAL_BYTES: Final = 512
"""The longest error of a message in a batch that is refused for lack of room, bytes."""

WITH_EFFECTS: Final = frozenset({"tools/call", "prompts/get", "tasks/cancel", "tasks/update"})
"""Methods that must not be repeated. Their answer is always sent."""


class Budget(Struct):
    """The remaining size of one answer, bytes. The messages of a batch share it."""

    left: int = ANSWER_BYTES
    unread: int = READ_BYTES
    """Bytes of stored values that may be read. A value counts when it is read, whether or not it is shown."""
    unwritten: int = REWRITE_BYTES
    """Bytes of stored lists that may be rewritten: the call of one element writes the whole list."""

    @property
    def shown(self) -> int:
        """The most bytes of stored values that the answer can show."""
        return min(self.left, self.unread)

    def read(self, size: int) -> None:
        self.unread -= size

    def rewrite(self, size: int) -> bool:
        """Count the rewriting of a list. Return whether there is room for it."""
        has_room = size <= self.unwritten
        self.unwritten -= size if has_room else 0
        return has_room

    def take(self, size: int) -> None:
        self.left -= size

    def refuses(self, method: str, size: int) -> bool:
        """Whether the answer of a message in a batch is omitted because of its size."""
        return size > self.left and method not in WITH_EFFECTS


def batch_budget() -> Budget:
    """The budget of a batch: that of one answer, less the room for its errors."""
    return Budget(ANSWER_BYTES - REFUSAL_BYTES * MAX_BATCH)


def no_room(*, was_run: bool) -> ProtocolError:
    """The error of a message in a batch whose answer does not fit."""
    subject = "Its answer" if was_run else "It was not run: its answer"
    return ProtocolError(
        INVALID_REQUEST,
        f"{subject} does not fit into the answer to the batch, which has at most {ANSWER_BYTES} bytes. "
        "Send the message by itself.",
    )

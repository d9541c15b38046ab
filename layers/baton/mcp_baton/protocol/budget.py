"""How long an answer of Baton's own making may be: what a few bytes ask for must not be megabytes without end.

docs/http.md, Answers. What users' functions return is theirs, and is not cut.
"""

from typing import Final

from msgspec import Struct

from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.jsonrpc import INVALID_REQUEST

ANSWER_BYTES: Final = 4_000_000
"""The longest answer of Baton's own making, bytes; a batch's answer as a whole."""

READ_BYTES: Final = 12_000_000
"""The stored values that a request may read to show them or to put them into a call, bytes of JSON. A batch may read as
much as its answer may have."""

PLACEHOLDER_BYTES: Final = 1_000_000
"""What placeholders may put into one call unless the server says otherwise, bytes of JSON."""

REFUSAL_BYTES: Final = 512
"""What is kept back in a batch's answer for each of its messages, so that it can be told that there is no room."""

WITH_EFFECTS: Final = frozenset({"tools/call", "prompts/get", "tasks/cancel", "tasks/update"})
"""Methods that are not to be sent again: what became of them is told, whether or not there is room."""


class Budget(Struct):
    """What is left to a request, or to a batch of them.

    Attributes:
        left: Of the answer's length, bytes.
        unread: Of the stored values that may be read, bytes. What was read counts whether or not it is shown.
    """

    left: int = ANSWER_BYTES
    unread: int = READ_BYTES

    @property
    def shown(self) -> int:
        """The most bytes of stored values that the answer can show."""
        return min(self.left, self.unread)

    def read(self, size: int) -> None:
        """Count stored values that are read, bytes."""
        self.unread -= size

    def take(self, size: int) -> None:
        """Count a part of the answer."""
        self.left -= size

    def refuses(self, method: str, size: int) -> bool:
        """Whether an answer of this size is to be left out."""
        return size > self.left and method not in WITH_EFFECTS


def batch_budget(messages: int) -> Budget:
    """The budget that the answers to so many messages share."""
    return Budget(ANSWER_BYTES - REFUSAL_BYTES * messages, ANSWER_BYTES)


def no_room(*, was_run: bool) -> ProtocolError:
    """What a message of a batch is answered with whose own answer has no room."""
    done = "Its answer" if was_run else "It was not run: its answer"
    return ProtocolError(
        INVALID_REQUEST,
        f"{done} does not fit into this batch's, which has {ANSWER_BYTES} bytes at most. Send the message by itself.",
    )

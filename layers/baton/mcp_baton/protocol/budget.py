"""The size of an answer that Baton makes: a small request must not cause an unlimited answer (docs/http.md, Answers).

Results of the author's functions are not limited here.
"""

from typing import Final

from msgspec import Struct

MAX_ANSWER_BYTES: Final = 4_000_000
"""The longest answer that Baton makes, bytes."""

MAX_READ_BYTES: Final = 12_000_000
"""The stored values that are read for one answer, to show them or to put them into a call, bytes of JSON."""


class Budget(Struct):
    """The remaining size of one answer, bytes."""

    left: int = MAX_ANSWER_BYTES
    unread: int = MAX_READ_BYTES
    """Bytes of stored values that may be read. A value counts when it is read, whether or not it is shown."""

    @property
    def shown(self) -> int:
        """The most bytes of stored values that the answer can show."""
        return min(self.left, self.unread)

    def read(self, size: int) -> None:
        self.unread -= size

    def take(self, size: int) -> None:
        self.left -= size

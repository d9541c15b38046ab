"""Questions to clients in the handshake era (docs/http.md).

A client of a handshake revision answers a question with a POST of its own, which another invocation handles. The store
passes the answer to the invocation that waits for it.
"""

from collections.abc import Iterator
from typing import Protocol

from mcp_baton.protocol.json import JsonObject

FIRST_ANSWER_WAIT_S = 0.02
MAX_ANSWER_WAIT_S = 1.0


class AnswerStore(Protocol):
    """Stores questions to clients, and their answers. Each method may raise `StoreUnavailable`."""

    def ask(self, owner: str, question: str, ttl_s: int) -> None:
        """Open a question for at most `ttl_s` seconds: one conditional `PutItem`."""

    def answer(self, owner: str, question: str, answer: JsonObject) -> None:
        """Answer an open question, once: one conditional `UpdateItem`.

        Raises:
            TaskNotFound: the owner has no such open question.
            TooLarge: the answer does not fit.
        """

    def answered(self, owner: str, question: str) -> JsonObject | None:
        """The answer to a question; `None` if there is none yet: one `GetItem`, strongly consistent."""

    def close(self, owner: str, question: str) -> None:
        """Close a question, answered or not: one `DeleteItem`."""


def growing_pauses() -> Iterator[float]:
    """Yield the pauses between two reads of an answer, seconds."""
    pause_s = FIRST_ANSWER_WAIT_S
    while True:
        yield pause_s
        pause_s = min(pause_s * 1.5, MAX_ANSWER_WAIT_S)

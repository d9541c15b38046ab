"""Where a waiting invocation and the client's answer meet: a small item, for the handshake era (docs/http.md).

A client of a handshake revision answers a server's request with a POST of its own, which another invocation takes.
The two know nothing of each other but the question's id, and share nothing but this store.
"""

import time
from collections.abc import Callable
from typing import Protocol

from mcp_baton.protocol.json import JsonObject

FIRST_WAIT_S = 0.02
LONGEST_WAIT_S = 1.0


class AnswerStore(Protocol):
    """Questions to a client, and its answers."""

    def ask(self, owner: str, question: str, ttl_s: int) -> None:
        """Open a question, for at most `ttl_s` seconds.

        Raises:
            StoreError: it could not be opened.
        """

    def answer(self, owner: str, question: str, answer: JsonObject) -> None:
        """Answer an open question, once.

        Raises:
            TaskNotFound: there is no such question of this owner's, or it is answered or closed.
            TooLarge: the answer does not fit.
            StoreError: the answer could not be stored.
        """

    def answered(self, owner: str, question: str) -> JsonObject | None:
        """The answer to a question, when there is one yet."""

    def close(self, owner: str, question: str) -> None:
        """Close a question, answered or not."""


def wait_for_answer(
    store: AnswerStore,
    owner: str,
    question: str,
    *,
    waiting: Callable[[], None],
    sleep: Callable[[float], None] = time.sleep,
) -> JsonObject:
    """Poll for an answer, ever more slowly, until it is there.

    Args:
        waiting: Called before each poll; raises when nobody waits any more.
        sleep: Takes seconds.
    """
    from random import uniform

    pause = FIRST_WAIT_S
    while True:
        waiting()
        found = store.answered(owner, question)
        if found is not None:
            return found
        sleep(uniform(pause / 2, pause))
        pause = min(pause * 1.5, LONGEST_WAIT_S)

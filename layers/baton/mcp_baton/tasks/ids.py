"""Task ids: opaque, unguessable, and in the order of their creation (docs/storage.md)."""

import os

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
TIME_BITS = 48
RANDOM_BITS = 122
LENGTH = (TIME_BITS + RANDOM_BITS) // 5
RANDOM_BYTES = (RANDOM_BITS + 7) // 8
QUESTION_PREFIX = "baton-"
QUESTION_BYTES = 16


def new_task_id(now_ms: int) -> str:
    """A new id: 48 bits of epoch milliseconds, then 122 random bits, as 34 characters of lower-case Crockford base32.

    The alphabet is in ASCII order and the length is fixed, so that ids sort as text by their time.
    """
    random = int.from_bytes(os.urandom(RANDOM_BYTES)) >> (RANDOM_BYTES * 8 - RANDOM_BITS)
    return encode(now_ms << RANDOM_BITS | random)


def encode(number: int) -> str:
    """A number below 2^170 as an id's text."""
    return "".join(ALPHABET[number >> shift & 31] for shift in range((LENGTH - 1) * 5, -1, -5))


def is_task_id(text: str) -> bool:
    """Whether this could be an id; what could not never has to reach the table."""
    return len(text) == LENGTH and all(character in ALPHABET for character in text)


def new_token() -> str:
    """A name for one write, unlike that of any other write to the same item."""
    return os.urandom(8).hex()


def new_question() -> str:
    """An id for a question to a client, which nobody can guess."""
    return QUESTION_PREFIX + os.urandom(QUESTION_BYTES).hex()


def is_question(text: str) -> bool:
    """Whether this could be a question's id; what could not never has to reach the table."""
    random = text[len(QUESTION_PREFIX) :]
    return (
        text.startswith(QUESTION_PREFIX)
        and len(random) == 2 * QUESTION_BYTES
        and all(character in "0123456789abcdef" for character in random)
    )

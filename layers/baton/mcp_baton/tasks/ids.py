"""Task ids: opaque, unguessable, in the order of their creation, and each with its shard (docs/storage.md, Shards)."""

import os

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
TIME_CHARACTERS = 10
SHARD_CHARACTERS = 2
RANDOM_CHARACTERS = 25
LENGTH = TIME_CHARACTERS + SHARD_CHARACTERS + RANDOM_CHARACTERS
MAX_SHARDS = len(ALPHABET) ** SHARD_CHARACTERS
QUESTION_PREFIX = "baton-"
QUESTION_BYTES = 16
TASK_QUESTION_PREFIX = "baton-task-"
DIGEST_CHARACTERS = 16


def new_task_id(now_ms: int, shards: int = 1) -> str:
    """A new id: 37 characters of lower-case Crockford base32.

    Ten are the time, epoch milliseconds; two the shard, drawn from so many; 25 are 125 random bits. The alphabet is in
    ASCII order and the length is fixed, so that ids sort as text by their time.

    Args:
        now_ms: The time of creation, epoch milliseconds.
        shards: How many shards an owner's tasks are spread over.
    """
    random = int.from_bytes(os.urandom(18))
    return (
        encoded(now_ms, TIME_CHARACTERS)
        + shard_name((random >> 128) % shards)
        + encoded(random & ((1 << 5 * RANDOM_CHARACTERS) - 1), RANDOM_CHARACTERS)
    )


def shard_of(task_id: str) -> str:
    """The name of the shard that a task is in."""
    return task_id[TIME_CHARACTERS : TIME_CHARACTERS + SHARD_CHARACTERS]


def shard_name(number: int) -> str:
    """The name of the shard with this number, from 0 on: two characters."""
    return encoded(number, SHARD_CHARACTERS)


def encoded(number: int, characters: int) -> str:
    """A number in so many characters; it has at most five bits for each."""
    return "".join([ALPHABET[number >> shift & 31] for shift in range((characters - 1) * 5, -1, -5)])


def is_task_id(text: str) -> bool:
    """Whether this could be an id; what could not never has to reach the table."""
    return len(text) == LENGTH and not text.strip(ALPHABET)


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


def new_task_question(task_id: str, key: str) -> str:
    """An id for a task's question to a client: it says whose it is, so that any invocation can take the answer. It
    cannot be guessed by anybody who does not know the task, and is another each time that the question is sent."""
    return f"{TASK_QUESTION_PREFIX}{task_id}-{digest_of(key)}-{new_token()}"


def asked_by(text: str) -> tuple[str, str] | None:
    """The task that has asked the question of this id, and the digest of the question's key; `None` for an id that is
    not a task question's."""
    if not text.startswith(TASK_QUESTION_PREFIX):
        return None
    task_id, _, rest = text.removeprefix(TASK_QUESTION_PREFIX).partition("-")
    digest = rest.partition("-")[0]
    return (task_id, digest) if is_task_id(task_id) and len(digest) == DIGEST_CHARACTERS else None


def digest_of(key: str) -> str:
    """A question's key in an id."""
    from hashlib import sha256

    return sha256(key.encode()).hexdigest()[:DIGEST_CHARACTERS]


def sent_mark(task_id: str, key: str, session: str, window: int) -> str:
    """The id of the item that says that a task's question was sent to this session of a client in this window of time.
    It has the form of a question's."""
    from hashlib import sha256

    return QUESTION_PREFIX + sha256(f"{task_id} {window} {session} {key}".encode()).hexdigest()[: 2 * QUESTION_BYTES]

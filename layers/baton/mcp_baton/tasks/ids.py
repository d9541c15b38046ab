"""Ids of tasks and questions. Task ids are unguessable and sort by creation time."""

import os

TASK_ID_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
TIME_CHARS = 10
RANDOM_CHARS = 27
TASK_ID_CHARS = TIME_CHARS + RANDOM_CHARS
QUESTION_ID_PREFIX = "baton-"
QUESTION_ID_BYTES = 16
TASK_QUESTION_ID_PREFIX = "baton-task-"
TEXT_DIGEST_CHARS = 16
HEX_DIGITS = "0123456789abcdef"


def new_task_id(now_ms: int) -> str:
    """A new id: 37 characters of lower-case Crockford base32.

    Ten are the time (epoch milliseconds), and 27 are 135 random bits. The alphabet is in ASCII order and the length is
    fixed, so ids sort by time as text.
    """
    return encoded(now_ms, TIME_CHARS) + encoded(int.from_bytes(os.urandom(17)), RANDOM_CHARS)


def encoded(number: int, characters: int) -> str:
    """A number in this many characters of five bits each."""
    return "".join([TASK_ID_ALPHABET[number >> shift & 31] for shift in range((characters - 1) * 5, -1, -5)])


def is_task_id(text: str) -> bool:
    """Whether a text has the form of a task id. If it has not, the table is not read."""
    return len(text) == TASK_ID_CHARS and not text.strip(TASK_ID_ALPHABET)


def new_token() -> str:
    return os.urandom(8).hex()


def new_question() -> str:
    """An unguessable id for a question to a client."""
    return QUESTION_ID_PREFIX + os.urandom(QUESTION_ID_BYTES).hex()


def is_question(text: str) -> bool:
    """Whether a text has the form of a question's id. If it has not, the table is not read."""
    prefix, random = text[: len(QUESTION_ID_PREFIX)], text[len(QUESTION_ID_PREFIX) :]
    return prefix == QUESTION_ID_PREFIX and len(random) == 2 * QUESTION_ID_BYTES and not random.strip(HEX_DIGITS)


def new_task_question(task_id: str, key: str) -> str:
    """An id for a task's question to a client. It contains the task, so that any invocation can take the answer.

    It is unguessable without the task's id, and new each time that the question is sent.
    """
    return f"{TASK_QUESTION_ID_PREFIX}{task_id}-{short_digest(key)}-{new_token()}"


def parse_task_question(text: str) -> tuple[str, str] | None:
    """The task in the id of a task's question, and the digest of the question's key; `None` for any other id."""
    if not text.startswith(TASK_QUESTION_ID_PREFIX):
        return None
    task_id, _, suffix = text.removeprefix(TASK_QUESTION_ID_PREFIX).partition("-")
    digest = suffix.partition("-")[0]
    return (task_id, digest) if is_task_id(task_id) and len(digest) == TEXT_DIGEST_CHARS else None


def text_digest(text: str) -> str:
    """The SHA-256 of a text, hex."""
    from hashlib import sha256

    return sha256(text.encode(errors="surrogatepass")).hexdigest()


def short_digest(key: str) -> str:
    return text_digest(key)[:TEXT_DIGEST_CHARS]


def sent_mark(task_id: str, key: str, session: str, window: int) -> str:
    """The id, in the form of a question's id, of the item that marks a task's question as sent to a session in a window
    of time."""
    return QUESTION_ID_PREFIX + text_digest(f"{task_id} {window} {session} {key}")[: 2 * QUESTION_ID_BYTES]

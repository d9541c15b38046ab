"""Idempotency keys: what tells an outside API that a call is the same one once more (docs/workflows.md)."""

import os
from collections.abc import Callable

from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.workflow.canonical import DIGEST_CHARACTERS, digest

type Key = Callable[[], str]
"""Makes a call's key when it is asked for, the same one each time: 32 hex digits."""


def own_key() -> Key:
    """The key of a call that belongs to no step: no other call has it."""
    made: dict[str, str] = {}

    def make() -> str:
        # Most calls are never asked for theirs. Of two threads that ask at once, one sets it.
        return made.get("key") or made.setdefault("key", os.urandom(DIGEST_CHARACTERS // 2).hex())

    return make


def step_key(task_id: str, step: str, arguments: Callable[[], JsonObject]) -> Key:
    """The key of every call of a task's step that has these arguments.

    Args:
        task_id: The task; no two have the same id.
        step: The step's name.
        arguments: Gives the arguments as the tool takes them, so that calls that mean the same have the same key. Only
            asked when the key is.
    """

    made: list[str] = []

    def make() -> str:
        if not made:
            parts: list[Json] = [task_id, step, arguments()]
            made.append(digest(parts))
        return made[0]

    return make

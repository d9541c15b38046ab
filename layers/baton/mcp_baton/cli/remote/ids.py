"""Ids of tasks, whole or by their beginnings."""

import re
from collections.abc import Sequence
from typing import Final

from mcp_baton.cli.remote.client import Remote
from mcp_baton.exceptions import BatonError

MOST: Final = 1_000
"""So many of the newest tasks are looked through for a beginning."""

WHOLE: Final = re.compile(r"[0-9a-z]{37}")


class TaskIdError(BatonError):
    """No task, or more than one, begins so."""


def is_whole(task_id: str) -> bool:
    """Whether it is as long as an id: then nothing is looked up."""
    return WHOLE.fullmatch(task_id) is not None


def find(remote: Remote, beginning: str) -> str:
    """The id of the one task of the caller's that begins so.

    Raises:
        TaskIdError: there is none, or more than one.
    """
    if is_whole(beginning):
        return beginning
    tasks = remote.pages("tasks/list", "tasks", era="2025", most=MOST)
    return chosen(beginning, [str(task["taskId"]) for task in tasks])


def chosen(beginning: str, ids: Sequence[str]) -> str:
    """The one id that begins so.

    Raises:
        TaskIdError: there is none, or more than one.
    """
    found = [each for each in ids if each.startswith(beginning)]
    if not beginning or not found:
        raise TaskIdError(f"no task begins with {beginning!r}: `baton tasks` lists them")
    if len(found) > 1:
        some = ", ".join(found[:5]) + (", …" if len(found) > 5 else "")
        raise TaskIdError(f"{len(found)} tasks begin with {beginning!r}: {some}. Write more of the id")
    return found[0]

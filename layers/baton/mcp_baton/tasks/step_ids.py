"""The ids of a task's steps: `01m8…/refund`, and `01m8…/notify/3` for an element of a step's list
(docs/reference/workflow-rules.md, Ids of steps).
"""

import re
from typing import Final

from msgspec import Struct

from mcp_baton.tasks.ids import TASK_ID_ALPHABET, TASK_ID_CHARS, is_task_id

_UNRESERVED: Final = re.compile(r"[A-Za-z0-9._~-]*")
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,2}")
_COPIED: Final = re.compile(
    rf"\W*(?:task_id\W+)?([{TASK_ID_ALPHABET}]{{{TASK_ID_CHARS}}})(?:/(.*\w)?|%2F(.*\w)?)?\W*",
    re.IGNORECASE | re.DOTALL,
)


class StepId(Struct, frozen=True):
    """What a caller names: a task, a step of it, or an element of the step's list.

    Attributes:
        path: What follows the task's id and a slash, as it was sent; `None` if only the task is named.
        step: The step's name; `None` without a path, or if the path cannot be that of a step.
        index: The index of the element.
    """

    task_id: str
    path: str | None = None
    step: str | None = None
    index: int | None = None

    @property
    def text(self) -> str:
        """The id as clients send it."""
        return self.task_id if self.path is None else f"{self.task_id}/{self.path}"


def step_id(task_id: str, step: str, index: int | None = None) -> StepId:
    """The id of a step, or of an element of its list. The step's name is percent-encoded."""
    path = step
    if not _UNRESERVED.fullmatch(step):
        from urllib.parse import quote

        path = quote(step, safe="", errors="surrogatepass")
    return StepId(task_id, path if index is None else f"{path}/{index}", step, index)


def parse_step_id(text: str) -> StepId:
    """The id in a text of a caller, who may have written anything."""
    task_id, slash, path = text.partition("/")
    if not slash:
        return StepId(task_id)
    encoded, slash, index = path.partition("/")
    step = _decoded(encoded)
    if step is None or (slash and not _INDEX.fullmatch(index)):
        return StepId(task_id, path)
    return StepId(task_id, path, step, int(index) if slash else None)


def copied_id(text: str) -> str:
    """The id in a text of a model, which may have copied it in quotes or brackets, percent-encoded or in capitals."""
    if is_task_id(bare_task_id(text)) or not (match := _COPIED.fullmatch(text)):
        return text
    task_id, path, encoded = match.groups()
    path = _decoded(encoded) or encoded if encoded else path
    return f"{task_id.lower()}/{path}" if path else task_id.lower()


def bare_task_id(text: str) -> str:
    """The task's id in a text that names a task or a step."""
    return text.partition("/")[0]


def _decoded(encoded: str) -> str | None:
    if "%" not in encoded:
        return encoded
    from urllib.parse import unquote

    try:
        return unquote(encoded, errors="surrogatepass")
    except UnicodeDecodeError:
        return None

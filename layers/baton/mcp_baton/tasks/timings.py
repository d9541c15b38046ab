"""When the steps of a workflow's task ran, as a task keeps it (docs/storage.md).

A timing is kept as `<began>+<took>`, both milliseconds, the beginning counted from the task's creation.
"""

from collections.abc import Mapping
from datetime import datetime

from mcp_baton.exceptions import StoreError
from mcp_baton.tasks.record import TaskRecord
from mcp_baton.tasks.store import Timing


def timings_of(task: TaskRecord) -> dict[str, Timing]:
    """When each step ran last, by its name; nothing of steps that have not run, or of which it was not noted.

    Raises:
        StoreError: the task is damaged.
    """
    stored = task.kept.get("timings", {})
    if not isinstance(stored, Mapping):
        raise StoreError(f"the task {task.task_id} is damaged: its timings are not an object")
    created_ms = round(datetime.fromisoformat(task.created_at).timestamp() * 1000)
    try:
        return {name: _timing(str(text), created_ms) for name, text in stored.items()}
    except ValueError as error:
        raise StoreError(f"the task {task.task_id} is damaged: a timing is not one: {error}") from error


def _timing(text: str, created_ms: int) -> Timing:
    began, _, took = text.partition("+")
    return Timing(created_ms + int(began), int(took))

"""Cursors of a task listing: opaque to clients, and of no use for another's tasks (docs/http.md)."""

from base64 import urlsafe_b64decode, urlsafe_b64encode

from mcp_baton.tasks.ids import is_task_id


def to_cursor(task_id: str) -> str:
    """The cursor of the page that follows this task."""
    return urlsafe_b64encode(task_id.encode()).decode().rstrip("=")


def from_cursor(cursor: str) -> str:
    """The task that a cursor stands for. It names no owner: in another's hands it is a place in that owner's list.

    Raises:
        ValueError: it is not a cursor of this store.
    """
    try:
        task_id = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
    except ValueError as error:
        raise ValueError("not a cursor of this list") from error
    if not is_task_id(task_id) or to_cursor(task_id) != cursor:
        raise ValueError("not a cursor of this list")
    return task_id

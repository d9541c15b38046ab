"""Task ids in arguments (docs/workflows.md, As a tool)."""

from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tools.arguments import TASK_ID
from mcp_baton.workflow.definition import NEW_TASK
from mcp_baton.workflow.request import Request


class InvalidTaskReference(Exception):
    """A call names a task incorrectly. The text is for the caller."""


def named_task(request: Request, arguments: JsonObject) -> tuple[str | None, dict[str, Json]]:
    """Return the task that a request names in its arguments or in `_meta`, and the other arguments."""
    other_arguments = {name: value for name, value in arguments.items() if name != TASK_ID}
    task_id, bound_task_id = arguments.get(TASK_ID), request.bound_task()
    if task_id is None or task_id == "":
        return bound_task_id, other_arguments
    if task_id == NEW_TASK:
        raise InvalidTaskReference(f'{TASK_ID} "{NEW_TASK}" is only for calls of a workflow\'s tool; leave it out')
    if not isinstance(task_id, str):
        raise InvalidTaskReference(f"{TASK_ID} must be a text: the id from an earlier result")
    if bound_task_id is not None and bound_task_id != task_id:
        raise InvalidTaskReference(f"the arguments name one task ({TASK_ID}) and _meta names another; keep one of them")
    return task_id, other_arguments

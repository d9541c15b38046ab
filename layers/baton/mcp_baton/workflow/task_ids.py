"""Task ids in arguments (docs/workflows.md, As a tool)."""

from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.step_ids import StepId, parse_step_id
from mcp_baton.tools.arguments import NEW_TASK, TASK_ID
from mcp_baton.workflow.request import Request, agreed_id


class InvalidTaskReference(Exception):
    """A call names a task incorrectly. The text is for the caller."""


def named_step(request: Request, arguments: JsonObject) -> tuple[StepId | None, dict[str, Json]]:
    """Return the task, or the step, that a request names in its arguments or in `_meta`, and the other arguments."""
    other_arguments = {name: value for name, value in arguments.items() if name != TASK_ID}
    named, bound_id = arguments.get(TASK_ID), request.bound_step()
    if named is None or named == "":
        return bound_id, other_arguments
    if named == NEW_TASK:
        raise InvalidTaskReference(f'{TASK_ID} "{NEW_TASK}" is only for calls of a workflow\'s tool; leave it out')
    if not isinstance(named, str):
        raise InvalidTaskReference(f"{TASK_ID} must be a text: the id from an earlier result")
    agreed = agreed_id([parse_step_id(named), *([bound_id] if bound_id else [])])
    if agreed is None:
        raise InvalidTaskReference(f"the arguments name one task ({TASK_ID}) and _meta names another; keep one of them")
    return agreed, other_arguments


def named_task(request: Request, arguments: JsonObject) -> tuple[str | None, dict[str, Json]]:
    """As `named_step`, for a request that concerns the whole task."""
    named, other_arguments = named_step(request, arguments)
    return (named.task_id if named else None), other_arguments

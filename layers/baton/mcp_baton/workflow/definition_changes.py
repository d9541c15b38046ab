"""Changed definitions: a resume moves a task to the definition that is deployed (docs/workflows.md). Pure.

A task stores a fingerprint of each step of its definition. Its completed steps must exist unchanged in the new
definition. All other steps may be changed, added or removed.
"""

from collections.abc import Mapping

from msgspec import Struct

from mcp_baton.exceptions import StoreError
from mcp_baton.protocol.json import JsonObject
from mcp_baton.tasks.record import (
    CALL_PREFIX,
    ELEMENTS_PREFIX,
    ITEMS_PREFIX,
    RESULT_PREFIX,
    TRIED_PREFIX,
    WAIT_PREFIX,
    StepStatus,
    TaskRecord,
    statuses_of,
    steps_of,
)
from mcp_baton.tools.secrets import is_hidden
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.steps.list_step import ListStep
from mcp_baton.workflow.steps.wait import Wait


class Move(Struct, frozen=True):
    """A task's move from one definition to another."""

    from_definition: str | None
    workflow: Workflow

    def concerns(self, task: TaskRecord) -> bool:
        """Whether the task must still be moved: no request has moved it since."""
        return task.definition == self.from_definition


def move_to(workflow: Workflow, task: TaskRecord) -> Move | None:
    """The move that a resume makes; `None` if the task has this definition already."""
    return None if task.definition == workflow.fingerprint else Move(task.definition, workflow)


def conflicting_steps(workflow: Workflow, task: TaskRecord, *, settled: bool = True) -> list[str]:
    """The settled steps that the definition has changed or removed. If there is one, the task cannot be moved.

    Args:
        settled: `False` for the open steps instead. A call of the model settles one, which then conflicts.
    """
    if task.definition == workflow.fingerprint:
        return []
    current = {step.name: step.fingerprint for step in workflow.steps}
    stored_fingerprints = (task.definition or "").split()
    steps = steps_of(task)
    fingerprints = stored_fingerprints if len(stored_fingerprints) == len(steps) else [""] * len(steps)
    return [
        step["name"]
        for step, fingerprint in zip(steps, fingerprints, strict=True)
        if StepStatus(step["status"]).settled is settled and current.get(step["name"]) != fingerprint
    ]


def statuses_under(task: TaskRecord, workflow: Workflow) -> dict[str, StepStatus]:
    """The status of each step of the definition, in order: the stored one, or `pending` for a new step."""
    stored_statuses = statuses_of(task)
    return {step.name: stored_statuses.get(step.name, StepStatus.PENDING) for step in workflow.steps}


def obsolete_variables(task: TaskRecord, workflow: Workflow, statuses: Mapping[str, StepStatus]) -> frozenset[str]:
    """The variables that a move deletes: results and calls of removed steps, and items of steps that have no list any
    more. If a continuation has completed a removed step, its result and call are kept."""
    old_statuses = statuses_of(task)
    names = [
        name for name, status in old_statuses.items() if name not in statuses and status is not StepStatus.COMPLETED
    ]
    results = frozenset(f"{RESULT_PREFIX}{name}" for name in names)
    lists = {step.name for step in workflow.steps if isinstance(step, ListStep)}
    items = {f"{prefix}{name}" for name in old_statuses.keys() - lists for prefix in (ITEMS_PREFIX, ELEMENTS_PREFIX)}
    variables = {f"{CALL_PREFIX}{name}" for name in names} | items
    return results | {name for name in variables if name in task.variables}


def outdated_waits(task: TaskRecord, workflow: Workflow) -> list[str]:
    """The variables of waits, and of attempts before them, that belong to a step which the definition has changed or
    removed. A deployment changes neither the end of a sleep nor that of a wait for a callback."""
    stored_waits = {step["name"]: step.get("wait") for step in steps_of(task)}
    kept = {
        step.name for step in workflow.steps if isinstance(step, Wait) and step.waits_for == stored_waits.get(step.name)
    }
    changed = [name for name in conflicting_steps(workflow, task, settled=False) if name not in kept]
    names = [f"{prefix}{name}" for name in changed for prefix in (WAIT_PREFIX, TRIED_PREFIX)]
    return [name for name in names if name in task.variables]


def declared_arguments(workflow: Workflow, task: TaskRecord) -> JsonObject:
    """The stored arguments that the workflow still has, without secret ones.

    Raises:
        StoreError: they cannot be read.
    """
    names = {argument.name for argument in workflow.arguments if not argument.secret}
    return {name: value for name, value in given_arguments(task).items() if name in names and not is_hidden(value)}


def given_secrets(workflow: Workflow, task: TaskRecord) -> frozenset[str]:
    """The secret arguments that the first call had, or a resume has added.

    Raises:
        StoreError: they cannot be read.
    """
    return workflow.secrets & given_arguments(task).keys() if workflow.secrets else frozenset()


def has_secrets(task: TaskRecord) -> bool:
    """Whether the task was started with secret arguments. True if that cannot be read."""
    try:
        return any(map(is_hidden, given_arguments(task).values()))
    except StoreError:
        return True


def given_arguments(task: TaskRecord) -> JsonObject:
    """The arguments of the first call, with those that a resume has replaced or added. Raises `StoreError`."""
    arguments = task.arguments
    if not isinstance(arguments, Mapping):
        raise StoreError(f"the task {task.task_id} is damaged: its arguments are not an object")
    return arguments

"""Why a run is not started. Nothing was run then."""

import logging

from mcp_baton.exceptions import BatonError, StoreBusy, StoreError, TaskFinished, TaskHeld, TaskNotFound
from mcp_baton.tasks.record import TaskRecord

logger = logging.getLogger(__name__)


class InvalidToolArguments(Exception):
    """A call has invalid arguments, or names a task incorrectly. The text tells the model what to do."""


class WrongWorkflow(BatonError):
    """The task belongs to another workflow, to a tool or to a background call. Nothing was run."""

    def __init__(self, task: TaskRecord) -> None:
        super().__init__("the task is not one of this workflow")
        self.task = task


class DefinitionChanged(BatonError):
    """The workflow has changed in steps that the task has completed. Nothing was run."""

    def __init__(self, steps: list[str]) -> None:
        super().__init__("the workflow has changed")
        self.steps = steps


class CallFailed(BatonError):
    """Another run has paused the task, because a call failed. The model decides whether it is made again."""

    def __init__(self, task: TaskRecord) -> None:
        super().__init__("a call of the workflow has failed")
        self.task = task


class TaskUnreadable(BatonError):
    """The state of a task could not be read. Nothing was run: completed steps would have been repeated."""

    def __init__(self, error: StoreError) -> None:
        super().__init__(str(error))
        self.error = error


def unreadable(task_id: str, error: StoreError) -> TaskUnreadable:
    """Log why a task cannot be read, and return the refusal: clients must not see names of tables and roles."""
    logger.error("task %s: it could not be read, so it was not resumed", task_id, exc_info=error)
    return TaskUnreadable(error)


type NotResumed = (
    StoreBusy | TaskNotFound | TaskFinished | TaskHeld | WrongWorkflow | DefinitionChanged | TaskUnreadable
)
"""Why a run was not started, except for its arguments."""

NOT_RESUMED = (StoreBusy, TaskNotFound, TaskFinished, TaskHeld, WrongWorkflow, DefinitionChanged, TaskUnreadable)

"""What became of a `tools/call` that names a task: as the result's `_meta` says it, and in words
(docs/workflows.md, Going on)."""

import logging
from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct

from mcp_baton.exceptions import Conflict, OutcomeUnknown, StoreError, TaskFinished, TaskNotFound
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.request import Request
from mcp_baton.server.schema.prompt_arguments import check_arguments
from mcp_baton.server.workflows.result_meta import recorded_meta, unrecorded_meta
from mcp_baton.tasks.record import StepStatus, TaskRecord
from mcp_baton.tasks.store import Batch
from mcp_baton.telemetry import RECORDINGS_LOST
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.definition_changes import declared_arguments
from mcp_baton.workflow.handoff import next_calls
from mcp_baton.workflow.plan import Plan

logger = logging.getLogger(__name__)

UNKNOWN_TASK = "unknown task"
STORE_DOWN = "the task store is not available"
KEPT_CHANGING = "the task kept changing; make the call again"
UNKNOWN_OUTCOME = "the task store's answer was lost; look at the task before you make the call again"
NOTHING_RUN = "nothing was run"


class Recording(Struct, frozen=True):
    """What became of a call.

    Attributes:
        meta: What the result's `_meta` says of the task.
        text: The same in words, for a model that does not read it. Made when it is asked for.
    """

    meta: dict[str, Json]
    text: Callable[[], str]


def written(request: Request, after: Plan, batch: Batch, oversized: Sequence[str], arguments: JsonObject) -> Recording:
    """Of a call that was recorded.

    Args:
        after: The plan after the write.
        batch: The write.
        oversized: The names of the variables that could not be kept.
        arguments: What the tool was called with.
    """
    done = [step.name for step in batch.steps if step.expected is not StepStatus.COMPLETED]
    twice = [it for name in done for it in after.repeated(name, arguments)]

    def text() -> str:
        from mcp_baton.server.workflows.task_ids import handle_of
        from mcp_baton.workflow.continuation import RecordedCall, recorded_text

        handle = handle_of(request.server, after.workflow, after.task.task_id) if after.workflow else None
        following = next_calls(after, _Tools(request), handle)
        return recorded_text(RecordedCall(after, batch, following, handle, oversized, twice))

    return Recording(recorded_meta(request, after, remaining(request, after), oversized, twice), text)


def unrecorded(meta: dict[str, Json], workflow: Workflow | None = None) -> Recording:
    """Of a call that was made and not recorded, or of which that is not known.

    Args:
        meta: What `_meta` says of it.
        workflow: The task's workflow, if the task could be read.
    """

    def text() -> str:
        from mcp_baton.workflow.continuation import uncertain_text, unrecorded_text
        from mcp_baton.workflow.handoff import looking_at

        if meta["recorded"] == "unknown":
            return uncertain_text(looking_at(str(meta["task_id"]), workflow))
        return unrecorded_text(str(meta["record_error"]))

    return Recording(meta, text)


def not_made(request: Request, task_id: str, found: Plan | dict[str, Json]) -> Recording:
    """Of a call that was not made.

    Args:
        task_id: The task that it names.
        found: The live task's plan, or the `_meta` that says why nothing could have been recorded.
    """

    def text() -> str:
        from mcp_baton.workflow.continuation import unrecorded_text

        return unrecorded_text(str(meta["record_error"]), made=False)

    if isinstance(found, Plan):
        meta = unrecorded_meta(request, task_id, NOTHING_RUN, found.task, remaining(request, found))
    else:
        meta = found
    return Recording(meta, text)


def plan_of(request: Request, task: TaskRecord) -> Plan:
    """The plan against a state of a task."""
    workflow = request.server.workflows.get(task.workflow or "")

    def canonical(tool: str, arguments: JsonObject) -> JsonObject:
        return request.server.tools[tool].canonical(arguments)

    def surely_differ(tool: str, argument: str, one: Json, other: Json) -> bool:
        return request.server.tools[tool].input.surely_differ(argument, one, other)

    return Plan(task, workflow, partial(_prompt_arguments, workflow), canonical, surely_differ)


def remaining(request: Request, plan: Plan) -> list[JsonObject]:
    """What remains to be done of a task: `next`."""
    return next_calls(plan, _Tools(request))


def refused(request: Request, task_id: str, error: StoreError) -> dict[str, Json]:
    """The `_meta` of a call that could not be recorded."""
    if not isinstance(error, TaskNotFound | TaskFinished):
        request.services.telemetry.add(RECORDINGS_LOST)
    match error:
        case TaskNotFound():
            return unrecorded_meta(request, task_id, UNKNOWN_TASK)
        case TaskFinished():
            return unrecorded_meta(request, task_id, str(error), error.current)
        case Conflict():
            logger.error("task %s: the call was not recorded, too many others were at the same time", task_id)
            following = remaining(request, plan_of(request, error.current))
            return unrecorded_meta(request, task_id, KEPT_CHANGING, error.current, following)
        case OutcomeUnknown():
            logger.error("task %s: whether the call was recorded is not known", task_id, exc_info=error)
            return unrecorded_meta(request, task_id, UNKNOWN_OUTCOME, recorded="unknown")
        case _:
            logger.error("task %s: the call was not recorded", task_id, exc_info=error)
            return unrecorded_meta(request, task_id, STORE_DOWN)


def _prompt_arguments(workflow: Workflow | None, task: TaskRecord) -> tuple[dict[str, str], dict[str, Json]] | None:
    """The arguments of a task's first call; `None` where they cannot be had: the call is recorded all the same."""
    if workflow is None:
        return None
    try:
        kept = [argument for argument in workflow.arguments if not argument.secret]
        return check_arguments(kept, declared_arguments(workflow, task))
    except Exception:  # an argument's type is the author's and may raise anything
        logger.warning("task %s: its prompt arguments cannot be used", task.task_id, exc_info=True)
        return None


class _Tools(Struct, frozen=True):
    """Implements `handoff.Requirements`."""

    request: Request

    def required(self, tool: str) -> frozenset[str]:
        """The names of a tool's required arguments."""
        return self.request.server.tools[tool].signature.required

    def carries(self, size: int) -> bool:
        """Whether placeholders may put so many bytes into one call."""
        return size <= self.request.server.options.placeholder_bytes

"""What became of a continuation, in words for a model that reads no `_meta` (docs/workflows.md, Going on). Pure."""

from collections.abc import Sequence
from itertools import takewhile
from typing import Final

from msgspec import Struct

from mcp_baton.protocol.json import JsonObject
from mcp_baton.tasks.record import StepStatus
from mcp_baton.tasks.store import Batch, SetPause
from mcp_baton.workflow.handle import Handle
from mcp_baton.workflow.handoff import failure_hint
from mcp_baton.workflow.pause import ToolFailed
from mcp_baton.workflow.plan import Plan
from mcp_baton.workflow.quoting import one_line
from mcp_baton.workflow.repeats import Repeat, may_have_run, may_have_run_twice
from mcp_baton.workflow.stored_pause import pause_in

MADE: Final = "The call itself was made."
EXTRA: Final = "Recorded as an extra call, not as a step"
LOST: Final = "Its result could not be kept, so later calls cannot refer to it."


class RecordedCall(Struct, frozen=True):
    """What was written of a continuation.

    Attributes:
        plan: The plan, against the task as it stands after the write.
        batch: The write.
        following: What remains to be done, as `next_calls` has it with this handle.
        handle: How calls name the task; `None` where its workflow is gone.
        oversized: The names of the variables that could not be kept.
        twice: The step that it was recorded as, if a run may have run it before.
    """

    plan: Plan
    batch: Batch
    following: Sequence[JsonObject]
    handle: Handle | None
    oversized: Sequence[str] = ()
    twice: Sequence[Repeat] = ()


def recorded_text(written: RecordedCall) -> str:
    """As which step a call was recorded, and which call comes next."""
    statuses = _statuses(written.plan)
    done = sum(status.settled for status in statuses)
    ended = done == len(statuses)
    sentences = [] if ended and written.batch.steps else [f"{_place(written.batch)} ({done} of {len(statuses)} done)."]
    sentences += may_have_run_twice(written.twice, written.plan.why_repeated)
    failed = pause_in(written.batch.pause.reason) if isinstance(written.batch.pause, SetPause) else None
    if isinstance(failed, ToolFailed):
        sentences.append(failure_hint(failed))
    if written.oversized:
        sentences.append(LOST)
    if not ended:
        sentences += may_have_run(written.plan.repeats(), written.plan.why_repeated)
    if isinstance(failed, ToolFailed) and failed.is_for_the_operator:
        sentences.append(_corrected(written))
    else:
        sentences.append(_ended(written, len(statuses)) if ended else _next(written))
    return " ".join(filter(None, sentences))


def unrecorded_text(why: str, *, made: bool = True) -> str:
    """Why a call was not recorded.

    Args:
        why: The reason.
        made: Whether the tool was called all the same.
    """
    return f"Not recorded: {why}." + (f" {MADE}" if made else "")


def uncertain_text(look: str) -> str:
    """That it is not known whether a call was recorded.

    Args:
        look: The call that tells, as `looking_at` has it.
    """
    unknown = f"Not recorded for certain: the task store's answer was lost. {MADE}"
    return f"{unknown} Before you make it again, {look} to see whether it is recorded."


def _statuses(plan: Plan) -> list[StepStatus]:
    """Those of the steps that the workflow has now; without it, of those that the task has."""
    if plan.known is not None:
        return list(plan.known.statuses.values())
    return [StepStatus(step["status"]) for step in plan.steps]


def _place(batch: Batch) -> str:
    if not batch.steps:
        return EXTRA
    [write] = batch.steps
    failed = ", which failed" if write.status is StepStatus.FAILED else ""
    return f"Recorded as step '{write.name}'{failed}"


def _corrected(written: RecordedCall) -> str:
    """How the server goes on once an operator has corrected what only the log tells."""
    workflow, handle = written.plan.workflow, written.handle
    return handle.offer(workflow.name, begin="When the cause is corrected, ") if handle and workflow else ""


def _ended(written: RecordedCall, total: int) -> str:
    done = f"All {total} steps are done"
    if written.following:
        return f"{done}. {_call(written.following[0])} to finish."
    return f"{done}; the client completes the task."


def _next(written: RecordedCall) -> str:
    """The first call that remains, after the resources that are to be read before it."""
    resources = [f"read the resource {entry['resource']}" for entry in takewhile(_is_resource, written.following)]
    call = next((entry for entry in written.following if not _is_resource(entry)), None)
    if call is not None:
        guidance = call.get("guidance")
        note = f"\nNote: {guidance}" if guidance else ""
        return f"Next: {', then '.join([*resources, _lower(_call(call))])}{note}"
    if not resources:
        return ""
    twin = written.handle.going_on() if written.handle else []
    if twin:
        return f"Next: {', then '.join(resources)}. {_call(twin[0])} to let the server go on."
    return f"Next: {', then '.join(resources)}. No call is left; the client completes the task."


def _is_resource(entry: JsonObject) -> bool:
    return "resource" in entry


def _call(entry: JsonObject) -> str:
    return f"Call {entry['tool']} with {one_line(entry['arguments'])}"


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]

"""What remains to be done of a task, as data: `next` in `_meta` (docs/workflows.md). Pure, as the handoff is."""

from collections.abc import Iterator

from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.workflow.definition import Step, Workflow
from mcp_baton.workflow.handoff import Requirements, preview_arguments, preview_uris
from mcp_baton.workflow.plan import Plan
from mcp_baton.workflow.quoting import quoted_guidance
from mcp_baton.workflow.resolve import Known


def next_calls(plan: Plan, tools: Requirements) -> list[JsonObject]:
    """Every step that is not settled, in order: `{"tool", "arguments", "guidance"?}` for a call, `{"resource"}` for a
    resource to read, before or after its step's call as the step has it. Arguments are those of the handoff.

    Args:
        plan: The plan, against the task as it stands. Without a workflow nothing can be said of what remains.
        tools: Knows what the tools require, for the placeholders.
    """
    if plan.workflow is None or plan.known is None or plan.task.status.terminal:
        return []
    known = plan.known
    return [
        entry
        for step in plan.workflow.steps
        if not known.statuses[step.name].settled
        for entry in _entries(step, plan.workflow, known, tools, plan.refused(step))
    ]


def _entries(
    step: Step, workflow: Workflow, known: Known, tools: Requirements, refused: frozenset[str]
) -> Iterator[JsonObject]:
    uris = preview_uris(step, workflow, known)
    yield from ({"resource": uri} for it, uri in uris.items() if not step.read_after(it))
    if step.tool is not None:
        arguments = preview_arguments(step, workflow, known, tools)
        arguments |= {name: f"<invalid: {name}>" for name in refused}
        entry: dict[str, Json] = {"tool": step.tool, "arguments": arguments}
        if step.guidance:
            entry["guidance"] = quoted_guidance(step.guidance, known.shown_texts)
        yield entry
    yield from ({"resource": uri} for it, uri in uris.items() if step.read_after(it))

"""What remains to be done of a task, as data: `next` in `_meta` (docs/workflows.md). Pure, as the handoff is.

The texts that name the next call are made of this list, too: see `continuation_text`.
"""

from collections.abc import Callable, Iterator, Sequence

from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.workflow.definition import Step, Workflow
from mcp_baton.workflow.handle import Handle, naming, secrets_of
from mcp_baton.workflow.handoff import Requirements, carried_bytes, preview_arguments, preview_uris, remaining_steps
from mcp_baton.workflow.plan import Plan
from mcp_baton.workflow.quoting import quoted_guidance
from mcp_baton.workflow.resolve import Known


def next_calls(plan: Plan, tools: Requirements, handle: Handle | None = None) -> list[JsonObject]:
    """Every step that is not settled, in order: `{"tool", "arguments", "guidance"?}` for a call, `{"resource"}` for a
    resource to read, before or after its step's call as the step has it. Arguments are those of the handoff. With every
    step settled it is the workflow's own tool with the task's id; nothing where the workflow is none. That tool also
    stands in the place of a call that would carry more than placeholders may put into one.

    Args:
        plan: The plan, against the task as it stands. Without a workflow nothing can be said of what remains.
        tools: Knows what the tools require, for the placeholders.
        handle: Names the task in each call's arguments; `None` for calls that name it otherwise.
    """
    if plan.workflow is None or plan.known is None or plan.task.status.terminal:
        return []
    arguments = naming(plan.task.task_id, secrets_of(plan.workflow))
    go_on: list[JsonObject] = [{"tool": plan.workflow.name, "arguments": arguments}] if plan.workflow.has_twin else []
    remaining = entries(plan.workflow, plan.known, tools, plan.refused, handle, go_on)
    if remaining or not plan.workflow.has_twin:
        return remaining
    return [{"tool": plan.workflow.name, "arguments": naming(plan.task.task_id, ())}]


def entries(
    workflow: Workflow,
    known: Known,
    tools: Requirements,
    refused: Callable[[Step], frozenset[str]],
    handle: Handle | None = None,
    go_on: Sequence[JsonObject] = (),
) -> list[JsonObject]:
    """Every step that is not settled, as in `next_calls`.

    Args:
        workflow: The workflow.
        known: What is known by now.
        tools: Knows what the tools require.
        refused: The arguments of a step whose values the tool's schema has refused.
        handle: As in `next_calls`.
        go_on: The call that lets the server go on; nothing where there is none.
    """
    return [
        entry
        for step in remaining_steps(workflow, known)
        for entry in entries_of(step, workflow, known, tools, refused(step), handle, go_on)
    ]


def entries_of(
    step: Step,
    workflow: Workflow,
    known: Known,
    tools: Requirements,
    refused: frozenset[str],
    handle: Handle | None,
    go_on: Sequence[JsonObject] = (),
) -> Iterator[JsonObject]:
    """What is to be done of one step, as in `next_calls`."""
    uris = preview_uris(step, workflow, known)
    yield from ({"resource": uri} for it, uri in uris.items() if not step.read_after(it))
    if step.tool is not None and go_on and not tools.carries(carried_bytes(step, workflow, known)):
        yield from go_on
    elif step.tool is not None:
        arguments = preview_arguments(step, workflow, known, tools)
        arguments |= {name: f"<invalid: {name}>" for name in refused}
        entry: dict[str, Json] = {
            "tool": step.tool,
            "arguments": handle.on(step.tool, arguments) if handle else arguments,
        }
        if step.guidance:
            entry["guidance"] = quoted_guidance(step.guidance, known.shown_texts)
        yield entry
    yield from ({"resource": uri} for it, uri in uris.items() if step.read_after(it))

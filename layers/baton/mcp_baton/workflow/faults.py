"""What can be told of a workflow without the server's tools (docs/workflows.md, "What is checked"). Pure."""

from collections.abc import Iterator

from mcp_baton.protocol.json import dumps
from mcp_baton.workflow.definition import Argument, Workflow
from mcp_baton.workflow.names import NAME, TASK_ACTION, TASK_ID, TASK_RESULT, hosts_take

MAX_STEPS = 100
"""Steps that one workflow may have: what one `UpdateExpression` of 4 KB surely holds."""


def faults_of(workflow: Workflow) -> Iterator[str]:
    """What is wrong with a workflow by itself, each in words that say what to do."""
    if workflow.has_twin and not hosts_take(workflow.name):
        yield f"a workflow's name is {NAME}; give it another, or tool=False, which keeps it a prompt"
    if workflow.ask and not workflow.durable:
        yield "ask=True needs a task to go on with; leave out durable=False"
    if workflow.background:
        yield from _background_faults(workflow)
    if not workflow.steps:
        yield "it has no steps; give it at least one"
    if len(workflow.steps) > MAX_STEPS:
        yield f"it has {len(workflow.steps)} steps; at most {MAX_STEPS} are possible"
    names = [argument.name for argument in workflow.arguments]
    for argument in workflow.arguments:
        if names.count(argument.name) > 1:
            yield f"two arguments are named {argument.name!r}"
        if not hosts_take(argument.name):
            yield f"the argument {argument.name!r}: an argument's name is {NAME}"
        owner = _taken(workflow).get(argument.name)
        if owner:
            yield f"the argument {argument.name!r}: this name is taken, {owner}; give it another"
        yield from _default_faults(argument)


def _taken(workflow: Workflow) -> dict[str, str]:
    """The names that no argument of a workflow may have, and what has them."""
    if not workflow.durable:
        return {}
    of_tool = dict.fromkeys((TASK_ACTION, TASK_RESULT), "by the workflow's tool") if workflow.tool else {}
    return {TASK_ID: "by the task to go on with", **of_tool}


def _background_faults(workflow: Workflow) -> Iterator[str]:
    if not workflow.durable:
        yield "background=True needs a task that a worker can go on with; leave out durable=False"
    if not workflow.tool:
        yield "background=True is for calls of the workflow as a tool; leave out tool=False"
    if workflow.ask:
        yield "ask=True asks the user while the client waits, and with background=True it does not; leave out one"
    for argument in workflow.arguments:
        if argument.secret:
            name = repr(argument.name)
            yield f"the argument {name} is secret, so it is not stored and no worker has it; leave out background=True"


def _default_faults(argument: Argument) -> Iterator[str]:
    if argument.required and argument.default is not None:
        yield f"the argument {argument.name!r} is required, so its default is never used; leave out one of them"
    cause = not_json(argument.default)
    if argument.secret and argument.default is not None:
        yield f"the argument {argument.name!r} is secret, so it has no default; leave out one of them"
    if cause:
        yield f"the default of the argument {argument.name!r} is not JSON: {cause}"


def not_json(value: object) -> str | None:
    """Why a value is not JSON; `None` where it is."""
    try:
        dumps(value)
    except (TypeError, ValueError) as error:
        return str(error)
    return None

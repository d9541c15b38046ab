"""A plan as the code of a server. The tests run this code, and print it if a plan fails."""

from collections.abc import Mapping
from typing import Any

from tests.model.plan import Approval, Condition, Line, Plan, Source, Tool

HEADER = '''\
from datetime import timedelta
from typing import Annotated, Any

from mcp_baton import (
    Approval, Argument, Context, Retry, Server, ask_model, ask_user, exists, fetch, is_in, item, not_, or_default,
    sleep_until, step, task_variable, wait_for_callback,
)

server = Server("model", version="1")


@server.resource("doc://{step}/{v}")
def doc(step: str, v: str) -> str:
    """A text."""
    return world.read(step, v)
'''


def code_of(plan: Plan) -> str:
    """Return the code of a server with the plan's workflow `flow`. It uses a `world` (`tools.Tools`)."""
    tools = [tool_code(tool, plan) for tool in plan.tools.values()]
    return "\n\n".join([HEADER, *tools, workflow_code(plan)]) + "\n"


def tool_code(tool: Tool, plan: Plan) -> str:
    options = {
        "approval": None if tool.approval is None else approval_code(tool.approval),
        "sets": None if tool.sets is None else repr([tool.sets]),
        "only_in": '["flow"]' if tool.only_in else None,
    }
    return (
        f"@server.tool{options_code(options)}\n"
        f"def {tool.name}(ctx: Context, x: Any, y: Any = 0) -> dict:\n"
        f'    """The tool {tool.name}."""\n'
        f"    return world.call(ctx, {tool.name!r}, x, y)\n"
    )


def approval_code(approval: Approval) -> str:
    needs = f"when=lambda x, **_: not isinstance(x, int | float) or x > {approval.above}, "
    condition = "" if approval.above is None else needs
    return f'Approval("people", message="Do it with {{x}}?", {condition}expires={time_code(approval.expires_s)})'


def time_code(seconds: float) -> str:
    return f"timedelta(seconds={seconds:g})"


def options_code(options: dict[str, str | None]) -> str:
    given = ", ".join(f"{name}={value}" for name, value in options.items() if value is not None)
    return f"({given})" if given else ""


def workflow_code(plan: Plan) -> str:
    options = {
        "parallel": str(plan.parallel) if plan.parallel > 1 else None,
        "background": "True" if plan.way == "task" else None,
        "ttl": "timedelta(days=20)",
    }
    pin = ", pin: Annotated[str, Argument(secret=True)]" if plan.secret else ""
    lines = [
        f"@server.workflow{options_code(options)}",
        f"def flow(a: int{pin}, b: int | None = None) -> None:",
        '    """Do something."""',
        *(f"    {line_code(line)}" for line in plan.lines),
    ]
    return "\n".join(lines)


def line_code(line: Line) -> str:
    common = {
        "when": None if line.when is None else condition_code(line.when),
        "after": repr(list(line.after)) if line.after else None,
    }
    values = {name: source_code(source) for name, source in line.arguments.items()}
    name = f"{line.name} = "
    match line.kind:
        case "model" | "user":
            options = joined({"returns": "int", **common, **values})
            text = f"Number for {line.name}" + (" with {v}?" if values else "?")
            return f"{name}ask_{line.kind}({line.name!r}, {text!r}, {options})"
        case "fetch":
            return f'{name}fetch({line.name!r}, "doc://{line.name}/{{v}}", {joined({**values, **common})})'
        case "sleep":
            until = ", ".join([repr(line.name), time_code(line.within_s), *filter(None, [joined(common)])])
            return f"{name}sleep_until({until})"
        case "callback":
            timeout = '"skip"' if line.skips else None
            options = joined({"within": time_code(line.within_s), "on_timeout": timeout, **common})
            return f"{name}wait_for_callback({line.name!r}, int, {options})"
    options = joined(
        {
            "name": repr(line.name),
            "each": None if line.each is None else source_code(line.each),
            "parallel": str(line.parallel) if line.parallel > 1 else None,
            **common,
            "retryable": "True" if line.retryable else None,
            "retry": None if line.retry is None else retry_code(line),
            "checkpoint": "True" if line.checkpoint else None,
            "approval": None if line.approval is None else approval_code(line.approval),
        }
    )
    return f"{name}step({line.tool}, {options})({joined(values)})"


def retry_code(line: Line) -> str:
    retry: Any = line.retry
    wait = f"first_s={retry.wait_s:g}, factor=1, max_s={retry.wait_s:g}"
    return f"Retry(attempts={retry.attempts}, {wait}, jitter=False)"


def joined(options: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items() if value is not None)


def source_code(source: Source) -> str:
    match source:
        case ("constant", value):
            return repr(value)
        case ("argument", name):
            return str(name)
        case ("secret",):
            return "pin"
        case ("output", step, path):
            keys = path.split(".") if path else []
            return str(step) + "".join(f"[{key}]" if key.isdigit() else f"[{key!r}]" for key in keys)
        case ("default", inner, value):
            return f"or_default({source_code(inner)}, {value!r})"
        case ("item", path):
            return f"item({path!r})" if path else "item()"
        case ("variable", name):
            return f"task_variable({name!r})"
    raise AssertionError(source)


def condition_code(condition: Condition) -> str:
    match condition:
        case ("not", inner):
            return f"not_({condition_code(inner)})"
        case ("and" | "or" as word, left, right):
            return f"({condition_code(left)}) {'&' if word == 'and' else '|'} ({condition_code(right)})"
        case ("exists", source):
            return f"exists({source_code(source)})"
        case ("in", source, ("constant", values)):
            return f"is_in({source_code(source)}, {values!r})"
    operator, left, right = condition
    return f"{source_code(left)} {operator} {source_code(right)}"

"""Makes a failing plan smaller, and prints it as code with its events."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from tests.model.code import code_of
from tests.model.driver import Difference, drive
from tests.model.plan import Approval, Line, Plan, Source, Tool, World

MOST_TRIES = 150


def difference(plan: Plan, world: World) -> str:
    """Return the difference of a plan, or an empty text. An error of the server or of the client is one, too."""
    try:
        drive(plan, world)
    except Difference as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - it is part of the report
        return f"{type(error).__name__}: {error}"
    return ""


def kind_of(text: str) -> str:
    return text.partition(":")[0] if ":" in text else text[:25]


def shrunk(plan: Plan, world: World) -> tuple[Plan, World]:
    """Return the smallest plan and world that have a difference of the same kind."""
    kind, tries = kind_of(difference(plan, world)), 0
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for smaller_plan, smaller_world in smaller(plan, world):
            tries += 1
            if tries > MOST_TRIES:
                return plan, world
            text = difference(smaller_plan, smaller_world)
            if text and kind_of(text) == kind and "WorkflowError" not in text:
                plan, world, is_smaller = smaller_plan, smaller_world, True
                break
    return plan, world


def smaller(plan: Plan, world: World) -> Iterator[tuple[Plan, World]]:
    """Yield smaller plans and worlds, those without a step first."""
    for index in reversed(range(len(plan.lines))):
        if len(plan.lines) > 1:
            yield without_line(plan, index), world
    for name, value in [("parallel", 1), ("secret", False), ("way", "tool"), ("era", "2026")]:
        if getattr(plan, name) != value:
            yield changed(plan, name, value), world
    for line in plan.lines:
        yield from ((smaller_plan, world) for smaller_plan in smaller_lines(plan, line))
    for tool in plan.tools.values():
        yield from ((smaller_plan, world) for smaller_plan in smaller_tools(plan, tool))
    yield from ((plan, smaller_world) for smaller_world in smaller_worlds(world))


def smaller_tools(plan: Plan, tool: Tool) -> Iterator[Plan]:
    for name, value in tool_values(tool):
        copy = deepcopy(plan)
        setattr(copy.tools[tool.name], name, value)
        yield copy


def smaller_worlds(world: World) -> Iterator[World]:
    for name, value in vars(World()).items():
        if getattr(world, name) != value and name not in ("answers", "arguments", "seed"):
            yield changed(world, name, value)
    for seed in range(min(4, world.seed)):
        yield changed(world, "seed", seed)
    if "b" in world.arguments:
        yield changed(world, "arguments", {"a": world.arguments["a"]})


def changed[Data](data: Data, name: str, value: Any) -> Data:
    copy = deepcopy(data)
    setattr(copy, name, value)
    return copy


def tool_values(tool: Tool) -> Iterator[tuple[str, Any]]:
    plain = {"approval": None, "callback": None, "sets": None, "only_in": False, "slow_s": 0.0, "masked": False}
    yield from ((name, value) for name, value in plain.items() if getattr(tool, name) != value)
    if tool.fails:
        yield "fails", tool.fails - 1
    if tool.approval not in (None, Approval()):
        yield "approval", Approval()


def smaller_lines(plan: Plan, line: Line) -> Iterator[Plan]:
    plain = Line(line.name)
    for name, value in vars(plain).items():
        if name not in ("name", "kind", "tool", "arguments", "within_s") and getattr(line, name) != value:
            copy = deepcopy(plan)
            setattr(copy.line(line.name), name, value)
            if name == "each":
                copy.line(line.name).arguments = {
                    argument: ("constant", 5) if source[0] == "item" else source
                    for argument, source in line.arguments.items()
                }
            yield copy
    for argument, source in line.arguments.items():
        copy = deepcopy(plan)
        if argument in ("y", "v"):
            del copy.line(line.name).arguments[argument]
            yield copy
        elif source[0] not in ("constant", "item"):
            copy.line(line.name).arguments[argument] = ("constant", 5)
            yield copy


def without_line(plan: Plan, index: int) -> Plan:
    copy = deepcopy(plan)
    name = copy.lines.pop(index).name
    for line in copy.lines:
        line.arguments = {argument: replaced(source, name) for argument, source in line.arguments.items()}
        line.after = tuple(other for other in line.after if other != name)
        if line.each is not None and name in str(line.each):
            line.each = ("constant", [5])
        if line.when is not None and repr(name) in repr(line.when):
            line.when = None
    used = {line.tool for line in copy.lines}
    copy.tools = {tool_name: tool for tool_name, tool in copy.tools.items() if tool_name in used}
    for tool in copy.tools.values():
        if tool.callback == name:
            tool.callback = None
    sets = {tool.sets for tool in copy.tools.values()}
    for line in copy.lines:
        for argument, source in line.arguments.items():
            if "variable" in repr(source) and not any(repr(variable) in repr(source) for variable in sets):
                line.arguments[argument] = ("constant", 5)
    return copy


def replaced(source: Source, name: str) -> Source:
    return ("constant", 5) if repr(name) in repr(source) else source


def report(plan: Plan, world: World) -> str:
    """Return a plan as runnable code, its world, its events and its difference."""
    events: list[str] = []
    text = ""
    try:
        drive(plan, world, trace=events.append)
    except Exception as error:  # noqa: BLE001 - it is part of the report
        text = f"{type(error).__name__}: {error}"
    listed = "\n".join(f"#   {event}" for event in events)
    return f"{code_of(plan)}\n# Plan: {plan!r}\n# World: {world!r}\n# Events:\n{listed}\n# {text}\n"

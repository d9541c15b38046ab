"""Other definitions of a plan, which are deployed while its task waits."""

from copy import deepcopy
from random import Random

from tests.model.language import Task
from tests.model.plan import Line, Plan, Tool


def changed_plan(rng: Random, task: Task) -> Plan:
    """Return a plan with some changes. Most are allowed: those of steps that are not settled, and of options."""
    plan = deepcopy(task.plan)
    for _ in range(rng.randint(1, 2)):
        rng.choice([add_step, remove_step, change_argument, change_options])(rng, plan, task)
    return plan


def add_step(rng: Random, plan: Plan, _: Task) -> None:
    tool = f"u{len(plan.tools)}"
    plan.tools[tool] = Tool(tool)
    line = Line(f"n{len(plan.tools)}", tool=tool, arguments={"x": ("constant", rng.randint(0, 9))})
    plan.lines.insert(rng.randint(0, len(plan.lines)), line)


def remove_step(rng: Random, plan: Plan, task: Task) -> None:
    """Remove a step that is not settled, and that no other step uses."""
    names = [line.name for line in plan.lines if is_open(line, task)]
    names = [name for name in names if not any(uses(line, name) for line in plan.lines)]
    names = [name for name in names if not any(tool.callback == name for tool in plan.tools.values())]
    if names and len(plan.lines) > 1:
        plan.lines.remove(plan.line(rng.choice(names)))


def change_argument(rng: Random, plan: Plan, task: Task) -> None:
    """Change the argument of a call. If the step is completed, the definition is refused."""
    lines = [line for line in plan.lines if line.kind == "tool" and line.each is None]
    lines = [line for line in lines if is_open(line, task) or rng.random() < 0.15]
    if lines:
        rng.choice(lines).arguments["x"] = ("constant", rng.randint(0, 9))


def change_options(rng: Random, plan: Plan, _: Task) -> None:
    for line in plan.lines:
        is_guarded = line.kind == "tool" and (line.approval or plan.tools[line.tool].approval)
        if line.kind == "tool" and rng.random() < 0.5:
            line.checkpoint = not line.checkpoint
        if line.kind == "tool" and not is_guarded and rng.random() < 0.5:
            line.retryable = not line.retryable


def is_open(line: Line, task: Task) -> bool:
    """Whether a step may be changed or removed: it is not settled, and has nothing that a later run uses."""
    name = line.name
    if task.in_background and task.suspends and any(stop.step == name for stop in task.stops):
        return False  # when the call wakes depends on it
    return name in task.statuses and not task.is_settled(name) and name not in {*task.early, *task.lists, *task.ends}


def uses(line: Line, name: str) -> bool:
    return line.name != name and repr(name) in repr((line.arguments, line.when, line.each, line.after))

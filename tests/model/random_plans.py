"""Random plans and worlds over all features."""

from random import Random
from typing import Any

from tests.model.plan import HOUR, MINUTE, Approval, Condition, Line, Plan, Retry, Source, Tool, World

MOST_LINES = 6


def random_plan(seed: int) -> tuple[Plan, World]:
    rng = Random(seed)
    way = rng.choice(["prompt", "tool", "tool", "task", "task"])
    plan = Plan([], {}, way=way, era=rng.choice(["2025", "2026"]))
    plan.parallel = rng.choice([1, 1, 2, 8])
    plan.secret = way != "task" and rng.random() < 0.4
    for number in range(rng.randint(1, MOST_LINES)):
        plan.lines.append(random_line(rng, plan, f"s{number}"))
    without_ambiguity(plan)
    without_races(plan)
    return plan, random_world(rng, plan, seed)


def random_line(rng: Random, plan: Plan, name: str) -> Line:
    kinds = ["tool"] * 9 + ["fetch", "model", "user", "callback", "callback", "sleep"]
    line = Line(name, rng.choice(kinds))
    earlier = [other.name for other in plan.lines if other.kind not in ("fetch", "sleep")]
    match line.kind:
        case "tool":
            random_call(rng, plan, line, earlier)
        case "fetch":
            line.arguments = {"v": random_value(rng, plan, earlier)}
        case "model" | "user":
            value = ("argument", "b") if rng.random() < 0.2 else random_value(rng, plan, earlier)
            line.arguments = {"v": value} if rng.random() < 0.4 else {}
        case "sleep":
            line.within_s = rng.choice([5 * MINUTE, 3 * HOUR])
        case "callback":
            add_callback(rng, plan, line)
    if earlier and rng.random() < 0.25:
        line.when = random_condition(rng, plan, earlier)
    if plan.lines and rng.random() < 0.2:
        line.after = (rng.choice(plan.lines).name,)
    return line


def add_callback(rng: Random, plan: Plan, line: Line) -> None:
    """Make an earlier tool's function ask for the address of a callback; without such a tool, the step sleeps."""
    tools = [plan.tools[other.tool] for other in plan.lines if other.kind == "tool" and other.when is None]
    tools = [tool for tool in tools if tool.callback is None]
    if not tools:
        line.kind, line.within_s = "sleep", 10 * MINUTE
        return
    rng.choice(tools).callback = line.name
    line.within_s, line.skips = rng.choice([2 * HOUR, 20 * HOUR]), rng.random() < 0.4


def random_call(rng: Random, plan: Plan, line: Line, earlier: list[str]) -> None:
    if plan.tools and rng.random() < 0.25:
        line.tool = rng.choice(list(plan.tools))
    else:
        line.tool = f"t{len(plan.tools)}"
        plan.tools[line.tool] = random_tool(rng, line.tool)
    if rng.random() < 0.25:
        lists = [("output", name, "list") for name in earlier if is_plain_tool(plan, name)]
        line.each = rng.choice([("constant", [3, 8]), ("constant", [5]), ("constant", []), *lists, *lists])
        if line.each[0] == "output":
            line.each = with_default(plan, line.each, [1])
        line.parallel = rng.choice([1, 1, 4])
        if rng.random() < 0.12:
            line.each = ("constant", [{"n": 3}, {"n": 8}, {"odd": 5}][: rng.randint(1, 3)])
    for name in ["x", "y"] if rng.random() < 0.4 else ["x"]:
        line.arguments[name] = random_source(
            rng, plan, earlier, in_list=line.each is not None, is_call=True, is_of_objects="{" in repr(line.each)
        )
    if rng.random() < 0.14 and line.each is None:
        del line.arguments["x"]
    if rng.random() < 0.2:
        line.retry = Retry(rng.randint(2, 3), rng.choice([1.0, HOUR]))
    line.retryable, line.checkpoint = rng.random() < 0.3, rng.random() < 0.2
    if plan.tools[line.tool].approval is None and rng.random() < 0.08:
        line.approval = random_approval(rng)


def random_tool(rng: Random, name: str) -> Tool:
    tool = Tool(name)
    if rng.random() < 0.25:
        tool.approval = random_approval(rng)
    tool.fails = rng.choice([0, 0, 0, 1, 1, 2, 3])
    tool.sets = f"v{name}" if rng.random() < 0.3 else None
    tool.only_in = rng.random() < 0.1
    tool.masked = rng.random() < 0.25
    return tool


def random_approval(rng: Random) -> Approval:
    return Approval(rng.choice([None, None, 4]), rng.choice([HOUR, 24 * HOUR]))


def is_plain_tool(plan: Plan, name: str) -> bool:
    line = plan.line(name)
    return line.kind == "tool" and line.each is None


def random_source(
    rng: Random,
    plan: Plan,
    earlier: list[str],
    *,
    in_list: bool = False,
    is_call: bool = False,
    is_of_objects: bool = False,
) -> Source:
    if plan.secret and is_call and not in_list and rng.random() < 0.5:
        return ("secret",)
    kinds = ["constant", "constant", "argument"] + ["item"] * 3 * in_list + ["output"] * 4 * bool(earlier)
    setters = [tool.sets for tool in plan.tools.values() if tool.sets is not None]
    match rng.choice([*kinds, *(["variable"] * 2 if setters else [])]):
        case "argument":
            return rng.choice([("argument", "a"), ("default", ("argument", "b"), 6), ("argument", "b")])
        case "item":
            return ("item", rng.choice([None, "n"]) if is_of_objects else None)
        case "variable":
            return rng.choice([("variable", rng.choice(setters)), ("default", ("variable", rng.choice(setters)), 4)])
        case "output":
            return random_output(rng, plan, rng.choice(earlier))
    return rng.choice([("constant", rng.randint(0, 9)), ("constant", "order {a}")])


def random_value(rng: Random, plan: Plan, earlier: list[str]) -> Source:
    """A source that always has a value."""
    source = random_source(rng, plan, earlier)
    return ("default", source, 2) if source[0] == "variable" or source == ("argument", "b") else source


def random_output(rng: Random, plan: Plan, name: str) -> Source:
    line = plan.line(name)
    paths: list[str | None] = [None]
    if line.kind == "tool":
        paths = ["0.n", None] if line.each is not None else ["n", "n", "n", None, "list.0", "even"]
    source = ("output", name, rng.choice(paths))
    return with_default(plan, source, rng.randint(0, 9))


def with_default(plan: Plan, source: Source, value: Any) -> Source:
    """A source of a step that may be skipped needs a default."""
    return ("default", source, value) if plan.line(source[1]).may_be_skipped else source


def random_condition(rng: Random, plan: Plan, earlier: list[str]) -> Condition:
    name = rng.choice(earlier)
    path = {"tool": "0.n" if plan.line(name).each is not None else "n"}.get(plan.line(name).kind)
    source = with_default(plan, ("output", name, path), rng.randint(0, 9))
    number = ("constant", rng.randint(0, 9))
    base = rng.choice(
        [
            (rng.choice(["==", "!=", "<", ">="]), source, number),
            (">", ("argument", "a"), number),
            ("==", ("argument", "b"), number),
            ("exists", source[1] if source[0] == "default" else source),
            ("in", source, ("constant", [1, 3, 5, 7, 9])),
        ]
    )
    if rng.random() < 0.2:
        base = (rng.choice(["and", "or"]), base, (rng.choice(["<", ">="]), ("argument", "a"), number))
    return ("not", base) if rng.random() < 0.2 else base


def without_ambiguity(plan: Plan) -> None:
    """Make sure that the order of calls at the same time does not matter: equal calls of a tool do not fail."""
    for tool in plan.tools.values():
        lines = [line for line in plan.lines if line.tool == tool.name]
        is_alone = len(lines) == 1 and (lines[0].each is None or lines[0].arguments.get("x") == ("item", None))
        if not is_alone and (plan.parallel > 1 or any(line.parallel > 1 for line in lines)):
            tool.fails = 0
        # The model may have to supply an argument, which it cannot do if it cannot call the tool.
        sources = [line.arguments.get("x") for line in lines]
        if any(source is None or source[0] in ("argument", "variable") for source in sources):
            tool.only_in = False
        for line in lines:
            if line.each is not None and (tool.approval or line.approval):
                line.arguments["x"] = ("item", None)


def without_races(plan: Plan) -> None:
    """Make sure that no call at the same time or later sets a task variable that a step uses, and that not several
    calls at the same time have set it."""
    racing = {line.tool for line in plan.lines if line.each is not None and line.parallel > 1}
    for index, line in enumerate(plan.lines):
        tools = [other.tool for other in plan.lines if other.kind == "tool"]
        later = {other.tool for other in plan.lines[index:] if other.kind == "tool"}
        later |= {tool for tool in tools if tools.count(tool) > 1}
        unsure = racing | (later if plan.parallel > 1 or line.parallel > 1 else set())
        names = {tool.sets for tool in plan.tools.values() if tool.name in unsure}
        for name, source in line.arguments.items():
            variable = source[1] if source[0] == "default" else source
            if variable[0] == "variable" and variable[1] in names:
                line.arguments[name] = ("constant", 4)


def random_world(rng: Random, plan: Plan, seed: int) -> World:
    world = World({"a": rng.randint(0, 9)}, seed=seed)
    if rng.random() < 0.5:
        world.arguments["b"] = rng.randint(0, 9)
    questions = [line.name for line in plan.lines if line.kind in ("model", "user")]
    world.answers = {name: rng.randint(0, 9) for name in questions}
    if plan.way != "prompt":
        world.early = tuple(name for name in questions if rng.random() < 0.35)
    names = [line.name for line in plan.lines]
    world.denied = tuple(name for name in names if rng.random() < 0.2)
    world.expiring = tuple(name for name in names if rng.random() < 0.2)
    world.silent = tuple(name for name in names if rng.random() < 0.3)
    world.unreadable = {line.name: rng.choice([0, 1, 2]) for line in plan.lines if line.kind == "fetch"}
    world.form = plan.way != "task" and bool(questions) and rng.random() < 0.6
    world.changes = rng.choice([0, 0, 1, 2])
    world.meanwhile = rng.choice(["", "", "call", "callback"])
    return world

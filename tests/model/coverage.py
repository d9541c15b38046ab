"""Which features plans combine."""

from collections import Counter
from itertools import combinations

from tests.model.plan import Line, Plan, World, outputs_of


def features_of(plan: Plan, world: World) -> set[str]:
    """Return the features of a plan and its world."""
    features = {f"as a {plan.way}", f"era {plan.era}"}
    features |= {"parallel steps"} if plan.parallel > 1 else set()
    features |= {"left-out argument"} if "b" not in world.arguments else set()
    for line in plan.lines:
        features |= features_of_line(line, plan)
    tools = [line.tool for line in plan.lines if line.tool]
    features |= {"two steps with a tool"} if len(tools) > len(set(tools)) else set()
    guarded = {
        line.name for line in plan.lines if line.kind == "tool" and (line.approval or plan.tools[line.tool].approval)
    }
    features |= {"denied approval"} if guarded & set(world.denied) else set()
    features |= {"expired approval"} if guarded & set(world.expiring) else set()
    features |= {"early answer"} if world.early else set()
    features |= {"form"} if world.form else set()
    features |= {"changed definition"} if world.changes else set()
    features |= {f"{world.meanwhile} during a run"} if world.meanwhile else set()
    features |= {"kill"} if world.kills else set()
    return features


def features_of_line(line: Line, plan: Plan) -> set[str]:
    has = {
        "condition": line.when is not None,
        "list": line.each is not None,
        "parallel list": line.each is not None and line.parallel > 1,
        "after": bool(line.after),
        "retry": line.retry is not None and line.retry.wait_s < 60,
        "long retry": line.retry is not None and line.retry.wait_s > 60,
        "retryable": line.retryable,
        "secret in a call": ("secret",) in line.arguments.values(),
        "checkpoint": line.checkpoint,
        "question to model": line.kind == "model",
        "question to user": line.kind == "user",
        "callback": line.kind == "callback",
        "sleep": line.kind == "sleep",
        "fetch": line.kind == "fetch",
        "missing argument": line.kind == "tool" and "x" not in line.arguments,
        "task variable": "'variable'" in repr(line.arguments),
        "data flow": any(outputs_of(source) for source in line.arguments.values()),
    }
    if line.kind == "tool":
        tool = plan.tools[line.tool]
        approval = tool.approval or line.approval
        has |= {
            "approval": approval is not None,
            "conditional approval": approval is not None and approval.above is not None,
            "failing tool": tool.fails > 0,
            "masked error": tool.masked and tool.fails > 0,
            "only in": tool.only_in,
        }
    return {name for name, is_there in has.items() if is_there}


def pairs_of(plan: Plan, world: World) -> list[str]:
    return [" + ".join(pair) for pair in combinations(sorted(features_of(plan, world)), 2)]


def table(pairs: Counter[str]) -> str:
    """Return the counts of the pairs, the rarest first."""
    return "\n".join(f"{count:6} {pair}" for pair, count in sorted(pairs.items(), key=lambda item: item[1]))

"""Which features plans combine. `python -m tests.model.coverage` draws how often two of them meet, as a picture for
docs/guarantees.md."""

import sys
from collections import Counter
from html import escape
from itertools import combinations
from pathlib import Path

from tests.model.kills import random_plan_to_kill
from tests.model.plan import Line, Plan, World, outputs_of
from tests.model.random_plans import random_plan


def features_of(plan: Plan, world: World) -> set[str]:
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
    names = sorted({name for pair in pairs for name in pair.split(" + ")})
    rows = [f"| | {' | '.join(str(number) for number in range(1, len(names)))} |", f"|---|{'--:|' * (len(names) - 1)}"]
    for number, name in enumerate(names, 1):
        counts = [str(pairs[f"{other} + {name}"] or "-") for other in names[: number - 1]]
        rows.append(f"| {' | '.join([f'{number} {name}', *counts])} |")
    return "\n".join(rows)


PICTURE = Path(__file__).parents[2] / "docs" / "images" / "pairs.svg"
CELL_WIDTH, CELL_HEIGHT, NAMES_WIDTH = 24, 13, 130


def picture(pairs: Counter[str]) -> str:
    """Return the same table as an SVG picture. Reading 38 columns of Markdown is hard."""
    names = sorted({name for pair in pairs for name in pair.split(" + ")})
    width, height = NAMES_WIDTH + CELL_WIDTH * (len(names) - 1), CELL_HEIGHT * (len(names) + 1)
    texts = [
        _text(NAMES_WIDTH + CELL_WIDTH * number - 2, CELL_HEIGHT - 3, str(number), "end")
        for number in range(1, len(names))
    ]
    for number, name in enumerate(names, 1):
        baseline = CELL_HEIGHT * (number + 1) - 3
        texts.append(_text(2, baseline, f"{number} {name}", "start"))
        for column, other in enumerate(names[: number - 1], 1):
            count = pairs[f"{other} + {name}"]
            texts.append(_text(NAMES_WIDTH + CELL_WIDTH * column - 2, baseline, str(count or "-"), "end"))
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="9">']
    return "\n".join([*lines, f'<rect width="{width}" height="{height}" fill="white"/>', *texts, "</svg>", ""])


def _text(x: int, y: int, text: str, anchor: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'


def pairs_of_seeds(seeds: int) -> Counter[str]:
    """Return how often two features meet in the plans of the first seeds of both kinds."""
    pairs = Counter[str]()
    for seed in range(seeds):
        pairs.update(pairs_of(*random_plan(seed)))
        pairs.update(pair for pair in pairs_of(*random_plan_to_kill(seed)) if "kill" in pair.split(" + "))
    return pairs


def main() -> None:
    """Draw the pairs of the first 5,000 seeds, and print the rarest."""
    pairs = pairs_of_seeds(5000)
    PICTURE.write_text(picture(pairs))
    sys.stdout.write(f"The rarest: {min(pairs.items(), key=lambda item: item[1])}\n")


if __name__ == "__main__":
    main()

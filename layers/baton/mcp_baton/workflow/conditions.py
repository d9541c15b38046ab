"""Conditions: whether a step runs or is skipped (docs/workflows.md, Conditions). Pure."""

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from mcp_baton.protocol.json import Json
from mcp_baton.tasks.record import StepStatus
from mcp_baton.workflow.definition import Step, Workflow
from mcp_baton.workflow.pause import PauseReason, UnresolvableParams, UnresolvedDependency
from mcp_baton.workflow.resolve import Known, NoOutput, NotGiven, NoVariable, Resolution, resolve, why_not_found
from mcp_baton.workflow.sources import Condition, Found, Source, written

_ORDER: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Undecided(Struct, frozen=True):
    """A condition that cannot be decided.

    Attributes:
        source: The source without a usable value.
        resolution: Why it has none; `None` if its value has the wrong type.
        problem: What is wrong with the type.
    """

    source: Source
    resolution: Resolution | None = None
    problem: str = ""


def decide_condition(step: Step, workflow: Workflow, known: Known) -> bool | PauseReason:
    """Whether a step runs; or why that cannot be decided. A step without a condition runs."""
    if step.when is None:
        return True
    decided = holds(step.when, workflow, known)
    if isinstance(decided, bool):
        return decided
    if isinstance(decided.resolution, NoOutput):
        producer = decided.resolution.step
        lost = known.lost.get(producer.name, "")
        return UnresolvedDependency(step.name, producer.binding, producer.name, step.tool or "", lost)
    problem = decided.problem
    if decided.resolution is not None:
        problem = why_not_found(decided.source, decided.resolution, known)
    return UnresolvableParams(step.name, written(decided.source), step.tool or "", problem, str(step.when))


def holds(condition: Condition, workflow: Workflow, known: Known) -> bool | Undecided:
    """The value of a condition. `and` and `or` do not look at their second operand if the first one decides."""
    match condition.operator, condition.operands:
        case "and" | "or" as word, (left, right):
            first = holds(left, workflow, known)
            return holds(right, workflow, known) if first is (word == "and") else first
        case "not", (inner,):
            decided = holds(inner, workflow, known)
            return decided if isinstance(decided, Undecided) else not decided
        case "exists", (source,):
            resolution = resolve(source, workflow, known)
            if isinstance(resolution, Found):
                return True
            return Undecided(source, resolution) if may_come(resolution, known) else False
        case word, (left, right):
            return _compared(word, left, right, workflow, known)
    raise ValueError(condition.operator)


def may_come(resolution: Resolution, known: Known) -> bool:
    """Whether a source without a value may have one later."""
    match resolution:
        case NoOutput(producer):
            return known.statuses[producer.name] is not StepStatus.SKIPPED
        case NoVariable(later=later):
            return later
    return False


def _compared(word: str, left: Source, right: Source, workflow: Workflow, known: Known) -> bool | Undecided:
    values: list[Json] = []
    for source in (left, right):
        resolution = resolve(source, workflow, known)
        match resolution:
            case Found(value):
                values.append(value)
            case NotGiven():
                values.append(None)  # an optional argument that was left out equals null
            case _:
                return Undecided(source, resolution)
    one, other = values
    if word in ("==", "!="):
        return equal(one, other) is (word == "==")
    if word == "in":
        return isinstance(other, list) and any(equal(one, member) for member in other)
    if _is_number(one) and _is_number(other) or (isinstance(one, str) and isinstance(other, str)):
        return _ORDER[word](one, other)
    return Undecided(left, problem=f"{word} compares two numbers or two texts, and not {_kind(one)} and {_kind(other)}")


def equal(one: Json, other: Json) -> bool:
    """Whether two JSON values are equal. A truth value equals no number."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(equal(value, other[name]) for name, value in one.items())
    return one == other


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _kind(value: Json) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a truth value"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case Mapping():
            return "an object"
        case _:
            return "a list"

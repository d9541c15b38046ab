"""Data sources, from which arguments get their values, and conditions on them (docs/workflows.md)."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from types import FrameType
from typing import Any, Final, NoReturn, cast

from msgspec import Struct

from mcp_baton.exceptions import WorkflowError
from mcp_baton.protocol.json import Json, dumps, loads
from mcp_baton.tools.templates import copy_json

recording_of_function: Final[ContextVar[Any]] = ContextVar("recording", default=None)
"""The `Recording` of the workflow function that is being called. It has the errors, which the function may catch."""


class NoValueYet(WorkflowError, TypeError):
    """A workflow function uses a value that exists only when the workflow runs."""

    def __init__(self, workflow: str | None, cause: str) -> None:
        recording = recording_of_function.get()
        super().__init__(workflow or (recording.workflow if recording else "?"), cause)
        if recording is not None:
            recording.refusals.append(self)


def author_line() -> str:
    """The author's line that is running, as `FILE:LINE`."""
    frame = sys._getframe(1)  # noqa: SLF001 - the documented way to the caller's line
    while frame.f_back is not None and not is_authors(frame):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


_PACKAGE: Final = __name__.partition(".")[0]
_STANDARD: Final = (os.path.dirname(os.__file__) + os.sep, "<frozen")  # noqa: PTH120 - importing pathlib takes time


def is_authors(frame: FrameType) -> bool:
    """Whether a frame runs the author's code, and not Baton's, Python's or another package's."""
    file = frame.f_code.co_filename
    if file.startswith(_STANDARD) or "site-packages" in file:
        return False
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] != _PACKAGE


USE_A_CONDITION = "give it to a step: step(tool, when=…), and combine conditions with (…) & (…), (…) | (…) and not_(…)"
"""What to write instead of a test in Python."""

_PARENTHESES: Final = "put each comparison in parentheses: (order.total > 100) & exists(order.email)"


def _refuse(does: str, remedy: str) -> Any:
    def refuse(self: Any, *_given: object) -> NoReturn:
        text = f"the condition {self.text}" if isinstance(self, Condition) else f"the value {source_text(self)}"
        cause = f"{author_line()} {does} {text}, which has no value before the workflow runs"
        raise NoValueYet(min(workflows_of(self), default=None), f"{cause}; {remedy}")

    return refuse


class Operand:
    """A value that can be compared. Comparisons make a `Condition`."""

    __slots__ = ()
    __hash__ = object.__hash__
    __bool__ = _refuse("tests", USE_A_CONDITION)
    __str__ = __format__ = _refuse("makes text from", "pass it to the tool as an argument of its own")

    def __eq__(self, other: object) -> "Condition":  # type: ignore[override]
        return Condition.of("==", self, other)

    def __ne__(self, other: object) -> "Condition":  # type: ignore[override]
        return Condition.of("!=", self, other)

    def __lt__(self, other: object) -> "Condition":
        return Condition.of("<", self, other)

    def __le__(self, other: object) -> "Condition":
        return Condition.of("<=", self, other)

    def __gt__(self, other: object) -> "Condition":
        return Condition.of(">", self, other)

    def __ge__(self, other: object) -> "Condition":
        return Condition.of(">=", self, other)


class Condition(Struct, frozen=True, eq=False):
    """A condition of a step: a comparison of sources, or a combination of conditions.

    Attributes:
        operator: `==`, `!=`, `<`, `<=`, `>`, `>=`, `in` and `exists` have sources as operands; `and`, `or` and `not`
            have conditions.
        operands: One or two.
        workflows: The workflow functions whose references it uses.
    """

    operator: str
    operands: tuple[Any, ...]
    workflows: frozenset[str] = frozenset()

    @classmethod
    def of(cls, operator: str, *values: object) -> "Condition":
        """A condition on values, references or other conditions."""
        made_by = {name for value in values for name in workflows_of(value)}
        if operator in _SIGNS and (wrong := [value for value in values if not _is_condition(value)]):
            cause = f"{author_line()} combines {wrong[0]!r} with a condition by {_SIGNS[operator]}"
            raise NoValueYet(min(made_by, default=None), f"{cause}; {_PARENTHESES}")
        operands = map(condition_of if operator in COMBINING else as_source, values)
        return cls(operator, tuple(operands), frozenset(made_by))

    def __and__(self, other: object) -> "Condition":
        return Condition.of("and", self, other)

    def __rand__(self, other: object) -> "Condition":
        return Condition.of("and", other, self)

    def __or__(self, other: object) -> "Condition":
        return Condition.of("or", self, other)

    def __ror__(self, other: object) -> "Condition":
        return Condition.of("or", other, self)

    def __invert__(self) -> "Condition":
        return Condition.of("not", self)

    __lt__ = __le__ = __gt__ = __ge__ = _refuse("compares", _PARENTHESES)
    __eq__ = __ne__ = __lt__
    __hash__ = object.__hash__
    __bool__ = _refuse("tests", USE_A_CONDITION)
    __str__ = __format__ = _refuse("makes text from", "give it to a step: step(tool, when=…)")

    @property
    def text(self) -> str:
        """The condition as its author would write it, for texts."""
        match self.operator, self.operands:
            case "exists", (source,):
                return f"exists({source_text(source)})"
            case "not", (condition,):
                return f"not ({condition.text})"
            case "and" | "or" as operator, (left, right):
                return f"({left.text}) {operator} ({right.text})"
            case operator, (left, right):
                return f"{source_text(left)} {operator} {source_text(right)}"
        raise ValueError(self.operator)

    @property
    def comparisons(self) -> Iterator["Condition"]:
        if self.operator not in COMBINING:
            yield self
        else:
            for operand in self.operands:
                yield from operand.comparisons


COMBINING = frozenset({"and", "or", "not"})
_SIGNS: Final = {"and": "&", "or": "|"}


class PromptArg(Operand, Struct, frozen=True, eq=False):
    """The value of a prompt argument."""

    name: str


class Constant(Operand, Struct, frozen=True, eq=False):
    """A fixed value. In its strings, `{arg}` is replaced by a prompt argument's value."""

    value: Json


class StepOutput(Operand, Struct, frozen=True, eq=False):
    """An earlier step's output, or the field of it that a dotted path leads to."""

    binding: str
    path: str | None = None


class TaskVariable(Operand, Struct, frozen=True, eq=False):
    """A task variable, or the field of it that a dotted path leads to."""

    name: str
    path: str | None = None


class FirstOf(Operand, Struct, frozen=True, eq=False):
    """The first of several sources that has a value."""

    sources: tuple["Source", ...]


class Item(Operand, Struct, frozen=True, eq=False):
    """The current element of the list of a step with `each`, or the field of it that a dotted path leads to."""

    path: str | None = None


type Source = PromptArg | Constant | StepOutput | TaskVariable | FirstOf | Item

SOURCES = (PromptArg, Constant, StepOutput, TaskVariable, FirstOf, Item)


def source_of(value: object) -> Any:
    """The data source that a reference stands for. Any other value is returned as it is."""
    return getattr(value, "__baton_source__", value)


def as_source(value: object) -> Source:
    """A source, the source of a reference, or a plain value as a constant."""
    source = source_of(value)
    return source if isinstance(source, SOURCES) else constant(source)


def workflows_of(value: object) -> Iterator[str]:
    """Yield the names of the workflow functions whose references a value contains."""
    made_by = value.workflows if isinstance(value, Condition) else (getattr(value, "__baton_workflow__", None),)
    yield from (name for name in made_by if name is not None)


def _is_condition(value: object) -> bool:
    return isinstance(source_of(value), (Condition, *SOURCES))


def condition_of(value: object) -> Condition:
    """A condition. A source or a reference is the condition that its value is `true`.

    Raises:
        TypeError: the value is neither.
    """
    if isinstance(value, Condition):
        return value
    source = source_of(value)
    if isinstance(source, SOURCES):
        return Condition("==", (source, Constant(True)), frozenset(workflows_of(value)))
    hint = f", or write constant({value})" if isinstance(value, bool) else ""
    raise TypeError(f'{value!r} is not a condition; compare a reference or a source: order["total"] > 100{hint}')


def prompt_arg(name: str) -> PromptArg:
    """The value of the prompt argument `name`, converted to the argument's type."""
    return PromptArg(name)


def constant(value: Json) -> Constant:
    """A fixed JSON value. In its strings `{arg}` is replaced by the prompt argument's value, as the client sent it; an
    unknown `{name}` stays as it is."""
    try:
        # The author may change a list later. And a tool gets what a model would send: no tuple, and no `Enum`.
        return Constant(loads(dumps(copy_json(value))))
    except (TypeError, ValueError, RecursionError):
        return Constant(value)  # the check of the workflow reports it


_NO_DEFAULT: Any = object()


def step_output(binding: str, path: str | None = None, *, default: Json = _NO_DEFAULT) -> "StepOutput | FirstOf":
    """The output of the earlier step bound to `binding`, or one field of it.

    Args:
        binding: The step's binding: its own name unless it was given another.
        path: Dotted, list indices as numbers: `"lines.0.total"`. An object key wins over an index.
        default: The value if the step was skipped or its output lacks the path.
    """
    source = StepOutput(binding, path)
    return source if default is _NO_DEFAULT else FirstOf((source, constant(default)))


def is_in(value: object, values: Sequence[Json]) -> Condition:
    """The condition that a value is one of these. `value` is a reference or a source.

    Raises:
        TypeError: `values` is a text or a reference.
    """
    if isinstance(values, str) or _is_condition(values):
        raise TypeError(f"is_in(…, {values!r}): give a list of values")
    return Condition.of("in", value, list(values))


def exists(value: object) -> Condition:
    """The condition that a reference or a source has a value: its step was not skipped, and the field exists. An
    argument or a constant that is null has no value."""
    return Condition.of("exists", value)


def not_(condition: object) -> Condition:
    """The opposite of a condition, or of a reference to a truth value."""
    return Condition.of("not", condition)


def source_json(source: "Source | Condition | Mapping[str, Source]") -> Json:
    """A source, a condition or sources by name as JSON, for the step's fingerprint."""
    match source:
        case Condition(operator, operands):
            return [operator, *map(source_json, operands)]
        case FirstOf(sources):
            return ["first_of", *map(source_json, sources)]
        case PromptArg(name):
            return ["prompt_arg", name]
        case Constant(value):
            return ["constant", value]
        case StepOutput(binding, path):
            return ["step_output", binding, path]
        case Item(path):
            return ["item", path]
        case Mapping():
            return {name: source_json(part) for name, part in source.items()}
        case _:
            return ["task_variable", source.name, source.path]


def source_text(source: Source) -> str:
    """A source as its author would write it, for texts."""
    match source:
        case PromptArg(name):
            return name
        case StepOutput(name, path) | TaskVariable(name, path):
            return f"{name}.{path}" if path else name
        case Item(path):
            return f"item({path!r})" if path else "item()"
        case FirstOf(sources):
            return f"first_of({', '.join(map(source_text, sources))})"
        case _:
            return dumps(source.value)


def parts_of(source: object) -> Iterator[Source]:
    """The sources that a source consists of: itself, or those of `first_of`."""
    if isinstance(source, FirstOf):
        for part in source.sources:
            yield from parts_of(part)
    else:
        yield cast("Source", source)

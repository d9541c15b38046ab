"""References: values that exist only when a workflow runs (docs/workflows.md, Workflow functions)."""

from collections.abc import Callable
from typing import Any, Final, NoReturn, cast

from msgspec import structs

from mcp_baton.exceptions import WorkflowError
from mcp_baton.workflow.sources import (
    USE_A_CONDITION,
    Condition,
    FirstOf,
    Item,
    NoValueYet,
    Operand,
    PromptArg,
    Source,
    StepOutput,
    TaskVariable,
    as_source,
    author_line,
    source_text,
    workflows_of,
)


class Reference(Operand):
    """A workflow's argument, the result of a step, or a field of that result.

    `reference["key"]`, `reference.attribute` and `reference[0]` refer to fields; an attribute is always a field.
    Comparisons (`reference > 3`) and `&` and `|` make conditions. Everything else that needs the value raises
    `NoValueYet`, since there is none while the workflow is being described.

    Args:
        workflow: The name of the workflow function that made it; `None` if a `Step` or an `Argument` did.
    """

    __slots__ = ("__baton_source__", "__baton_workflow__")

    def __init__(self, source: Source, workflow: str | None = None) -> None:
        self.__baton_source__ = source
        self.__baton_workflow__ = workflow

    def __repr__(self) -> str:
        """For debuggers and errors."""
        return f"<{name_of(self)}>"

    def __getattr__(self, field: str) -> "Reference":
        """The field of this name. Python's own attributes (`__wrapped__`, …) do not exist."""
        if field.startswith("__") and field.endswith("__"):
            raise AttributeError(field)
        return self[field]

    def __getitem__(self, field: str | int) -> "Reference":
        """A field of an object, or an element of a list.

        Raises:
            NoValueYet: The field cannot be written as a path.
        """
        source = self.__baton_source__
        if not isinstance(source, StepOutput | TaskVariable | Item):
            raise no_value(
                self, f"takes the field {field!r} of", "pass the whole argument; take fields and call methods in a tool"
            )
        if isinstance(field, bool) or not isinstance(field, str | int) or (isinstance(field, int) and field < 0):
            raise no_value(self, f"takes {field!r} of", "use a field's name or an index from 0")
        if isinstance(field, str) and (not field or "." in field):
            raise no_value(
                self, f"takes {field!r} of", "the names of fields have no dots; return it under another name"
            )
        key = str.__str__(field) if isinstance(field, str) else str(field)  # not the name of an `Enum`'s member
        path = key if source.path is None else f"{source.path}.{key}"
        return Reference(structs.replace(source, path=path), self.__baton_workflow__)


def workflow_of(reference: Reference) -> str | None:
    """The name of the workflow function that made a reference."""
    return reference.__baton_workflow__


def name_of(reference: Reference) -> str:
    """What a reference stands for, for errors."""
    match reference.__baton_source__:
        case PromptArg(name):
            return f"the argument {name!r}"
        case StepOutput(binding, None):
            return f"the result of the step {binding!r}"
        case StepOutput(binding, path):
            return f"the field {path!r} of the result of the step {binding!r}"
        case source:
            return f"the value {source_text(source)}"


REFERENCE_TEXT: Final = r"<(the (argument|result of the step|field) '|the value )"
"""A pattern of the text that `repr` makes of a reference. Debuggers need it; nothing else makes text from one."""


def no_value(reference: Reference, does: str, remedy: str, workflow: str | None = None) -> NoValueYet:
    """The error for a use that needs the value."""
    cause = f"{author_line()} {does} {name_of(reference)}, which has no value before the workflow runs; {remedy}"
    return NoValueYet(workflow or workflow_of(reference), cause)


def _refuse(does: str, remedy: str) -> Callable[..., NoReturn]:
    def refuse(self: Reference, *_given: object, **_named: object) -> NoReturn:
        raise no_value(self, does, remedy)

    return refuse


for _operator in ("and", "rand", "or", "ror", "invert"):
    setattr(Reference, f"__{_operator}__", getattr(Condition, f"__{_operator}__"))

IN_A_TOOL = "do it in a tool, and use the tool's result"
_REFUSED = {
    "tests": (
        "bool contains",
        USE_A_CONDITION,
    ),
    "iterates over or counts": ("iter len reversed", "call a tool for each element: step(tool, each=…)(x=item())"),
    "makes text from": ("str format", "pass it to the tool as an argument of its own"),
    "calls": ("call", "an attribute is a field of the result; call methods in a tool"),
    "uses as a key": ("hash", IN_A_TOOL),
    "computes with": (
        "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow xor rxor",
        IN_A_TOOL,
    ),
    "converts": ("neg pos abs round int float index complex trunc floor ceil", IN_A_TOOL),
    "awaits": ("await", "write step(tool)(…) without await; Baton awaits the tool when the workflow runs"),
    "changes": ("setitem delitem", IN_A_TOOL),
}
REFUSED_METHODS: Final = tuple(method for methods, _ in _REFUSED.values() for method in methods.split())
"""The special methods, without underscores, that need a value."""

for _does, (_methods, _remedy) in _REFUSED.items():
    for _method in _methods.split():
        setattr(Reference, f"__{_method}__", _refuse(_does, _remedy))


def task_variable(name: str, path: str | None = None) -> Any:
    """A task variable that a tool has set through `Context.task`, or one field of it (path as in `step_output`)."""
    return Reference(TaskVariable(name, path))


def item(path: str | None = None) -> Any:
    """The current element of the list of a step with `each`, or one field of it (path as in `step_output`)."""
    return Reference(Item(path))


def first_of[T](*values: T | None) -> T:
    """The first of several references or sources that has a value: its step was not skipped, and its field exists. An
    argument that is null has no value, nor has a null that is not the last value.

    Args:
        values: References or sources, at least one; the last one may be a plain value.
    """
    source = FirstOf(tuple(map(as_source, values)))
    if not any(isinstance(value, Reference) for value in values):
        return cast("T", source)
    made_by = {name for value in values for name in workflows_of(value)}
    if len(made_by) > 1:
        raise WorkflowError(min(made_by), f"{author_line()}: first_of has references of several workflows: {made_by}")
    return cast("T", Reference(source, next(iter(made_by), None)))


def or_default[T](value: T, default: T) -> T:
    """A reference or a source; or the default, if it has no value, as in `first_of`."""
    return first_of(value, default)

"""Data sources: where a step's argument gets its value (docs/workflows.md)."""

import re
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from mcp_baton.protocol.json import Json, dumps

_PLACEHOLDER = re.compile(r"\{([^{}]+)\}")


class PromptArg(Struct, frozen=True):
    """The value of a prompt argument."""

    name: str


class Constant(Struct, frozen=True):
    """A fixed value. In its strings, `{arg}` is replaced by a prompt argument's value."""

    value: Json


class StepOutput(Struct, frozen=True):
    """An earlier step's output, or the field of it that a dotted path leads to."""

    binding: str
    path: str | None = None


class TaskVariable(Struct, frozen=True):
    """A task variable, or the field of it that a dotted path leads to.

    Attributes:
        set_by: The tools that declare to set it. Filled in when the workflow is checked.
    """

    name: str
    path: str | None = None
    set_by: tuple[str, ...] = ()


type Source = PromptArg | Constant | StepOutput | TaskVariable


def prompt_arg(name: str) -> PromptArg:
    """The value of the prompt argument `name`, converted to the argument's type."""
    return PromptArg(name)


def constant(value: Json) -> Constant:
    """A fixed JSON value. In its strings `{arg}` is replaced by the prompt argument's value, as the client sent it; an
    unknown `{name}` stays as it is."""
    return Constant(copy_json(value))


def step_output(binding: str, path: str | None = None) -> StepOutput:
    """The output of the earlier step bound to `binding`, or one field of it.

    Args:
        binding: The step's binding: its own name unless it was given another.
        path: Dotted, list indices as numbers: `"lines.0.total"`. An object key wins over an index.
    """
    return StepOutput(binding, path)


def task_variable(name: str, path: str | None = None) -> TaskVariable:
    """A task variable that a tool has set through `Context.task`, or one field of it (path as in `step_output`)."""
    return TaskVariable(name, path)


def described(source: Source) -> Json:
    """A source as JSON, for its step's fingerprint."""
    match source:
        case PromptArg(name):
            return ["prompt_arg", name]
        case Constant(value):
            return ["constant", value]
        case StepOutput(binding, path):
            return ["step_output", binding, path]
        case _:
            return ["task_variable", source.name, source.path]


class Found(Struct, frozen=True):
    """A value that exists. It may be `null`."""

    value: Json


def lookup(value: Json, path: str | None) -> Found | None:
    """Follow a dotted path into a JSON value; `None` if the path does not exist."""
    for key in path.split(".") if path else ():
        if isinstance(value, Mapping):
            if key not in value:
                return None
            value = value[key]
        elif isinstance(value, Sequence) and not isinstance(value, str) and _is_index(key, len(value)):
            value = value[int(key)]
        else:
            return None
    return Found(value)


def end_of(value: Json, path: str) -> str:
    """Where a path leaves a value, and what is there."""
    followed: list[str] = []
    for key in path.split("."):
        found = lookup(value, key)
        if found is None:
            break
        value = found.value
        followed.append(key)
    where = f"'{'.'.join(followed)}'" if followed else "it"
    match value:
        case None:
            return f"{where} is null"
        case bool() | int() | float():
            return f"{where} is a number or a truth value"
        case str():
            return f"{where} is a text"
        case Mapping():
            return f"{where} is an object without this field"
        case _:
            return f"{where} is a list of {len(value)} item{'s' * (len(value) != 1)}"


def _is_index(key: str, length: int) -> bool:
    return key.isascii() and key.isdigit() and len(key) < 10 and int(key) < length


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace each `{name}` that has a value."""
    return _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), text) if "{" in text else text


def fill_uri(uri: str, values: Mapping[str, str]) -> str:
    """`fill` for a URI: values are percent-encoded, so that each reaches its template whole (RFC 6570, 3.2.2).

    A value at the beginning of the URI is not encoded, because it contains the scheme.

    Args:
        uri: A URI with `{name}`s.
        values: The values by name.
    """
    return _PLACEHOLDER.sub(lambda match: _in_uri(match, values), uri)


def _in_uri(match: re.Match[str], values: Mapping[str, str]) -> str:
    name = match[1]
    if name not in values:
        return match[0]
    return values[name] if match.start() == 0 else encoded(values[name])


def encoded(text: str) -> str:
    """A text percent-encoded as one value in a URI: everything but RFC 3986's unreserved characters."""
    from urllib.parse import quote

    return quote(text, safe="", errors="replace")


def placeholders(text: str) -> frozenset[str]:
    """The names in braces in a text."""
    return frozenset(_PLACEHOLDER.findall(text))


def fill_json(value: Json, values: Mapping[str, str]) -> Json:
    """`fill` for every string inside a JSON value. The result shares nothing with `value`."""
    return _rebuild(value, lambda text: fill(text, values))


def copy_json(value: Json) -> Json:
    """A copy of a JSON value that shares no container with it: a tool may change its arguments."""
    return _rebuild(value, lambda text: text)


def _rebuild(value: Json, on_text: Callable[[str], str]) -> Json:
    if isinstance(value, str):
        return on_text(value)
    if isinstance(value, int):  # a common one, and asking whether it is a `Mapping` takes longer
        return value
    if isinstance(value, Mapping):
        return {key: _rebuild(item, on_text) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [_rebuild(item, on_text) for item in value]
    return value


def as_text(value: Json) -> str:
    """A value in a text or a URI: a string as it is, everything else as JSON."""
    if isinstance(value, str):
        return value
    if type(value) is int:  # the commonest of the others, and the same in JSON
        return str(value)
    return dumps(value)


def sources_in(arguments: Mapping[str, Source]) -> list[StepOutput]:
    """The sources that refer to a step's output."""
    return [source for source in arguments.values() if isinstance(source, StepOutput)]

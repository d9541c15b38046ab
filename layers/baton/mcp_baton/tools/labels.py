"""Labels: the title, description, icons and other members of a definition that clients show."""

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import UnionType
from typing import Any, Final, TypedDict

from msgspec import Struct, structs

from mcp_baton.exceptions import RegistrationError
from mcp_baton.protocol.http import GROUPS_CLAIM, SCOPE_CLAIMS
from mcp_baton.protocol.json import Json, JsonObject, dumps
from mcp_baton.tasks.record import ENGINE_PREFIX
from mcp_baton.tasks.variables import MCP_PREFIX


class Labels(Struct, frozen=True):
    """The members of a definition that clients show."""

    title: str | None = None
    description: str | None = None
    icons: Sequence[JsonObject] = ()
    annotations: JsonObject | None = None
    meta: JsonObject | None = None

    def for_function(self, function: Callable[..., object]) -> "Labels":
        """These labels, with the function's docstring as the description if there is no other."""
        if self.description is not None:
            return self
        while isinstance(function, functools.partial):
            function = function.func
        docstring = function.__doc__ if inspect.isroutine(function) else type(function).__call__.__doc__
        return structs.replace(self, description=inspect.cleandoc(docstring) if docstring else "")

    def to_json(self) -> dict[str, Json]:
        members: dict[str, Json] = {
            "title": self.title,
            "description": self.description,
            "icons": list(self.icons),
            "annotations": self.annotations,
            "_meta": self.meta,
        }
        return {name: value for name, value in members.items() if value}


class PromptLabels(TypedDict, total=False):
    """The labels that a prompt may have, as keyword arguments: see `Labels`."""

    title: str
    """A name for people."""
    description: str
    """The function's docstring by default."""
    icons: Sequence[JsonObject]
    """MCP `Icon` objects: `{"src", "mimeType"?, "sizes"?, "theme"?}`."""
    meta: JsonObject
    """The definition's `_meta`."""


class AllLabels(PromptLabels, total=False):
    """The labels that a tool or a resource may have, as keyword arguments: see `Labels`."""

    annotations: JsonObject
    """Of a tool `readOnlyHint`, `destructiveHint`, `idempotentHint`, `openWorldHint`; of a resource `audience`,
    `priority`, `lastModified`."""


type OptionType = tuple[type | UnionType, str]
"""The type of an option, and what to do if it has another value."""

TEXT: Final[OptionType] = (str, "give a text")
"""Many clients reject a whole list with another value in it."""
OPTIONAL_TEXT: Final[OptionType] = (str | None, TEXT[1])
FLAG: Final[OptionType] = (bool, "give True or False")
"""Otherwise the truth of a value would hide a mistake such as `durable="no"`."""


def type_faults(options: Mapping[str, object], types: Mapping[str, OptionType]) -> dict[str, str]:
    """What is wrong with each option that has another type, with the correction."""
    return {
        option: f"{option}={value_text(options.get(option))} is not possible; {remedy}"
        for option, (kind, remedy) in types.items()
        if not isinstance(options.get(option), kind)
    }


def check_types(options: Mapping[str, object], types: Mapping[str, OptionType], subject: str = "") -> None:
    """Raise `RegistrationError` if an option has another type."""
    for fault in type_faults(options, types).values():
        raise RegistrationError(f"{subject}{fault}")


def value_text(value: object) -> str:
    """A value in an error: a function's name, otherwise the `repr`, cut if it is long."""
    name = getattr(value, "__qualname__", None)
    text = name if isinstance(name, str) else repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


def is_json_object(value: object) -> bool:
    """Whether a value is a dict that can be sent. Otherwise a whole list could not be sent."""
    try:
        return isinstance(value, Mapping) and bool(dumps(value))
    except (TypeError, ValueError):
        return False


def check_icons(icons: Any, subject: str = "") -> None:
    is_list = isinstance(icons, Sequence) and not isinstance(icons, str)
    if not is_list or not all(is_json_object(icon) and isinstance(icon.get("src"), str) for icon in icons):
        remedy = "give a list such as [{'src': 'https://example.com/icon.png'}]"
        raise RegistrationError(f"{subject}icons={icons!r} is not possible; {remedy}")


def _check_labels(labels: Labels, subject: str) -> None:
    check_types(structs.asdict(labels), dict.fromkeys(("title", "description"), OPTIONAL_TEXT), f"{subject}: ")
    check_icons(labels.icons, f"{subject}: ")
    for name in ("annotations", "meta"):
        members: object = getattr(labels, name)
        if not (members is None or is_json_object(members)):
            raise RegistrationError(f"{subject}: {name}={members!r} is not possible; give a dict that is JSON")
    annotations = labels.annotations or {}
    check_types(annotations, {name: FLAG for name in annotations if name.endswith("Hint")}, f"{subject}: ")


def labels_of(options: Mapping[str, Any], subject: str, others: Iterable[str]) -> Labels:
    try:
        labels = Labels(**options)
    except TypeError:
        from mcp_baton.hints import did_you_mean

        known = [*Labels.__match_args__, *others]
        unknown = next(name for name in options if name not in Labels.__match_args__)
        raise RegistrationError(f"{subject}: it has no option {unknown!r}{did_you_mean(unknown, known)}") from None
    _check_labels(labels, subject)
    return labels


def name_of(function: object) -> str:
    if not callable(function):
        raise not_a_function(function)
    name = getattr(function, "__name__", None) or getattr(getattr(function, "func", None), "__name__", None)
    if not isinstance(name, str) or name == "<lambda>":
        text = "a lambda" if name == "<lambda>" else repr(function)
        raise RegistrationError(f"{text} has no name; write a function with def, or give it a name with name=...")
    return name


def not_a_function(value: object) -> RegistrationError:
    remedy = f"write name={value!r}" if isinstance(value, str) else "publish a function"
    return RegistrationError(f"{value!r} is not a function; {remedy}")


def _members(option: str, of: str, values: object, subject: str) -> list[Any]:
    """The members of an option that is a list of texts."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        member = values if isinstance(values, str) else "…"
        raise RegistrationError(f"{subject}: {option} is a list of {of}; write {option}=[{member!r}]")
    return list(values)


def variable_names(names: Sequence[str], subject: str) -> tuple[str, ...]:
    """Check the task variables in `sets`."""
    names = _members("sets", "task variables", names, subject)
    for name in names:
        if not isinstance(name, str) or not name:
            raise RegistrationError(f"{subject}: sets has {name!r}; a task variable needs a name")
        if name.startswith((ENGINE_PREFIX, MCP_PREFIX)):
            raise RegistrationError(f"{subject}: sets has {name!r}; tools cannot set variables with this prefix")
    return tuple(dict.fromkeys(names))


def workflow_names(names: Sequence[str], subject: str) -> tuple[str, ...]:
    """Check the workflows in `only_in`. Later, `Server.check` rejects names that no workflow has."""
    names = _members("only_in", "workflows", names, subject)
    for name in names:
        if not isinstance(name, str):
            raise RegistrationError(f"{subject}: only_in has {name!r}; give the names of workflows")
    return tuple(dict.fromkeys(names))


def required_scopes(scopes: Sequence[str], subject: str) -> frozenset[str]:
    """Check the scopes in `requires` (RFC 6749, section 3.3)."""
    scopes = _members("requires", "scopes", scopes, subject)
    for scope in scopes:
        if not isinstance(scope, str) or not scope or scope.split() != [scope]:
            raise RegistrationError(f"{subject}: requires has {scope!r}; a scope is a string without spaces")
    return frozenset(scopes)


def scopes_in(claims: Mapping[str, object]) -> frozenset[str]:
    """Return the caller's scopes. A claim is a list, or a string with spaces."""
    return frozenset(scope for name in SCOPE_CLAIMS for scope in _scopes(claims.get(name)))


def groups_in(claims: Mapping[str, object]) -> frozenset[str]:
    """Return the caller's groups in the user pool. A claim is a list, or on REST APIs a string with commas."""
    value = claims.get(GROUPS_CLAIM)
    return frozenset(_scopes(value.replace(",", " ") if isinstance(value, str) else value))


def _scopes(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield from value.split()
    elif isinstance(value, list | tuple):
        yield from (scope for scope in value if isinstance(scope, str))

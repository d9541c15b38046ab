"""`key=value` on the command line as arguments of a tool or a prompt."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any, Final

from mcp_baton.exceptions import BatonError
from mcp_baton.hints import did_you_mean
from mcp_baton.protocol.json import MAX_DEPTH, loads

_ARGUMENT: Final = re.compile(r"(?P<name>[^=]+?)(?P<kind>:=|=@|=)(?P<text>.*)", re.DOTALL)


class ArgumentError(BatonError):
    """An argument cannot be used. The message names it and the remedy."""


@dataclass(frozen=True, slots=True)
class GivenArgument:
    """An argument on the command line. `literal` is whether the text is JSON (`key:=JSON`)."""

    name: str
    text: str
    literal: bool = False


def parse_arguments(words: Iterable[str]) -> list[GivenArgument]:
    """Parse words such as `a=text`, `b:=[1]` and `c=@notes.txt`."""
    arguments: dict[str, GivenArgument] = {}
    for word in words:
        parts = _ARGUMENT.fullmatch(word)
        if parts is None:
            raise ArgumentError(f"{word!r} is not an argument: write key=value, key:=JSON or key=@FILE")
        name, text = parts["name"], parts["text"]
        if name in arguments:
            raise ArgumentError(f"the argument {name!r} occurs twice")
        if parts["kind"] == "=@":
            try:
                text = Path(text).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
                raise ArgumentError(f"{name}=@{text}: the file cannot be read: {reason}") from error
        arguments[name] = GivenArgument(name, text, literal=parts["kind"] == ":=")
    return list(arguments.values())


def for_tool(arguments: Sequence[GivenArgument], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the arguments of a call according to the tool's input schema."""
    properties = schema.get("properties", {})
    if properties and not schema.get("additionalProperties"):
        _check_names(arguments, properties)
    return {
        argument.name: _literal(argument)
        if argument.literal
        else from_text(argument.name, argument.text, properties.get(argument.name, {}), schema)
        for argument in arguments
    }


def for_prompt(arguments: Sequence[GivenArgument], declared: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Convert the arguments of a prompt, which are all strings. `declared` has those of `prompts/list`."""
    _check_names(arguments, [str(argument["name"]) for argument in declared])
    converted: dict[str, str] = {}
    for argument in arguments:
        value = _literal(argument) if argument.literal else argument.text
        converted[argument.name] = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return converted


def _check_names(arguments: Sequence[GivenArgument], known: Iterable[str]) -> None:
    names = list(known)
    for argument in arguments:
        if argument.name not in names:
            raise unknown("argument", argument.name, names)


def unknown(kind: str, name: str, known: Sequence[str]) -> ArgumentError:
    hint = did_you_mean(name, known).removeprefix("; ") or f"there are no {kind}s"
    return ArgumentError(f"there is no {kind} {name!r}: {hint}")


def _literal(argument: GivenArgument) -> Any:
    try:
        return loads(argument.text, MAX_DEPTH)
    except ValueError as error:
        raise ArgumentError(f"{argument.name}:={argument.text} is not JSON: {error}") from error


def from_text(name: str, text: str, schema: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    """Convert a text to a value of a schema. A schema that allows strings keeps the text. `root` has the `$defs`."""
    for choice in _enum_values(schema, root):
        if text == _as_text(choice):
            return choice
    choices = choices_of(schema, root)
    if choices and not (text == "null" and any(form.get("type") == "null" for form in _forms(schema, root))):
        raise ArgumentError(f"{name}={text}: {text!r} is not one of {choices_text(choices)}")
    kinds = {kind for form in _forms(schema, root) for kind in _kinds(form)}
    if not choices and (not kinds or "string" in kinds):
        return text
    try:
        value: Any = loads(text, MAX_DEPTH)
    except ValueError:
        value = ...
    if not any(_has_type(kind, value) for kind in kinds):
        type_names = " or ".join(sorted(kinds - {"null"}) + ["null"] * ("null" in kinds))
        raise ArgumentError(f"{name}={text}: {text!r} is not a value of type {type_names}")
    return value


def kinds_of(schema: Mapping[str, Any], root: Mapping[str, Any]) -> list[str]:
    """Return the JSON types that a schema allows, without null."""
    return sorted({kind for form in _forms(schema, root) for kind in _kinds(form)} - {"null"})


def choices_of(schema: Mapping[str, Any], root: Mapping[str, Any]) -> list[Any]:
    """Return the values of a schema that allows only certain values, without null; empty for other schemas."""
    forms = [form for form in _forms(schema, root) if form.get("type") != "null"]
    is_choice = all("enum" in form or "const" in form for form in forms)
    return [value for value in _enum_values(schema, root) if value is not None] if is_choice else []


def choices_text(choices: Iterable[Any]) -> str:
    """Return choices as the user can write them."""
    return ", ".join(map(_as_text, choices))


def _as_text(choice: Any) -> str:
    return choice if isinstance(choice, str) else json.dumps(choice, ensure_ascii=False)


def _enum_values(schema: Mapping[str, Any], root: Mapping[str, Any]) -> list[Any]:
    return [
        value for form in _forms(schema, root) for value in form.get("enum", [form["const"]] if "const" in form else [])
    ]


def _forms(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """Yield the schema, or its alternatives."""
    if "$ref" in schema:
        path = str(schema["$ref"]).removeprefix("#/").split("/")
        target: Any = root
        for part in path:
            target = target.get(part, {}) if isinstance(target, Mapping) else {}
        yield from _forms({name: value for name, value in target.items() if value is not schema}, root)
    elif "anyOf" in schema or "oneOf" in schema:
        for form in schema.get("anyOf", schema.get("oneOf")):
            yield from _forms(form, root)
    else:
        yield schema


def _kinds(form: Mapping[str, Any]) -> list[str]:
    kind = form.get("type", [])
    return [kind] if isinstance(kind, str) else list(kind)


_TYPES: Final = {"integer": int, "number": int | float, "boolean": bool, "array": list, "object": dict}


def _has_type(kind: str, value: Any) -> bool:
    return isinstance(value, _TYPES.get(kind, NoneType)) and (kind == "boolean" or not isinstance(value, bool))

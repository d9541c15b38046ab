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
from mcp_baton.workflow.definition import ANSWERS

_ARGUMENT: Final = re.compile(r"(?P<name>[^=]+?)(?P<kind>:=|=@|=)(?P<text>.*)", re.DOTALL)


class ArgumentError(BatonError):
    """An argument cannot be used. The message names it and the remedy."""


@dataclass(frozen=True, slots=True)
class GivenArgument:
    """An argument on the command line. `literal` is whether the text is JSON (`key:=JSON`)."""

    name: str
    text: str
    literal: bool = False

    def value(self) -> Any:
        if not self.literal:
            return self.text
        try:
            return loads(self.text, MAX_DEPTH)
        except ValueError as error:
            raise ArgumentError(f"{self.name}:={self.text} is not JSON: {error}") from error


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
        given.name: given.value()
        if given.literal
        else Allowed(properties.get(given.name, {}), schema).value(given.name, given.text)
        for given in arguments
    }


def for_prompt(arguments: Sequence[GivenArgument], declared: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Convert the arguments of a prompt, which are all strings. `declared` has those of `prompts/list`."""
    names = [str(argument["name"]) for argument in declared]
    if ANSWERS in {argument.name for argument in arguments}.difference(names):
        raise ArgumentError(f"{ANSWERS} is an argument of the workflow's tool: call it with `baton call`")
    _check_names(arguments, names)
    return {argument.name: _as_text(argument.value()) for argument in arguments}


def _check_names(arguments: Sequence[GivenArgument], known: Iterable[str]) -> None:
    names = list(known)
    for argument in arguments:
        if argument.name not in names:
            raise unknown("argument", argument.name, names)


def unknown(kind: str, name: str, known: Sequence[str]) -> ArgumentError:
    hint = did_you_mean(name, known).removeprefix("; ") or f"there are no {kind}s"
    return ArgumentError(f"there is no {kind} {name!r}: {hint}")


class Allowed:
    """The values that a schema allows. `root` has its `$defs`.

    Attributes:
        types: The JSON types, `null` at the end.
        choices: The only values, without null; empty if there are others.
    """

    def __init__(self, schema: Mapping[str, Any], root: Mapping[str, Any]) -> None:
        forms = list(_forms(schema, root))
        lists = [form.get("enum", [form["const"]] if "const" in form else []) for form in forms]
        types = {kind for form in forms for kind in _types(form)}
        self._values = [value for values in lists for value in values]
        self.types = [*sorted(types - {"null"}), *(types & {"null"})]
        is_choice = all(form.keys() & {"enum", "const"} for form in forms if form.get("type") != "null")
        self.choices = [value for value in self._values if value is not None] if is_choice else []

    @property
    def choices_text(self) -> str:
        """The choices as the user can write them."""
        return ", ".join(map(_as_text, self.choices))

    def value(self, name: str, text: str) -> Any:
        """Convert a text. A schema that allows strings keeps it. Raises `ArgumentError` if the value is not allowed."""
        for choice in self._values:
            if text == _as_text(choice):
                return choice
        if self.choices and not (text == "null" and "null" in self.types):
            raise ArgumentError(f"{name}={text}: {text!r} is not one of {self.choices_text}")
        if not self.choices and (not self.types or "string" in self.types):
            return text
        try:
            value: Any = loads(text, MAX_DEPTH)
        except ValueError:
            value = ...
        is_boolean = isinstance(value, bool)
        kinds = {kind: _TYPES.get(kind, NoneType) for kind in self.types if is_boolean == (kind == "boolean")}
        if not any(isinstance(value, kind) for kind in kinds.values()):
            raise ArgumentError(f"{name}={text}: {text!r} is not a value of type {' or '.join(self.types)}")
        return value


_TYPES: Final = {"integer": int, "number": int | float, "boolean": bool, "array": list, "object": dict}


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _types(form: Mapping[str, Any]) -> list[str]:
    kind = form.get("type", [])
    return [kind] if isinstance(kind, str) else list(kind)


def _forms(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """Yield the schema, or its alternatives."""
    if "$ref" in schema:
        target: Any = root
        for part in str(schema["$ref"]).removeprefix("#/").split("/"):
            target = target.get(part, {}) if isinstance(target, Mapping) else {}
        yield from _forms({name: value for name, value in target.items() if value is not schema}, root)
    elif "anyOf" in schema or "oneOf" in schema:
        for form in schema.get("anyOf", schema.get("oneOf")):
            yield from _forms(form, root)
    else:
        yield schema

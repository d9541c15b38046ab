"""Secret arguments: their values are never stored, and `<secret NAME>` is shown instead of them (docs/workflows.md).
Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from msgspec import Struct, field

from mcp_baton.protocol.json import Json, JsonObject, dumps
from mcp_baton.workflow.sources import Constant, FirstOf, PromptArg, Source, as_text, fill_json, parts_of, placeholders

HIDDEN: Final = "_workflow.secret"
"""The key of the object that is stored instead of a secret: `{"_workflow.secret": true}`."""

_HIDDEN_VALUE: Final = MappingProxyType({HIDDEN: True})

SHORTEST: Final = 4
"""Characters that a secret must have to be hidden inside a longer text. Shorter ones occur in ordinary words."""


def secret_placeholder(name: str) -> str:
    """The text that is shown instead of a secret argument's value."""
    return f"<secret {name}>"


class Secrets(Struct, frozen=True):
    """The secret arguments of a task or a run.

    Attributes:
        names_by_text: The texts of their values, each with its argument's name; empty if the values are not known.
    """

    names: frozenset[str] = frozenset()
    names_by_text: Mapping[str, str] = field(default_factory=dict)
    parts: tuple[tuple[str, str], ...] = ()

    def including(self, text: str, name: str) -> "Secrets":
        """These secrets and one more text."""
        return Secrets(self.names, {**self.names_by_text, text: name}, ((text, name), *self.parts))

    def hide_text(self, text: str) -> str:
        """The text with each secret replaced."""
        if text in self.names_by_text:
            return secret_placeholder(self.names_by_text[text])
        return self._without(text, self.parts)

    def hide(self, value: Json) -> Json:
        """The JSON value with each secret replaced, in keys, too."""
        if not self.names_by_text or value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self.hide_text(value)
        if as_text(value) in self.names_by_text:
            return secret_placeholder(self.names_by_text[as_text(value)])
        if isinstance(value, Mapping):
            return {self.hide_text(key): self.hide(item) for key, item in value.items()}
        if isinstance(value, Sequence):
            return [self.hide(item) for item in value]
        return value

    def _without(self, text: str, parts: Sequence[tuple[str, str]]) -> str:
        # Search the text between two secrets for the shorter ones, and never the texts that replace secrets.
        for index, (secret, name) in enumerate(parts):
            if secret in text:
                return secret_placeholder(name).join(
                    self._without(piece, parts[index + 1 :]) for piece in text.split(secret)
                )
        return text


NO_SECRETS = Secrets()


def secrets_of(names: Collection[str], texts: Mapping[str, str], converted: Mapping[str, Json]) -> Secrets:
    """The secrets of an invocation."""
    given_names = frozenset(names) & texts.keys()
    if not given_names:
        return NO_SECRETS
    names_by_text: dict[str, str] = {}
    for name in sorted(name for name in given_names if converted.get(name, "") is not None):
        for text in _revealing_texts(texts[name], converted.get(name)):
            names_by_text.setdefault(text, name)
    parts = [(text, name) for text, name in names_by_text.items() if len(text) >= SHORTEST]
    parts += [(dumps(text)[1:-1], name) for text, name in parts if dumps(text)[1:-1] != text]
    return Secrets(given_names, names_by_text, tuple(sorted(parts, key=lambda part: -len(part[0]))))


def _revealing_texts(text: str, converted: Json) -> Iterator[str]:
    """The texts that reveal a secret: as it was sent, as it was converted, and each text inside it."""
    yield from (form for form in (text, *_texts_in(converted)) if form)


def _texts_in(value: Json) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield dumps(value)
        for item in value.values():
            yield from _texts_in(item)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        yield dumps(value)
        for item in value:
            yield from _texts_in(item)
    elif value is not None and not isinstance(value, bool):
        yield as_text(value)


def contains_argument(source: Source | None, names: Collection[str]) -> bool:
    """Whether a source's value contains one of these arguments."""
    if not names:
        return False
    match source:
        case PromptArg(name):
            return name in names
        case Constant(value):
            return any(not placeholders(text).isdisjoint(names) for text in strings_in(value))
        case FirstOf(sources):
            return any(contains_argument(part, names) for part in sources)
        case _:
            return False


def strings_in(value: object) -> Iterator[str]:
    """Yield the texts in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from strings_in(item)
    elif isinstance(value, Sequence):
        for item in value:
            yield from strings_in(item)


def hidden_argument(value: Json, source: Source | None, secrets: Secrets, texts: Mapping[str, str]) -> Json:
    """An argument's value as it may be shown."""
    if contains_argument(source, secrets.names):
        if isinstance(source, PromptArg):
            return secret_placeholder(source.name)
        if isinstance(source, Constant):
            return fill_json(source.value, texts)
    return secrets.hide(value)


def shown_texts(texts: Mapping[str, str], secrets: Secrets) -> Mapping[str, str]:
    """Prompt arguments as texts, as they may be shown."""
    if not secrets.names:
        return texts
    return {
        name: secret_placeholder(name) if name in secrets.names else secrets.hide_text(text)
        for name, text in texts.items()
    }


def stored_arguments(arguments: JsonObject, names: Collection[str]) -> dict[str, Json]:
    """Prompt arguments as they are stored with a task. Of a secret one, only its name is stored."""
    return {name: dict(_HIDDEN_VALUE) if name in names else value for name, value in arguments.items()}


def is_hidden(value: Json) -> bool:
    """Whether a stored argument is a hidden secret."""
    return isinstance(value, Mapping) and value == _HIDDEN_VALUE


def secrets_in_call(arguments: JsonObject, sources: Mapping[str, Source], names: Collection[str]) -> Secrets:
    """The secrets in a call that a client has made: the values of the arguments whose source is a secret."""
    values = {
        part.name: arguments[name]
        for name, source in sources.items()
        for part in parts_of(source)
        if isinstance(part, PromptArg) and part.name in names and name in arguments
    }
    return secrets_of(names, {name: as_text(value) for name, value in values.items()}, values)


def hidden_in(arguments: JsonObject, sources: Mapping[str, Source], names: Collection[str]) -> frozenset[str]:
    """The names of a call's arguments that must not be stored: their values contain a secret."""
    if not names:
        return frozenset()
    secrets = secrets_in_call(arguments, sources, names)
    return frozenset(
        name
        for name, value in arguments.items()
        if contains_argument(sources.get(name), names) or secrets.hide(value) != value
    )

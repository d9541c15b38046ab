"""Secret arguments: their values are in memory only, and `<secret NAME>` stands for them wherever arguments are shown
or stored (docs/workflows.md, Secret arguments). Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from msgspec import Struct, field

from mcp_baton.protocol.json import Json, JsonObject, dumps
from mcp_baton.workflow.sources import Constant, PromptArg, Source, as_text, fill_json, placeholders

HIDDEN: Final = "_workflow.secret"
"""The key of what is kept in the place of a secret, `{"_workflow.secret": true}`: nothing of it is."""

_GIVEN: Final = MappingProxyType({HIDDEN: True})

SHORTEST: Final = 4
"""Characters that a secret must have to be found inside a longer text: shorter ones are in every other word."""


def stand_in(name: str) -> str:
    """What stands for a secret argument's value."""
    return f"<secret {name}>"


class Secrets(Struct, frozen=True):
    """The secret arguments of a task or a run.

    Attributes:
        names: Those that were given.
        wholes: The texts of their values, each with its argument's name; empty where the values are not known.
        parts: Those of them that are looked for inside longer texts, the longest first.
    """

    names: frozenset[str] = frozenset()
    wholes: Mapping[str, str] = field(default_factory=dict)
    parts: tuple[tuple[str, str], ...] = ()

    def hide_text(self, text: str) -> str:
        """A text with the stand-in for each secret in it."""
        if text in self.wholes:
            return stand_in(self.wholes[text])
        return self._without(text, self.parts)

    def hide(self, value: Json) -> Json:
        """A JSON value with the stand-in for each secret in it, in keys as well."""
        if not self.wholes or value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self.hide_text(value)
        if as_text(value) in self.wholes:
            return stand_in(self.wholes[as_text(value)])
        if isinstance(value, Mapping):
            return {self.hide_text(key): self.hide(item) for key, item in value.items()}
        if isinstance(value, Sequence):
            return [self.hide(item) for item in value]
        return value

    def _without(self, text: str, parts: Sequence[tuple[str, str]]) -> str:
        # What stands between two secrets is looked through for the shorter ones; a stand-in is never looked into.
        for place, (secret, name) in enumerate(parts):
            if secret in text:
                return stand_in(name).join(self._without(piece, parts[place + 1 :]) for piece in text.split(secret))
        return text


NO_SECRETS = Secrets()


def secrets_of(names: Collection[str], texts: Mapping[str, str], converted: Mapping[str, Json]) -> Secrets:
    """The secrets of an invocation.

    Args:
        names: The workflow's secret arguments.
        texts: All arguments as the client sent them.
        converted: The same, converted to their types.
    """
    given = frozenset(names) & texts.keys()
    if not given:
        return NO_SECRETS
    wholes: dict[str, str] = {}
    for name in sorted(name for name in given if converted.get(name, "") is not None):
        for text in _forms(texts[name], converted.get(name)):
            wholes.setdefault(text, name)
    parts = [(text, name) for text, name in wholes.items() if len(text) >= SHORTEST]
    parts += [(dumps(text)[1:-1], name) for text, name in parts if dumps(text)[1:-1] != text]
    return Secrets(given, wholes, tuple(sorted(parts, key=lambda part: -len(part[0]))))


def _forms(text: str, converted: Json) -> Iterator[str]:
    """The texts by which a secret is known again: as it was sent, as it was converted, and each text inside it."""
    yield from (it for it in (text, *_texts_in(converted)) if it)


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


def mentions(source: Source | None, names: Collection[str]) -> bool:
    """Whether a source's value is made of one of these arguments."""
    if not names:
        return False
    match source:
        case PromptArg(name):
            return name in names
        case Constant(value):
            return any(not placeholders(text).isdisjoint(names) for text in _strings_in(value))
        case _:
            return False


def _strings_in(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _strings_in(item)
    elif isinstance(value, Sequence):
        for item in value:
            yield from _strings_in(item)


def concealed(value: Json, source: Source | None, secrets: Secrets, texts: Mapping[str, str]) -> Json:
    """An argument's value as it may be shown.

    Args:
        value: The value.
        source: Where it comes from, as the step has it.
        secrets: The secrets.
        texts: The prompt arguments as they may be shown.
    """
    if mentions(source, secrets.names):
        if isinstance(source, PromptArg):
            return stand_in(source.name)
        if isinstance(source, Constant):
            return fill_json(source.value, texts)
    return secrets.hide(value)


def shown_texts(texts: Mapping[str, str], secrets: Secrets) -> Mapping[str, str]:
    """Prompt arguments as texts, as they may be shown."""
    if not secrets.names:
        return texts
    return {name: stand_in(name) if name in secrets.names else secrets.hide_text(text) for name, text in texts.items()}


def stored_arguments(arguments: JsonObject, names: Collection[str]) -> dict[str, Json]:
    """Prompt arguments as they are kept with a task: of a secret one that it was given, and nothing else."""
    return {name: dict(_GIVEN) if name in names else value for name, value in arguments.items()}


def is_hidden(stored: Json) -> bool:
    """Whether a stored argument stands for a secret."""
    return isinstance(stored, Mapping) and stored == _GIVEN


def secrets_in_call(arguments: JsonObject, sources: Mapping[str, Source], names: Collection[str]) -> Secrets:
    """The secrets in a call that a client has made itself: the values of those arguments whose source is a secret.

    Args:
        arguments: The call's.
        sources: Those of the step that it was recorded in.
        names: The workflow's secret arguments.
    """
    found = {
        source.name: arguments[name]
        for name, source in sources.items()
        if isinstance(source, PromptArg) and source.name in names and name in arguments
    }
    return secrets_of(names, {name: as_text(value) for name, value in found.items()}, found)


def hidden_in(arguments: JsonObject, sources: Mapping[str, Source], names: Collection[str]) -> frozenset[str]:
    """The names of a call's arguments that must not be kept: a secret is their value, or stands in it."""
    if not names:
        return frozenset()
    secrets = secrets_in_call(arguments, sources, names)
    return frozenset(
        name for name, value in arguments.items() if mentions(sources.get(name), names) or secrets.hide(value) != value
    )

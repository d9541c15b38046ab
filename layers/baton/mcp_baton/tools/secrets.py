"""Secret arguments: their values are never stored, and `<secret NAME>` is shown instead of them (docs/workflows.md).
Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from msgspec import Struct, field

from mcp_baton.protocol.json import MAX_LEVELS, Json, JsonObject, dumps, loads
from mcp_baton.tools.templates import as_text

HIDDEN: Final = "_workflow.secret"
"""The key of the object that is stored instead of a secret: `{"_workflow.secret": true}`."""


_HIDDEN_VALUE: Final = MappingProxyType({HIDDEN: True})


MIN_HIDDEN_CHARS: Final = 4
"""Characters that a secret must have to be hidden inside a longer text. Shorter ones occur in ordinary words."""


type Container = Mapping[str, Json] | Sequence[Json]


MAX_SECRET_VALUES: Final = 100
"""Values in a secret argument: each is searched for in results and messages, and so is each list and object."""


MAX_SECRET_CHARS: Final = 65_536
"""Characters of a secret argument."""


def oversized_secret(text: Json, converted: Json) -> str | None:
    """Why a secret argument is too large to be searched for; `None` if it is not."""
    if len(as_text(text)) > MAX_SECRET_CHARS or len(as_text(converted)) > MAX_SECRET_CHARS:
        return f"has more than {MAX_SECRET_CHARS:,} characters; shorten it"
    is_oversized = len(_values_in(converted)) > MAX_SECRET_VALUES
    return f"has more than {MAX_SECRET_VALUES} values; shorten it" if is_oversized else None


def secret_placeholder(name: str) -> str:
    """The text that is shown instead of a secret argument's value."""
    return f"<secret {name}>"


class Secrets(Struct, frozen=True):
    """The secret arguments of a task or a run.

    Attributes:
        names_by_text: The texts of their values, each with its argument's name; empty if the values are not known.
        parts: The texts that are hidden inside longer texts, the longest first.
        containers: The lists and objects in their values.
    """

    names: frozenset[str] = frozenset()
    names_by_text: Mapping[str, str] = field(default_factory=dict)
    parts: tuple[tuple[str, str], ...] = ()
    containers: tuple[tuple[Container, str], ...] = ()

    def including(self, text: str, name: str) -> "Secrets":
        """These secrets and one more text."""
        texts = {**self.names_by_text, text: name}
        return Secrets(self.names, texts, ((text, name), *self.parts), self.containers)

    def hide_text(self, text: str) -> str:
        """The text with each secret replaced."""
        if text in self.names_by_text:
            return secret_placeholder(self.names_by_text[text])
        return self._without_parts(text)

    def hide(self, value: Json) -> Json:
        """The JSON value with each secret replaced, in keys, too."""
        if not self.names_by_text or value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self.hide_text(value)
        if isinstance(value, int | float):
            name = self.names_by_text.get(as_text(value))
            return value if name is None else secret_placeholder(name)
        # Not by their texts: making the text of each level takes quadratic time.
        for container, name in self.containers:
            if len(container) == len(value) and container == value:
                return secret_placeholder(name)
        if isinstance(value, Mapping):
            return {self.hide_text(key): self.hide(item) for key, item in value.items()}
        return [self.hide(item) for item in value]

    def _without_parts(self, text: str) -> str:
        # Search the text between two secrets for the shorter ones, and never the texts that replace secrets: those have
        # odd positions.
        pieces = [text]
        for secret, name in self.parts:
            if secret in text:
                found_in = enumerate(pieces)
                pieces = [new for at, piece in found_in for new in ([piece] if at % 2 else _split(piece, secret, name))]
        return "".join(pieces)


def _split(text: str, secret: str, name: str) -> list[str]:
    first, *rest = text.split(secret)
    return [first, *(part for piece in rest for part in (secret_placeholder(name), piece))]


NO_SECRETS = Secrets()


def secrets_of(names: Collection[str], texts: Mapping[str, str], converted: Mapping[str, Json]) -> Secrets:
    """The secrets of an invocation: the values of the arguments with these names, as texts and as they were
    converted."""
    given_names = sorted(frozenset(names) & texts.keys())
    return secrets_with((name, texts[name], converted.get(name, "")) for name in given_names)


def secrets_with(values: Iterable[tuple[str, str, Json]]) -> Secrets:
    """Secrets from the name, the text and the converted value of each. A name may have several values."""
    names = set[str]()
    names_by_text: dict[str, str] = {}
    containers: list[tuple[Container, str]] = []
    for name, sent_text, converted in values:
        names.add(name)
        if converted is None:
            continue
        # As it was sent, as it was converted, and each value inside it.
        all_values = [sent_text, _parsed(sent_text), *_values_in(converted)]
        for value in all_values:
            text = "" if value is None or isinstance(value, bool) else as_text(value)
            if text:
                names_by_text.setdefault(text, name)
        containers += [(value, name) for value in all_values if isinstance(value, Mapping | list | tuple)]
    if not names:
        return NO_SECRETS
    parts = [(text, name) for text, name in names_by_text.items() if len(text) >= MIN_HIDDEN_CHARS]
    parts += [(dumps(text)[1:-1], name) for text, name in parts if dumps(text)[1:-1] != text]
    parts.sort(key=lambda part: -len(part[0]))
    return Secrets(frozenset(names), names_by_text, tuple(parts), tuple(containers))


def _parsed(text: str) -> Json:
    """The list or object that a text is the JSON of; otherwise `None`."""
    try:
        return loads(text, MAX_LEVELS) if text.startswith(("[", "{")) else None
    except ValueError:
        return None


def _values_in(value: Json) -> list[Json]:
    """The value and all values inside it."""
    values = [value]
    for item in values:  # it grows
        if isinstance(item, Mapping):
            values += item.values()
        elif isinstance(item, Sequence) and not isinstance(item, str):
            values += item
    return values


def strings_in(value: Json) -> Iterator[str]:
    """Yield the texts in a JSON value."""
    return (text for text in _values_in(value) if isinstance(text, str))


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

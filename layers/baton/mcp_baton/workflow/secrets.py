"""Secret arguments: their values are never stored, and `<secret NAME>` is shown instead of them (docs/workflows.md).
Pure."""

from collections.abc import Collection, Iterator, Mapping

from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tools.secrets import Secrets, secret_placeholder, secrets_with, strings_in
from mcp_baton.tools.templates import as_text, fill_json, placeholders, values_in_template
from mcp_baton.workflow.sources import Constant, FirstOf, PromptArg, Source, parts_of


def contains_argument(source: Source | None, names: Collection[str]) -> bool:
    """Whether a source's value contains one of these arguments."""
    if not names:
        return False
    match source:
        case PromptArg(name):
            return name in names
        case Constant(value):
            return not _placeholders_in(value).isdisjoint(names)
        case FirstOf(sources):
            return any(contains_argument(part, names) for part in sources)
        case _:
            return False


def hidden_argument(value: Json, source: Source | None, secrets: Secrets, texts: Mapping[str, str]) -> Json:
    """An argument's value as it may be shown."""
    if contains_argument(source, secrets.names):
        if isinstance(source, PromptArg):
            return secret_placeholder(source.name)
        if isinstance(source, Constant):
            return fill_json(source.value, texts)
    return secrets.hide(value)


def secrets_in_call(arguments: JsonObject, sources: Mapping[str, Source], names: Collection[str]) -> Secrets:
    """The secrets in a call that a client has made: the values that it has in place of secrets. Several arguments may
    have different values in place of the same one."""
    return secrets_with(
        (name, as_text(value), value)
        for argument, source in sources.items()
        if argument in arguments
        for part in parts_of(source)
        for name, value in _secret_values(part, arguments[argument], names)
    )


def _secret_values(source: Source, value: Json, names: Collection[str]) -> Iterator[tuple[str, Json]]:
    """Yield the values of secrets in an argument with this source: a text with `{name}` has one where its name is. If
    the value does not have the source's form, all of it is secret."""
    match source:
        case PromptArg(name) if name in names:
            yield name, value
        case Constant(template) if found := _placeholders_in(template) & frozenset(names):
            values = values_in_template(template, value)
            if values is None:
                yield min(found), value
                return
            yield from ((name, text) for name, text in values if name in names)


def _placeholders_in(template: Json) -> frozenset[str]:
    return frozenset(name for text in strings_in(template) for name in placeholders(text))


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

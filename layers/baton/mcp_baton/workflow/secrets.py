"""Secret arguments: their values are never stored, and `<secret NAME>` is shown instead of them (docs/workflows.md).
Pure."""

from collections.abc import Collection, Mapping

from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tools.secrets import Secrets, secret_placeholder, secrets_of, strings_in
from mcp_baton.tools.templates import as_text, fill_json, placeholders
from mcp_baton.workflow.sources import Constant, FirstOf, PromptArg, Source, parts_of


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


def hidden_argument(value: Json, source: Source | None, secrets: Secrets, texts: Mapping[str, str]) -> Json:
    """An argument's value as it may be shown."""
    if contains_argument(source, secrets.names):
        if isinstance(source, PromptArg):
            return secret_placeholder(source.name)
        if isinstance(source, Constant):
            return fill_json(source.value, texts)
    return secrets.hide(value)


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

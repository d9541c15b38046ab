"""Types of parameters that some agent frameworks cannot use (docs/frameworks.md, Types)."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from mcp_baton.protocol.json import JsonObject

RECURSIVE: Final = (
    "is recursive: LlamaIndex, smolagents, mcp-use, AutoGen and Semantic Kernel use no tool, DSPy not this one",
    "take a list of flat objects that name their parents, or dict[str, Any]",
)
LITERALS: Final = (
    "has numbers or booleans as its choices: LangChain with Gemini then refuses all tools",
    "use texts, as in Literal['1', '2'], or Annotated[int, Field(ge=1, le=2)]",
)
UNION: Final = (
    "is a union of objects: smolagents refuses each value, and LlamaIndex shows its model no fields",
    "write one tool for each object, or one object with optional fields",
)
LARGE_SCHEMA: Final = (
    "its input schema is longer than 20 KB, so it keeps its references: AutoGen and Semantic Kernel lose the parts",
    "take fewer or smaller types",
)


def difficulties(schema: JsonObject) -> Iterator[tuple[str | None, str, str]]:
    """Yield what some frameworks cannot use in a published input schema: the parameter (`None` for the whole schema),
    the problem and the remedy."""
    definitions: Any = schema.get("$defs", {})
    properties: Any = schema.get("properties", {})
    recursive = {name for name in definitions if name in _names_in(definitions[name], definitions)}
    if definitions.keys() - recursive:
        yield None, *LARGE_SCHEMA
    for parameter, node in properties.items():
        names = _names_in(node, definitions)
        nodes = [part for root in (node, *(definitions[name] for name in names)) for part in _nodes(root)]
        if recursive & names:
            yield parameter, *RECURSIVE
        if any(not isinstance(value, str) for part in nodes for value in part.get("enum", [part.get("const", "")])):
            yield parameter, *LITERALS
        if any(sum(map(_is_object, part.get("anyOf", ()))) > 1 for part in nodes):
            yield parameter, *UNION


def _names_in(node: Any, definitions: Mapping[str, Any]) -> set[str]:
    """Return the definitions that a schema refers to, also through others."""
    names: set[str] = set()
    nodes = [node]
    while nodes:
        references = {str(part["$ref"]).rpartition("/")[2] for part in _nodes(nodes.pop()) if "$ref" in part}
        nodes += [definitions[name] for name in references - names]
        names |= references
    return names


def _nodes(node: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(node, Mapping):
        yield node
        for name, value in node.items():
            yield from _nodes(list(value.values()) if name == "properties" else value)
    elif isinstance(node, list):
        for value in node:
            yield from _nodes(value)


def _is_object(option: Mapping[str, Any]) -> bool:
    return option.get("type") == "object" or "$ref" in option

"""A function published as a prompt, and its messages (MCP server/prompts)."""

from collections.abc import Callable, Mapping, Sequence

from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.json import Json, to_json
from mcp_baton.protocol.jsonrpc import INTERNAL_ERROR
from mcp_baton.tools.arguments import Argument
from mcp_baton.tools.content import CONTENT_TYPES, Message
from mcp_baton.tools.labels import TEXT, Labels, check_types
from mcp_baton.tools.schema.schema import InputSchema
from mcp_baton.tools.schema.signature import signature_of_tool


def messages_of(value: object) -> list[Json]:
    """Convert the value of a prompt's function to `PromptMessage`s. A text becomes a message of the user."""
    items = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    return [_message(item) for item in items]


def _message(item: object) -> Json:
    if isinstance(item, (str, *CONTENT_TYPES)):
        item = Message("user", item)
    message = item.to_json() if isinstance(item, Message) else to_json(item)
    if isinstance(message, Mapping) and isinstance(message.get("content"), str):
        message = {**message, "content": {"type": "text", "text": message["content"]}}
    if not isinstance(message, Mapping) or not isinstance(message.get("content"), Mapping) or "role" not in message:
        kind = "None" if item is None else f"a value of the type {type(item).__qualname__}"
        remedy = "return a text, content, a Message, or a list of them"
        raise ProtocolError(INTERNAL_ERROR, f"the prompt returned {kind}; {remedy}")
    if message["role"] not in ("user", "assistant"):
        cause = f"the prompt returned a message with the role {message['role']!r}, which MCP does not have"
        raise ProtocolError(INTERNAL_ERROR, f"{cause}; give it 'user' or 'assistant'")
    return message


class Prompt:
    def __init__(
        self, function: Callable[..., object], name: str, labels: Labels, requires: frozenset[str] = frozenset()
    ) -> None:
        check_types({"name": name}, {"name": TEXT}, f"prompt {name!r}: ")
        self.function = function
        self.name = name
        self.requires = requires
        self.labels = labels.for_function(function)
        self.signature = signature_of_tool(function, f"prompt {name!r}")
        self.arguments = tuple(
            Argument(
                parameter.published_name,
                parameter.description,
                parameter.required,
                parameter.value_type,
                other_names=parameter.accepted_names[1:],
            )
            for parameter in self.signature.parameters
        )
        self.input = InputSchema(name, self.signature)

    def renamed(self, name: str) -> "Prompt":
        return Prompt(self.function, name, self.labels, self.requires)


def definition_of_prompt(name: str, labels: Labels, arguments: Sequence[Argument]) -> dict[str, Json]:
    return {"name": name, **labels.to_json(), "arguments": [_definition_of_argument(item) for item in arguments]}


def _definition_of_argument(argument: Argument) -> Mapping[str, Json]:
    definition: dict[str, Json] = {"name": argument.name}
    if argument.shown_description:
        definition["description"] = argument.shown_description
    return definition | {"required": argument.required}

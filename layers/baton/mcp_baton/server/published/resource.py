"""A function published as a resource, and its contents (MCP server/resources)."""

from collections.abc import Callable
from functools import cached_property

from mcp_baton.exceptions import RegistrationError
from mcp_baton.protocol.json import Json, dumps
from mcp_baton.server.content import base64_of
from mcp_baton.server.published.labels import Labels
from mcp_baton.server.published.uri_template import match, variables_of, withheld
from mcp_baton.server.schema.plain_types import to_json
from mcp_baton.server.schema.schema import InputSchema
from mcp_baton.server.schema.signature import read_signature
from mcp_baton.workflow.host import FetchedResource


def contents_of(uri: str, mime_type: str | None, returned: object) -> FetchedResource:
    """What a resource's function returned, as one content: text, bytes as base64, or anything else as JSON text.

    Raises:
        ValueError: it cannot be written as JSON.
    """
    if isinstance(returned, str):
        return FetchedResource(uri, mime_type or "text/plain", text=returned)
    if isinstance(returned, bytes | bytearray):
        return FetchedResource(uri, mime_type or "application/octet-stream", blob=base64_of(bytes(returned)))
    return FetchedResource(uri, mime_type or "application/json", text=dumps(to_json(returned)))


class Resource:
    """A function that yields the contents of one URI, or of every URI of a template.

    Args:
        uri: A URI, or a template with `{name}` for each parameter of the function.
        function: Returns text, bytes, or anything that can be written as JSON.
        requires: The scopes that a caller must have.
    """

    def __init__(
        self,
        uri: str,
        function: Callable[..., object],
        name: str,
        labels: Labels,
        mime_type: str | None,
        requires: frozenset[str] = frozenset(),
    ) -> None:
        self.uri = uri
        self.requires = requires
        self.function = function
        self.name = name
        self.labels = labels.of(function)
        self.mime_type = mime_type
        what = f"resource {uri!r}"
        self.variables = variables_of(uri, what)
        self.signature = read_signature(function, what)
        if set(self.variables) != self.signature.names:
            from mcp_baton.hints import meant

            takes = ", ".join(sorted(self.signature.names)) or "nothing"
            wrong = next((name for name in sorted(self.signature.names) if name not in self.variables), None)
            close = meant(wrong, self.variables) if wrong else ""
            remedy = close if "mean" in close else "; name the same in the URI and in the signature"
            raise RegistrationError(f"{what}: the function takes {takes}{remedy}")
        self.input = InputSchema(name, self.signature)

    @property
    def is_template(self) -> bool:
        """Whether it stands for many URIs."""
        return bool(self.variables)

    @cached_property
    def definition(self) -> dict[str, Json]:
        """The resource as `resources/list` or `resources/templates/list` shows it."""
        shown: dict[str, Json] = {"uriTemplate" if self.is_template else "uri": self.uri, "name": self.name}
        shown |= self.labels.to_json()
        return shown | ({"mimeType": self.mime_type} if self.mime_type else {})

    def match(self, uri: str) -> dict[str, str] | None:
        """The function's arguments for a URI; `None` when it is not this resource's."""
        if self.is_template:
            return match(self.uri, uri)
        return {} if uri == self.uri else None

    def withheld(self, uri: str) -> str | None:
        """The `{name}` for which alone a URI is not this resource's: its value would be a path."""
        return withheld(self.uri, uri) if self.is_template else None

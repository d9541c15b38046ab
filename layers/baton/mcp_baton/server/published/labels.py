"""What is shown of anything that is published, beside its name."""

import functools
from collections.abc import Callable, Sequence
from typing import TypedDict

from msgspec import Struct
from msgspec.structs import replace

from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.schema.functions import clean, is_routine


class Labels(Struct, frozen=True):
    """What is shown of anything that is published, beside its name.

    Attributes:
        title: A name for people.
        description: What it is; the function's docstring unless given.
        icons: MCP `Icon` objects: `{"src", "mimeType"?, "sizes"?, "theme"?}`.
        annotations: Of a tool `readOnlyHint`, `destructiveHint`, `idempotentHint`, `openWorldHint`; of a resource
            `audience`, `priority`, `lastModified`.
        meta: The definition's `_meta`.
    """

    title: str | None = None
    description: str | None = None
    icons: Sequence[JsonObject] = ()
    annotations: JsonObject | None = None
    meta: JsonObject | None = None

    def of(self, function: Callable[..., object]) -> "Labels":
        """The labels with the function's own docstring for a missing description."""
        return replace(self, description=documented(function, self.description))

    def to_json(self) -> dict[str, Json]:
        """The members that they add to a definition."""
        made: dict[str, Json] = {
            "title": self.title,
            "description": self.description,
            "icons": list(self.icons),
            "annotations": self.annotations,
            "_meta": self.meta,
        }
        return {name: value for name, value in made.items() if value}


class PromptLabels(TypedDict, total=False):
    """The labels that a prompt may have, as keyword arguments: see `Labels`."""

    title: str
    """A name for people."""
    description: str
    """What it is; the function's docstring unless given."""
    icons: Sequence[JsonObject]
    """MCP `Icon` objects: `{"src", "mimeType"?, "sizes"?, "theme"?}`."""
    meta: JsonObject
    """The definition's `_meta`."""


class AllLabels(PromptLabels, total=False):
    """The labels that a tool or a resource may have, as keyword arguments: see `Labels`."""

    annotations: JsonObject
    """Of a tool `readOnlyHint`, `destructiveHint`, `idempotentHint`, `openWorldHint`; of a resource `audience`,
    `priority`, `lastModified`."""


def documented(function: Callable[..., object], description: str | None) -> str:
    """The description that was given, else the function's own docstring."""
    if description is not None:
        return description
    while isinstance(function, functools.partial):
        function = function.func
    own = function.__doc__ if is_routine(function) else type(function).__call__.__doc__
    return clean(own) if own else ""

"""Models of the documents that describe a server to registries. No published package contains their schemas.

They follow the schemas below. The schemas allow additional members; these models forbid them, and empty lists:

- `server.json`: https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json (registry, MIT)
- the server card (SEP-2127, a draft that replaces SEP-1649):
  https://github.com/modelcontextprotocol/experimental-ext-server-card, `schema.json` of 24 July 2026 (Apache 2.0)

To validate documents against the schemas themselves, name a folder with both files: `PUBLISHED_SCHEMAS=FOLDER pytest
tests/wire/test_published.py`.
"""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, HttpUrl, TypeAdapter
from pydantic.alias_generators import to_camel


def _url(text: str) -> str:
    TypeAdapter(HttpUrl).validate_python(text)
    return text


def _version(text: str) -> str:
    """Reject ranges, such as `^1.2` or `1.x`, as the registry does."""
    if re.search(r"[\^~<>=*|]|(^|\.)x(\.|$)| - ", text):
        raise ValueError("a range of versions")
    return text


type Url = Annotated[str, AfterValidator(_url)]
type Text = Annotated[str, Field(min_length=1, max_length=100)]


class Base(BaseModel):
    """The base of all objects. Additional members are forbidden."""

    model_config = ConfigDict(extra="forbid", strict=True, alias_generator=to_camel)


class Icon(Base):
    """An icon of the server."""

    src: Annotated[str, AfterValidator(_url), Field(max_length=255, pattern="^https://")]
    mime_type: Literal["image/png", "image/jpeg", "image/jpg", "image/svg+xml", "image/webp"] | None = None
    sizes: list[Annotated[str, Field(pattern=r"^(\d+x\d+|any)$")]] | None = None
    theme: Literal["light", "dark"] | None = None


class Header(Base):
    """A header that clients ask their users for."""

    name: Annotated[str, Field(min_length=1)]
    description: str | None = None
    is_required: bool = False
    is_secret: bool = False


class Remote(Base):
    """An address of the server."""

    type: Literal["streamable-http"]
    url: Annotated[str, AfterValidator(_url), Field(pattern=r"^https?://[^\s]+$")]
    headers: Annotated[list[Header], Field(min_length=1)] | None = None


class CardRemote(Remote):
    """An address of the server, with the revisions that it supports there."""

    supported_protocol_versions: Annotated[list[str], Field(min_length=1)]


class Identity(Base):
    """The members that both documents have."""

    name: Annotated[str, Field(min_length=3, max_length=200, pattern=r"^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$")]
    description: Text
    version: Annotated[str, AfterValidator(_version), Field(min_length=1, max_length=255)]
    title: Text | None = None
    website_url: Url | None = None
    icons: Annotated[list[Icon], Field(min_length=1)] | None = None


class ServerJson(Identity):
    """`server.json` of a server that is reached over HTTP."""

    schema_url: Annotated[
        Literal["https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"], Field(alias="$schema")
    ]
    remotes: Annotated[list[Remote], Field(min_length=1)]


class ServerCard(Identity):
    """A server card."""

    schema_url: Annotated[
        Literal["https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"], Field(alias="$schema")
    ]
    remotes: Annotated[list[CardRemote], Field(min_length=1)]

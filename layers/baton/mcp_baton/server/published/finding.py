"""Finding the resource at a URI (docs/tools.md, Resources and their URIs)."""

from collections.abc import Mapping

from mcp_baton.server.published.own_uris import is_own
from mcp_baton.server.published.resource import Resource

MAX_URI = 8_000
"""Characters of a URI that is looked up: RFC 9110, section 4.1, asks for so many octets. To be held against a template
takes a time that grows with the length, times the template's variables; and there may be many templates."""


def find_in(resources: Mapping[str, Resource], uri: str) -> tuple[Resource, dict[str, str]] | None:
    """The resource at a URI and its function's arguments; one with that very URI before any template."""
    if len(uri) > MAX_URI or is_own(uri):
        return None
    exact = resources.get(uri)
    if exact is not None and not exact.is_template:
        return exact, {}
    for resource in resources.values():
        arguments = resource.match(uri)
        if arguments is not None:
            return resource, arguments
    return None

"""A tool's own reading of the server's resources: `Context.read_resource` (docs/tools.md, Reading a resource)."""

from base64 import b64decode
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping
from typing import Any, NoReturn, cast

from mcp_baton.exceptions import ToolError
from mcp_baton.server.content import Contents, ResourceContent
from mcp_baton.server.published.finding import find_in
from mcp_baton.server.published.resource import Resource, contents_of
from mcp_baton.server.schema.schema import InvalidArguments


class Coming(Contents):
    """What an `async def` resource is still to give to an `async def` tool, which holds the loop that both run on."""

    def __init__(self, coming: Callable[[], Coroutine[Any, Any, Contents]], uri: str) -> None:
        super().__init__()
        self._coming = coming
        self._uri = uri

    def __await__(self) -> Generator[Any, None, Any]:
        return self._coming().__await__()

    def _unread(self) -> TypeError:
        return TypeError(f"resource {self._uri}: its function is async def; write await ctx.read_resource(…)")

    def __getitem__(self, _index: Any) -> NoReturn:
        raise self._unread()

    def __iter__(self) -> Iterator[ResourceContent]:
        raise self._unread()

    def __len__(self) -> int:
        raise self._unread()


def read_within(resources: Mapping[str, Resource], uri: str, context: object) -> Contents:
    """Read a resource in the tool's own time, with its `Context`. What the resource's function raises, the tool gets.

    Raises:
        ToolError: there is no such resource, or its function does not take what the URI says.
    """
    found = find_in(resources, uri)
    if found is None:
        raise ToolError(f"There is no resource {uri}.")
    resource, given = found
    try:
        arguments = resource.input.bind(given)
    except InvalidArguments as error:
        raise ToolError(f"{uri}: {error}") from error
    if resource.signature.context:
        arguments = arguments | {resource.signature.context: context}
    if not resource.signature.is_async:
        return _contents(uri, resource, resource.function(**arguments))

    async def coming() -> Contents:
        coroutine = cast("Coroutine[Any, Any, object]", resource.function(**arguments))
        return _contents(uri, resource, await coroutine)

    if _is_on_a_loop():
        return Coming(coming, uri)
    from mcp_baton.server.running.event_loop import begin

    return begin(coming()).result()


def _contents(uri: str, resource: Resource, returned: object) -> Contents:
    made = contents_of(uri, resource.mime_type, returned)
    content = b64decode(made.blob) if made.blob is not None else made.text or ""
    return Contents([ResourceContent(uri, content, made.mime_type)])


def _is_on_a_loop() -> bool:
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True

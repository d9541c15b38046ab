"""The server as the engine sees it: its tools, its resources, its clock and the client's ear."""

from collections.abc import Sequence

from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.call import Call
from mcp_baton.server.functions import Resource
from mcp_baton.server.own_uris import is_own
from mcp_baton.server.schema import InvalidArguments
from mcp_baton.server.server import Server
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.workflow.run import Failed, FetchedResource, Mismatch, Outcome, ResourceUnavailable

START_MARGIN_MS = 1_000
"""Time beyond the write reserve without which no step is started, milliseconds."""

MAX_URI = 8_000
"""Characters of a URI that is looked up: RFC 9110 asks for so many octets. A template with several `{+name}` takes a
time that grows with the square of the length to find out that a longer one is not its own."""


class ServerHost:
    """Implements `workflow.run.Host` for one request."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._caller = call.caller(in_workflow=True)
        self._begun = 0
        self._total = 0
        self._shown = 0.0

    def required(self, tool: str) -> frozenset[str]:
        """The names of the arguments that a tool cannot do without."""
        return self._call.server.tools[tool].signature.required

    def describe(self, tool: str) -> str:
        """What a tool does, in one line."""
        return self._call.server.tools[tool].summary

    def mismatch(self, tool: str, arguments: JsonObject) -> Mismatch | None:
        """How the arguments fail to satisfy the tool's whole input schema; `None` when they do satisfy it."""
        try:
            self._call.server.tools[tool].input.bind(arguments)
        except InvalidArguments as error:
            return error.mismatch
        return None

    def call(self, tool: str, arguments: JsonObject, variables: TaskVariables | None) -> Outcome:
        """Call a tool. It is not given up when the client goes away: what it did is recorded with the task."""
        try:
            return self._caller.call_tool(
                self._call.server.tools[tool], arguments, variables, progress=self._within_step, stay=True
            )
        except ProtocolError as error:
            return Failed(error.message)

    def read(self, uri: str) -> Sequence[FetchedResource]:
        """Fetch a resource of this server.

        Raises:
            ResourceUnavailable: there is none at this URI, or reading it failed.
        """
        found = find_resource(self._call.server, uri)
        if found is None:
            raise ResourceUnavailable(f"there is no resource {uri}")
        resource, arguments = found
        try:
            return [self._caller.read(resource, uri, arguments, progress=self._within_step)]
        except ProtocolError as error:
            raise ResourceUnavailable(error.message) from error

    def announce(self, begun: int, total: int, step: str) -> None:
        """Send `notifications/progress`, when the client asked for it."""
        self._begun, self._total, self._shown = begun, total, float(begun)
        token = self._call.envelope.progress_token
        if token is None:
            return
        params: dict[str, Json] = {"progressToken": token, "progress": begun, "total": total}
        self._call.reply.notify("notifications/progress", params | {"message": f"Step {begun}/{total}: {step}"})

    def may_start(self) -> bool:
        """Whether enough of the function's time is left to start a step."""
        left = self._caller.left_ms()
        return left is None or left > START_MARGIN_MS

    def _within_step(self, progress: float, total: float | None) -> tuple[float, float | None] | None:
        """A function's progress as a fraction of its step; `None` unless the request's progress grows by it.

        A step may call several functions, and one may change its mind about its total (MCP basic/utilities/progress:
        the value must increase with each notification).
        """
        of = total if total is not None and total > 0 else progress + 1
        fraction = min(max(progress / of, 0.0), 1.0) * 0.99 if of > 0 else 0.0
        if not self._begun + fraction > self._shown:
            return None
        self._shown = self._begun + fraction
        return self._shown, self._total


def find_resource(server: Server, uri: str) -> tuple[Resource, dict[str, str]] | None:
    """The resource at a URI and its function's arguments; one with that very URI before any template."""
    if len(uri) > MAX_URI or is_own(uri):
        return None
    exact = server.resources.get(uri)
    if exact is not None and not exact.is_template:
        return exact, {}
    for resource in server.resources.values():
        arguments = resource.match(uri)
        if arguments is not None:
            return resource, arguments
    return None

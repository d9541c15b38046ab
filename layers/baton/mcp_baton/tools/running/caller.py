"""What the runner must know of the request or the background job that calls a function."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from mcp_baton.protocol.envelope import Envelope
from mcp_baton.protocol.json import JsonObject
from mcp_baton.settings import Settings
from mcp_baton.telemetry import Telemetry
from mcp_baton.tools.approval import Approval
from mcp_baton.tools.asking import Asker
from mcp_baton.tools.calls import ToolCall
from mcp_baton.tools.outcomes import Failed, Prepared
from mcp_baton.tools.resource import Resource
from mcp_baton.tools.running.tool_threads import Listener
from mcp_baton.transport.exchange import Exchange

type SendQuestion = Callable[[str, str, JsonObject], None]
"""Sends the client a question: id, method, params. From any thread."""

type AskerFactory = Callable[[SendQuestion, Callable[[], bool]], Asker]
"""Creates the asker of a running function. Arguments: the function that sends its questions; and a function that
returns whether the request still waits for the running function."""


class Grant(Protocol):
    """The permission for one call that needs an approval."""

    def end(self, failed: Failed) -> None:
        """Note how the call failed. Call this before its outcome is stored."""


class Published(Protocol):
    """The functions that the caller may use, by name or URI."""

    @property
    def tools(self) -> Mapping[str, Any]: ...

    @property
    def prompts(self) -> Mapping[str, Any]: ...

    @property
    def resources(self) -> Mapping[str, Resource]: ...


class ProcessServices(Protocol):
    @property
    def settings(self) -> Settings: ...

    @property
    def telemetry(self) -> Telemetry: ...


class Caller(Protocol):
    """A request or a background job."""

    @property
    def services(self) -> ProcessServices: ...

    @property
    def server(self) -> Published: ...

    @property
    def owner(self) -> str | None: ...

    @property
    def claims(self) -> Mapping[str, object]: ...

    @property
    def envelope(self) -> Envelope: ...

    @property
    def exchange(self) -> Exchange: ...

    @property
    def listener(self) -> Listener: ...

    def left_s(self) -> float | None:
        """Return the seconds until the write reserve begins; `None` without a time limit."""

    def client_error_text(self, name: str, error: BaseException) -> str:
        """Return the text of an exception for the client."""

    def error_id(self, error: BaseException) -> str | None:
        """Return the id of an exception in the log; `None` if clients may see its text."""

    def guard(self, tool: str, approval: Approval, prepared: Prepared, call: ToolCall) -> Failed | Grant | None:
        """Return why a call with this approval must not run now, or the permission that it uses; `None` if it needs
        none."""

    def callback_url(self, call: ToolCall, step: str) -> str:
        """Make a new address for a waiting step of the call's task."""

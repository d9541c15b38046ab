"""What the runner must know of the request or the background job that calls a function."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

from msgspec import Struct

from mcp_baton.exceptions import ToolError
from mcp_baton.protocol.envelope import Envelope
from mcp_baton.protocol.json import JsonObject
from mcp_baton.settings import Settings
from mcp_baton.tasks.store import TaskStore
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


class Features[E](Protocol):
    """What the features add to calls. They are above this room, so the handler plugs them in. `E` is the
    `Execution` that makes the call."""

    def guard(
        self, execution: E, tool: str, approval: Approval, prepared: Prepared, call: ToolCall
    ) -> Failed | Grant | None:
        """Return why a call with an approval must not run now, or the permission that it uses; `None` if it needs
        none."""

    def callback_url(self, execution: E, call: ToolCall, step: str) -> str:
        """Make a new address for a waiting step of the call's task."""

    def waiting_approvals(self, store: TaskStore, task_id: str) -> Collection[str]:
        """Return the ids of the approvals that wait for a decision and belong to a task: one `Query`."""


class Published(Protocol):
    """The functions that the caller may use, by name or URI."""

    @property
    def options(self) -> Any: ...

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

    @property
    def features(self) -> Features[Any]: ...


class Caller(Struct, frozen=True, kw_only=True):
    """A request or a background job, as far as the runner of functions must know it.

    Attributes:
        reports_to: Receives what the functions send while they run; by default, the client.
    """

    services: ProcessServices
    server: Published
    owner: str | None
    claims: Mapping[str, object]
    envelope: Envelope
    exchange: Exchange
    reports_to: Listener | None = None

    @property
    def listener(self) -> Listener:
        return self.exchange if self.reports_to is None else self.reports_to

    def left_ms(self) -> int | None:
        """Return the milliseconds until the write reserve begins; `None` without a time limit."""
        remaining = self.exchange.remaining_ms()
        return None if remaining is None else remaining - self.services.settings.write_reserve_ms

    def left_s(self) -> float | None:
        remaining_ms = self.left_ms()
        return None if remaining_ms is None else remaining_ms / 1000

    def client_error_text(self, name: str, error: BaseException) -> str:
        """Return the text of an exception for the client. For a `ToolError` it is the error's text; for other
        exceptions only an id to find the error in the log (docs/tools.md, Errors)."""
        error_id = self.error_id(error)
        if error_id is not None:
            return f"internal error in {name} (id {error_id})"
        try:
            return str(error) or type(error).__name__
        except Exception:  # noqa: BLE001 - code of the author's exception may raise anything
            return type(error).__name__

    def error_id(self, error: BaseException) -> str | None:
        """Return the id of an exception in the log; `None` if clients may see its text."""
        is_masked = self.server.options.mask_errors and not isinstance(error, ToolError)
        return self.exchange.request_id if is_masked else None

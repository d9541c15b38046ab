"""The surroundings of a function of the server's author, in a request and in a background job alike."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field

from mcp_baton.exceptions import TaskNotFound, ToolError
from mcp_baton.protocol.envelope import Envelope, Era
from mcp_baton.protocol.http import Exchange
from mcp_baton.protocol.json import JsonObject
from mcp_baton.server.asking.asker import AskedInWorkflow, Asker, CannotAsk
from mcp_baton.server.running.tool_threads import Listener
from mcp_baton.server.services import Services
from mcp_baton.server.view import ServerView
from mcp_baton.tasks.store import TaskStore

if TYPE_CHECKING:
    from mcp_baton.tasks.approvals import ApprovalRecord

type Ask = Callable[[str, str, JsonObject], None]
"""Sends the client a question: id, method, params. From any thread."""

type Asking = Callable[[Ask, Callable[[], bool]], Asker]
"""Creates the asker of a running function: takes the function that sends its questions, and one that returns whether
the function is still waited for."""


class Execution(Struct, frozen=True, kw_only=True):
    """One request or one background job, as the functions that it calls need it. `server` and `store` are limited to
    what the caller may use.

    Attributes:
        base_url: The address of the API, for links to it; empty if it is not known.
        approvals: The requested approvals of which people have to be notified.
    """

    services: Services
    server: ServerView
    store: TaskStore | None
    owner: str | None
    claims: Mapping[str, object]
    envelope: Envelope
    exchange: Exchange
    base_url: str = ""
    approvals: list["ApprovalRecord"] = field(default_factory=list)

    @property
    def listener(self) -> Listener:
        raise NotImplementedError

    @property
    def job_id(self) -> str | None:
        """The task of the background job; `None` in a request."""
        return None

    @property
    def stateless(self) -> bool:
        return self.envelope.era is Era.STATELESS

    def own_tasks(self) -> tuple[TaskStore, str]:
        """The store and the owner of the caller's tasks. Raises `TaskNotFound` if one of them is missing."""
        if self.store is None or self.owner is None:
            raise TaskNotFound
        return self.store, self.owner

    def asking_in_workflow(self) -> Asking:
        """How a step of a workflow asks the client. By default it cannot: the step would run again from its start, and
        with it all its calls."""
        return self.cannot_ask("a step of a workflow cannot wait: call the tool by itself", AskedInWorkflow)

    def cannot_ask(self, why: str, refusal: type[ToolError] = ToolError) -> Asking:
        return lambda _ask, _waited_for: CannotAsk(why, refusal, self.envelope)

    def client_error_text(self, name: str, error: BaseException) -> str:
        """The text of an exception for the client: that of a `ToolError`; of any other exception only an id, by which
        it is found in the log (docs/tools.md, Errors)."""
        error_id = self.error_id(error)
        if error_id is not None:
            return f"internal error in {name} (id {error_id})"
        return str(error) or type(error).__name__

    def error_id(self, error: BaseException) -> str | None:
        """The id of an exception in the log. `None` if its text may be shown to clients."""
        masked = self.server.options.mask_errors and not isinstance(error, ToolError)
        return self.exchange.request_id if masked else None

    def now_ms(self) -> int:
        """The store's time, by which claims expire, epoch ms; 0 without a store, which has no claims."""
        return self.store.now_ms() if self.store else 0

    def left_ms(self) -> int | None:
        """Milliseconds until the write reserve begins; `None` without a time limit."""
        remaining = self.exchange.remaining_ms()
        return None if remaining is None else remaining - self.services.settings.write_reserve_ms

    def left_s(self) -> float | None:
        left = self.left_ms()
        return None if left is None else left / 1000


class DetachedExecution(Execution, frozen=True, kw_only=True):
    """An execution with a listener of its own: a call beside others, or a run without a client."""

    reports_to: Listener

    @property
    def listener(self) -> Listener:
        return self.reports_to

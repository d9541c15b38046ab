"""What an author's function can use while it runs, in a request or in a background job."""

from collections.abc import Callable

from msgspec import field, structs

from mcp_baton.exceptions import ProtocolError, TaskNotFound, ToolError
from mcp_baton.protocol.envelope import Era
from mcp_baton.protocol.jsonrpc import INTERNAL_ERROR
from mcp_baton.tasks.record import TaskPage, TaskRecord
from mcp_baton.tasks.store import TaskStore
from mcp_baton.tools.asking import AskedInWorkflow, CannotAsk
from mcp_baton.tools.outcomes import Failed
from mcp_baton.tools.running.caller import AskerFactory, Caller
from mcp_baton.workflow.server_view import ServerView
from mcp_baton.workflow.services import Services


class Execution(Caller, frozen=True, kw_only=True):
    """A request or a background job, which calls functions of the author. `server` and `store` are limited to what the
    caller may use.

    Attributes:
        base_url: The address of the API, for links to it; empty if it is not known.
        notifications: Notify people of the approvals that this execution has requested. Each handles its errors.
        waits_for: The ids of the approvals for which calls of this execution wait.
        full: For each task that can request no approval now: the outcome of a call that needs one, and the digests of
            the calls that have one.
    """

    services: Services
    server: ServerView
    store: TaskStore | None
    base_url: str = ""
    notifications: list[Callable[[], None]] = field(default_factory=list)
    waits_for: set[str] = field(default_factory=set)
    full: dict[str, tuple[Failed, frozenset[str]]] = field(default_factory=dict)

    @property
    def job_id(self) -> str | None:
        """The task of the background job; `None` in a request."""
        return None

    @property
    def stateless(self) -> bool:
        return self.envelope.era is Era.STATELESS

    def own_tasks(self) -> tuple[TaskStore, str]:
        """Return the store and the owner of the caller's tasks. Raises `TaskNotFound` if one of them is missing."""
        if self.store is None or self.owner is None:
            raise TaskNotFound
        return self.store, self.owner

    def own_task(self, task_id: str) -> TaskRecord:
        """Read a task that the caller names: one `GetItem`. Raises `TaskNotFound` if the caller may not use it."""
        store, owner = self.own_tasks()
        task = store.get(owner, task_id)
        if self.server.hides(task):
            raise TaskNotFound
        return task

    def check_own(self, task_id: str) -> None:
        """Raise `TaskNotFound` if the caller lacks the scopes of a task. Call this before a write to a task that the
        caller names. A caller with all scopes costs no request: the write checks the owner."""
        if self.server.lacks_tools:
            self.own_task(task_id)

    def own_page(self, cursor: str | None = None) -> TaskPage:
        """Read a page of the tasks that the caller may use."""
        store, owner = self.own_tasks()
        page = store.list(owner, cursor)
        return structs.replace(page, tasks=[task for task in page.tasks if not self.server.hides(task)])

    def asking_in_workflow(self) -> AskerFactory:
        """Return how a step of a workflow asks the client. By default it cannot, because the step would run again from
        its start and repeat all its calls."""
        return self.cannot_ask("a step of a workflow cannot wait: call the tool by itself", AskedInWorkflow)

    def cannot_ask(self, reason: str, refusal: type[ToolError] = ToolError) -> AskerFactory:
        return lambda _ask, _waited_for: CannotAsk(reason, refusal, self.envelope)

    def internal_error(self, message: str) -> ProtocolError:
        """Return an error whose cause is only in the log, with the id to find it there."""
        return ProtocolError(INTERNAL_ERROR, message, {"correlationId": self.exchange.request_id})

    def notify(self) -> None:
        while self.notifications:
            self.notifications.pop()()

    def now_ms(self) -> int:
        """Return the store's time, by which claims expire, epoch milliseconds; 0 without a store."""
        return self.store.now_ms() if self.store else 0

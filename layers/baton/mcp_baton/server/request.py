"""One MCP request that is being answered: what was asked, by whom, and what can be used to answer it."""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field

from mcp_baton.exceptions import ProtocolError, ToolError
from mcp_baton.protocol import jsonrpc
from mcp_baton.protocol.budget import Budget
from mcp_baton.protocol.envelope import PREFIXED_TASK_ID_KEY, RELATED_TASK_KEY, TASK_ID_KEY, Envelope, Era
from mcp_baton.protocol.http import Exchange
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.protocol.jsonrpc import INVALID_PARAMS
from mcp_baton.protocol.state import Seal
from mcp_baton.server.asking.asker import AskedInWorkflow, Asker, CannotAsk
from mcp_baton.server.asking.rounds import Rounds, StoreAsker, open_rounds
from mcp_baton.server.reply import Reply
from mcp_baton.server.view import ServerView
from mcp_baton.settings import Settings
from mcp_baton.tasks.ids import new_question
from mcp_baton.tasks.store import TaskStore
from mcp_baton.telemetry import SILENT, Telemetry

if TYPE_CHECKING:
    from mcp_baton.tasks.jobs import Dispatcher

type Ask = Callable[[str, str, JsonObject], None]
"""Sends the client a question: id, method, params. From any thread."""

type Asking = Callable[[Ask, Callable[[], bool]], Asker]
"""From what sends a running function's questions, and whether the request waits for it, to what answers them."""


class Request(Struct, frozen=True):
    """One MCP request.

    Attributes:
        message: What was asked, as JSON-RPC has it.
        owner: The authenticated identity; `None` for a caller without one, who has no tasks.
        store: Where tasks are kept; `None` where there is no store.
        seal: Signs what travels through the client.
        headers: HTTP headers, names in lower case.
        telemetry: Where what is done for it is noted.
        budget: What is left of its answer's length, where the answer is of Baton's own making.
        clock: Seconds, from any moment on.
        sleep: Lets so many seconds pass.
        began_s: When the request came in, on that clock.
        claims: What the authorizer found out about the caller.
        dispatcher: Invokes the worker; `None` where there is none, and so no work in the background.
        may_wait: Whether the answer may wait for a task. In a batch it may not: the waits would add up.
    """

    server: ServerView
    store: TaskStore | None
    settings: Settings
    message: jsonrpc.Request
    envelope: Envelope
    owner: str | None
    exchange: Exchange
    reply: Reply
    seal: Seal
    headers: Mapping[str, str]
    telemetry: Telemetry = SILENT
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    budget: Budget = field(default_factory=Budget)
    began_s: float = field(default_factory=time.monotonic)
    claims: Mapping[str, object] = field(default_factory=dict)
    dispatcher: "Dispatcher | None" = None
    may_wait: bool = True

    @property
    def params(self) -> JsonObject:
        """The request's params."""
        return self.message.params

    @property
    def stateless(self) -> bool:
        """Whether the request is of the 2026 era."""
        return self.envelope.era is Era.STATELESS

    @property
    def may_have_tasks(self) -> bool:
        """Whether the client can have a call's task: it has declared that it can (2026), or asks for one (2025)."""
        return self.envelope.speaks_tasks if self.stateless else "task" in self.params

    @property
    def has_workers(self) -> bool:
        """Whether a call can become a task that a worker works on."""
        return self.store is not None and self.owner is not None and self.dispatcher is not None

    def rounds(self) -> Rounds | None:
        """The rounds that the request continues or begins, where it calls a function alone; `None` in the handshake
        era, which has none.

        Raises:
            ProtocolError: the request continues earlier rounds in a way that cannot be.
        """
        if not self.stateless:
            return None
        return open_rounds(self.seal, self.owner, self.message.method, self.params, self.envelope.capabilities)

    def asking(self, rounds: Rounds | None) -> Asking:
        """Makes what a function's questions to the client go through, where the request calls that function alone."""
        return self._asking_through_the_store() if rounds is None else lambda _ask, _waited_for: rounds

    def asking_in_workflow(self) -> Asking:
        """The same for the steps of a workflow. One that ran again from its start would make its calls again."""
        if not self.stateless:
            return self._asking_through_the_store()
        return self._unable("a step of a workflow cannot wait: call the tool by itself", AskedInWorkflow)

    def _asking_through_the_store(self) -> Asking:
        store, owner = self.store, self.owner
        if store is None:
            return self._unable("there is no store where the answer could arrive")
        if owner is None:
            return self._unable("the caller has no identity")
        if not self.reply.may_ask:
            return self._unable("the client does not take a stream")
        limit_s, clock, envelope = self.settings.question_ms / 1000, self.clock, self.envelope
        return lambda ask, waited_for: StoreAsker(
            store.answers, owner, ask, new_question, waited_for, limit_s, clock=clock, envelope=envelope
        )

    def _unable(self, why: str, refusal: type[ToolError] = ToolError) -> Asking:
        return lambda _ask, _waited_for: CannotAsk(why, refusal, self.envelope)

    def words(self, name: str, error: BaseException) -> str:
        """An exception in words for the client: a `ToolError`'s text, which is meant for it; of any other one an id to
        find it by in the log (docs/tools.md, Errors).

        Args:
            name: The tool, resource, prompt or step that it ended.
            error: The exception.
        """
        error_id = self.error_id(error)
        if error_id is not None:
            return f"internal error in {name} (id {error_id})"
        return str(error) or type(error).__name__

    def error_id(self, error: BaseException) -> str | None:
        """What finds an exception in the log, if its text is hidden from clients."""
        masked = self.server.options.mask_errors and not isinstance(error, ToolError)
        return self.exchange.request_id if masked else None

    def now_ms(self) -> int:
        """The time by which claims end, epoch milliseconds; 0 where there is no store, and so no claim."""
        return self.store.now_ms() if self.store else 0

    def left_ms(self) -> int | None:
        """Milliseconds until the write reserve begins; `None` where nothing stops the function."""
        remaining = self.exchange.remaining_ms()
        return None if remaining is None else remaining - self.settings.write_reserve_ms

    def left_s(self) -> float | None:
        """The same, seconds."""
        left = self.left_ms()
        return None if left is None else left / 1000

    def elapsed_s(self) -> float:
        """Seconds since the request came in."""
        return self.clock() - self.began_s

    def text(self, name: str) -> str:
        """A param that must be a string.

        Raises:
            ProtocolError: it is missing or is none.
        """
        value = self.params.get(name)
        if not isinstance(value, str):
            raise ProtocolError(INVALID_PARAMS, f"Invalid params: `{name}` must be a string")
        return value

    def called(self) -> tuple[str, JsonObject]:
        """The tool or the prompt that is called, by its name, and the call's arguments.

        Raises:
            ProtocolError: the name is missing or is no string, or the arguments are no object.
        """
        return self.text("name"), self.object("arguments")

    def object(self, name: str) -> JsonObject:
        """A param that is an object where it is given.

        Raises:
            ProtocolError: it is something else.
        """
        value = self.params.get(name)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise ProtocolError(INVALID_PARAMS, f"Invalid params: `{name}` must be an object")
        return value

    def requested_ttl(self) -> int | None:
        """`task.ttl`, milliseconds (2025-11-25, basic/utilities/tasks); the store cuts it at its maximum.

        Raises:
            ProtocolError: it is no number of milliseconds.
        """
        ttl = self.object("task").get("ttl")
        if ttl is None:
            return None
        if not isinstance(ttl, int) or isinstance(ttl, bool) or ttl <= 0:
            raise ProtocolError(INVALID_PARAMS, "Invalid params: `task.ttl` must be a number of milliseconds above 0")
        return ttl

    def bound_task(self) -> str | None:
        """The task that the request names: by `_meta._task_id`, by `mcp-baton/task_id`, which means the same, or by the
        related-task key (docs/workflows.md).

        Raises:
            ProtocolError: it names none in a way that cannot be meant, or two.
        """
        meta, related = self.envelope.meta, self.envelope.meta.get(RELATED_TASK_KEY)
        if related is not None and not isinstance(related, Mapping):
            raise ProtocolError(INVALID_PARAMS, f"Invalid params: `_meta['{RELATED_TASK_KEY}']` must be an object")
        named = {key: _task_id(meta.get(key), f"_meta.{key}") for key in (TASK_ID_KEY, PREFIXED_TASK_ID_KEY)}
        if related is not None:
            named[RELATED_TASK_KEY] = _task_id(related.get("taskId") or "", f"_meta['{RELATED_TASK_KEY}'].taskId")
        given = {key: task for key, task in named.items() if task is not None}
        if len(set(given.values())) > 1:
            keys = " and ".join(map(repr, given))
            raise ProtocolError(INVALID_PARAMS, f"Invalid params: `_meta` names two tasks; keep one of {keys}")
        return next(iter(given.values()), None)


def _task_id(value: Json, field: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: `{field}` must be a string, the id of a task")
    return value

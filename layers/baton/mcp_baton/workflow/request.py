"""One MCP request: the message and the caller."""

from collections.abc import Collection, Mapping

from msgspec import field

from mcp_baton.protocol import jsonrpc
from mcp_baton.protocol.budget import Budget
from mcp_baton.protocol.envelope import PREFIXED_TASK_ID_KEY, RELATED_TASK_KEY, TASK_ID_KEY
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.protocol.jsonrpc import InvalidParams, checked_object
from mcp_baton.questions.rounds import Rounds, StoreAsker, open_rounds
from mcp_baton.tasks.ids import new_question
from mcp_baton.tasks.step_ids import StepId, bare_task_id, copied_id, parse_step_id
from mcp_baton.tools.arguments import NEW_TASK, TASK_ID
from mcp_baton.tools.running.caller import AskerFactory
from mcp_baton.workflow.execution import Execution
from mcp_baton.workflow.refusals import InvalidToolArguments


class Request(Execution, frozen=True, kw_only=True):
    """One MCP request.

    Attributes:
        budget: Limits Baton's own answers.
        began_s: When the function got the request, on `Services.clock`.
        arrived_ms: When API Gateway received the request, epoch milliseconds, if it says so.
    """

    message: jsonrpc.RequestMessage
    headers: Mapping[str, str]
    began_s: float
    budget: Budget = field(default_factory=Budget)
    arrived_ms: int | None = None

    @property
    def params(self) -> JsonObject:
        return self.message.params

    @property
    def may_have_tasks(self) -> bool:
        """Whether the client accepts a task as the result of a call. In the 2026 era, the client has declared this; in
        the 2025 era, this call asks for a task."""
        return self.envelope.speaks_tasks if self.stateless else "task" in self.params

    @property
    def has_workers(self) -> bool:
        return self.store is not None and self.owner is not None and self.services.dispatcher is not None

    def rounds(self) -> Rounds | None:
        """Return the rounds that the request continues or starts; `None` in the handshake era, which has no rounds."""
        if not self.stateless:
            return None
        seal, capabilities = self.services.seal, self.envelope.capabilities
        return open_rounds(seal, self.owner, self.message.method, self.params, capabilities)

    def asking(self, rounds: Rounds | None) -> AskerFactory:
        """Return how a function asks the client, if it is the only function that the request calls."""
        return self._asking_through_the_store() if rounds is None else lambda _ask, _waited_for: rounds

    def asking_in_workflow(self) -> AskerFactory:
        """Return how a step of a workflow asks the client. In the 2026 era it cannot."""
        return super().asking_in_workflow() if self.stateless else self._asking_through_the_store()

    def _asking_through_the_store(self) -> AskerFactory:
        store, owner = self.store, self.owner
        if store is None:
            return self.cannot_ask("there is no store where the answer could arrive")
        if owner is None:
            return self.cannot_ask("the caller has no identity")
        if not self.exchange.may_ask:
            return self.cannot_ask("the client does not take a stream")
        limit_s, clock, envelope = self.services.settings.question_ms / 1000, self.services.clock, self.envelope
        return lambda ask, waited_for: StoreAsker(
            store.answers, owner, ask, new_question, waited_for, limit_s, clock=clock, envelope=envelope
        )

    def elapsed_s(self) -> float:
        return self.services.clock() - self.began_s

    def asked_ms(self) -> int:
        """Return when the request arrived, epoch milliseconds."""
        return self.now_ms() - round(self.elapsed_s() * 1000) if self.arrived_ms is None else self.arrived_ms

    def pause(self, seconds: float) -> None:
        self.exchange.pause(seconds, self.services.sleep)

    def reply_due_s(self) -> float:
        """Return when the client stops waiting for the reply, on `Services.clock` (docs/workflows.md, As a tool)."""
        return self.began_s + self.server.options.reply_budget_s

    def text(self, name: str) -> str:
        value = self.params.get(name)
        if not isinstance(value, str):
            raise InvalidParams(f"`{name}` must be a string")
        return value

    def name_and_arguments(self) -> tuple[str, JsonObject]:
        return self.text("name"), self.object("arguments")

    def object(self, name: str) -> JsonObject:
        value = self.params.get(name)
        return {} if value is None else checked_object(value, name)

    def requested_ttl(self) -> int | None:
        """Return `task.ttl`, milliseconds (2025-11-25, basic/utilities/tasks). The store limits it to its maximum."""
        ttl = self.object("task").get("ttl")
        if ttl is None:
            return None
        if not isinstance(ttl, int) or isinstance(ttl, bool) or ttl <= 0:
            raise InvalidParams("`task.ttl` must be a number of milliseconds above 0")
        return ttl

    def named_step(self, arguments: JsonObject) -> tuple[StepId | None, dict[str, Json]]:
        """Return the task, or the step, that the request names in its arguments or in `_meta`, and the other arguments
        (docs/workflows.md, As a tool). Raises `InvalidToolArguments`."""
        other_arguments = {name: value for name, value in arguments.items() if name != TASK_ID}
        named, bound_id = arguments.get(TASK_ID), self.bound_step()
        if named is None or named == "":
            return bound_id, other_arguments
        if named == NEW_TASK:
            raise InvalidToolArguments(f'{TASK_ID} "{NEW_TASK}" is only for calls of a workflow\'s tool; leave it out')
        if not isinstance(named, str):
            raise InvalidToolArguments(f"{TASK_ID} must be a text: the id from an earlier result")
        agreed = _agreed_id([parse_step_id(copied_id(named)), *([bound_id] if bound_id else [])])
        if agreed is None:
            cause = f"the arguments name one task ({TASK_ID}) and _meta names another; keep one of them"
            raise InvalidToolArguments(cause)
        return agreed, other_arguments

    def named_task(self, arguments: JsonObject) -> tuple[str | None, dict[str, Json]]:
        """As `named_step`, for a request that concerns the whole task."""
        named, other_arguments = self.named_step(arguments)
        return (named.task_id if named else None), other_arguments

    def task_id(self) -> str:
        """Return the task that the params name. They may name a step of it, as everywhere."""
        return bare_task_id(self.text("taskId"))

    def bound_step(self) -> StepId | None:
        """Return the task, or the step, that the request names in `_meta`, by one of three keys (docs/workflows.md)."""
        meta, related = self.envelope.meta, self.envelope.meta.get(RELATED_TASK_KEY)
        by_key = {key: _step_id(meta.get(key), f"_meta.{key}") for key in (TASK_ID_KEY, PREFIXED_TASK_ID_KEY)}
        if related is not None:
            task_id = checked_object(related, f"_meta['{RELATED_TASK_KEY}']").get("taskId")
            related_id = _step_id(task_id or "", f"_meta['{RELATED_TASK_KEY}'].taskId")
            by_key[RELATED_TASK_KEY] = StepId(related_id.task_id) if related_id else None
        ids = {key: named for key, named in by_key.items() if named is not None}
        if not ids:
            return None
        agreed = _agreed_id(ids.values())
        if agreed is None:
            keys = " and ".join(map(repr, ids))
            raise InvalidParams(f"`_meta` names two tasks; keep one of {keys}")
        return agreed


def _agreed_id(ids: Collection[StepId]) -> StepId | None:
    """Return the most exact of several ids; `None` if they name different tasks or steps."""
    tasks, paths = {named.task_id for named in ids}, {named.path for named in ids}
    if len(tasks) > 1 or len(paths - {None}) > 1:
        return None
    return max(ids, key=lambda named: named.path is not None)


def _step_id(value: Json, field: str) -> StepId | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise InvalidParams(f"`{field}` must be a string, the id of a task")
    if value == NEW_TASK:
        raise InvalidParams(f"`{field}` must be the id of a task; {NEW_TASK!r} is only for arguments")
    return parse_step_id(value)

"""The settings and failures that a test can arrange, for all clients of one `connect`."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Self

from mcp_baton import Server, ToolError
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.testing.function import Clock, Kill
from mcp_baton.testing.mcp_client import Era
from mcp_baton.testing.script import FixedResult
from mcp_baton.testing.store import Store
from mcp_baton.testing.wire import Stage, Wire
from mcp_baton.testing.workers import WaitingEvent, WorkerRun


@dataclass(frozen=True, slots=True)
class Controls:
    """What a test can arrange. All clients of one `connect` share it."""

    stage: Stage = field(repr=False)
    owner: str | None
    era: Era
    claims: Mapping[str, Json] = field(default_factory=dict)

    def as_owner(self, name: str | None, *, scopes: Sequence[str] = ()) -> Self:
        """Return a client of another owner with only these scopes; `None` for an unauthenticated caller."""
        return replace(self, owner=name, claims={"scope": " ".join(scopes)} if scopes else {})

    def with_claims(self, **claims: Json) -> Self:
        """Return a client of the same owner with claims as from an authorizer: `scope="orders:write"`."""
        return replace(self, claims=claims)

    def deployed(self, server: Server) -> Self:
        """Return a client of another version of the server with the same tasks, as after a deployment.

        This client still uses its own version, as a running invocation does. Each version has its own `calls`. Raises
        `WorkflowError` if a workflow cannot work.
        """
        return replace(self, stage=self.stage.deploy(server))

    @property
    def wire(self) -> Wire:
        """The connection of this client to the function."""
        return Wire(self.stage, self.owner, self.era, self.claims, self.stage.answers)

    @property
    def clock(self) -> Clock:
        """The clock: `clock.advance(seconds)`."""
        return self.stage.clock

    @property
    def store(self) -> Store:
        """The DynamoDB: `store.fails("UpdateItem")`."""
        return self.stage.store

    def calls(self, tool: str) -> list[dict[str, Json]]:
        """Return the arguments of each call of a tool by clients and steps, in order. As all methods that name a tool,
        it raises `ValueError` if the server has no such tool."""
        return self.stage.script.calls(tool)

    def tool_returns(self, tool: str, value: object, *, times: int | None = None) -> None:
        """Make a tool return a value instead of running. Its arguments and the value are still validated.

        Args:
            value: A return value of its function, or the JSON of one.
            times: The number of calls; `None` for all, 0 to stop.
        """
        self.stage.script.replace(tool, FixedResult(value, None, times))

    def tool_raises(
        self, tool: str, error: BaseException | type[BaseException] | str, *, times: int | None = None
    ) -> None:
        """Make a tool raise an error instead of running; a string becomes a `ToolError`. See `tool_returns`."""
        exception = ToolError(error) if isinstance(error, str) else error
        self.stage.script.replace(tool, FixedResult(None, exception, times))

    def during(self, tool: str, happens: Callable[[], object]) -> None:
        """Call a function before the next call of a tool, for example to `cancel` the tool's task. If the function
        raises, the tool raises the same."""
        self.stage.script.set_hook(tool, happens)

    def override(self, factory: Callable[..., object], by: Callable[..., object]) -> AbstractContextManager[None]:
        """Within the block, call `by` wherever the server's functions declare `Depends(factory)`.

        Instances that are made for the process within the block are separate, and are closed at its end. Raises
        `RegistrationError` if no function depends on `factory`, or `by` cannot replace it.
        """
        return self.stage.overrides.override(factory, by)

    def answers(self, answers: Mapping[str, Json] | None) -> None:
        """Set the answers to questions of tools, by their key or their text (docs/testing.md, Questions). `None` means
        that this client cannot answer questions."""
        self.stage.answers.add(answers)

    @property
    def waiting_events(self) -> list[WaitingEvent]:
        """The queue of the worker's events. A test may remove, repeat and reorder them."""
        return self.stage.worker.events.waiting

    @property
    def worker_runs(self) -> list[WorkerRun]:
        """The outcomes of the events that the worker has processed, in order."""
        return self.stage.worker.events.runs

    def dispatch_fails(self, *, times: int | None = 1) -> None:
        """Reject the next events, as if Lambda were not available; `None` for all, 0 to stop."""
        self.stage.worker.events.refused = times

    def sweep(self) -> None:
        """Check the background tasks that are due, as the server's clock does each minute."""
        self.stage.sweep()

    def send_event(self, event: Json) -> JsonObject:
        """Deliver an event to the worker function once, such as `{"batonStart": {…}}` or an array of them
        (docs/events.md), and return the function's outcome. The background work that it starts is done as after a
        request. Raises `EventError` if the event is invalid."""
        return self.stage.worker.deliver(event)

    def remaining_s(self, seconds: float) -> None:
        """Set the remaining time of all invocations, running ones included. It is 120 s, for a worker 900 s."""
        self.stage.invocations.remaining_s(seconds)

    def killed_after(self, what: str) -> Kill:
        """Kill the function after its next action of this kind: a successful DynamoDB operation (`PutItem`,
        `UpdateItem`, …), or the return of a tool. The request, or the call that waits for a worker, raises `Killed`.

        The store keeps its state, and the killed run no longer changes it. As a context manager, the block ends at the
        kill, and must not end before. Raises `ValueError` if there is no such operation or tool.
        """
        if not self.store.has_operation(what):
            self.stage.script.check(what)
        return self.stage.invocations.kill_after(what)

"""What a test arranges, whichever client it holds."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Self

from mcp_baton import Server
from mcp_baton.protocol.json import Json
from mcp_baton.testing.answers import Answers
from mcp_baton.testing.clock import Clock
from mcp_baton.testing.function import Function
from mcp_baton.testing.invocations import Invocations, Kill
from mcp_baton.testing.overrides import Overrides
from mcp_baton.testing.script import Script
from mcp_baton.testing.store import Store
from mcp_baton.testing.wire import Era, Wire
from mcp_baton.testing.workers import WaitingEvent, Worker, WorkerRun


@dataclass(frozen=True, slots=True)
class Stage:
    """What the clients of one `connect` share.

    Attributes:
        server: The copy that is served.
        worker: Works on tasks in the background.
        started: The workflow of each task that was begun here.
        overrides: Replaces what its functions depend on.
        deploy: Serves another version of the server over the same tasks.
    """

    server: Server
    function: Function
    worker: Worker
    invocations: Invocations
    store: Store
    clock: Clock
    script: Script
    answers: Answers
    started: dict[str, str]
    overrides: Overrides
    deploy: Callable[[Server], "Stage"]


@dataclass(frozen=True, slots=True)
class Controls:
    """What a test arranges: shared by every client of one `connect`, whoever its owner is."""

    stage: Stage
    owner: str | None
    era: Era
    claims: Mapping[str, Json] = field(default_factory=dict)

    def as_owner(self, name: str | None) -> Self:
        """Another owner's client of the same server; `None` for a caller without an identity. It has no claims."""
        return replace(self, owner=name, claims={})

    def with_claims(self, **claims: Json) -> Self:
        """The same owner's client with these claims, as an authorizer would have found them: `scope="orders:write"`."""
        return replace(self, claims=claims)

    def deployed(self, server: Server) -> Self:
        """A client of another version of the server, over the same tasks: as after a deployment.

        This client goes on with its own version, as a run does that was under way. Each version has `calls` of its own.

        Raises:
            WorkflowError: a workflow cannot work.
        """
        return replace(self, stage=self.stage.deploy(server))

    @property
    def wire(self) -> Wire:
        """This client's way to the function."""
        stage = self.stage
        return Wire(
            stage.function, stage.server, stage.answers, self.owner, self.era, self.claims, after=stage.worker.look
        )

    @property
    def clock(self) -> Clock:
        """The time: `clock.advance(seconds)`."""
        return self.stage.clock

    @property
    def store(self) -> Store:
        """The DynamoDB: `store.fails("UpdateItem")`."""
        return self.stage.store

    def calls(self, tool: str) -> list[dict[str, Json]]:
        """The arguments of each call of a tool so far, in order, as they were sent: by clients and by steps.

        Raises:
            ValueError: there is no such tool.
        """
        return self.stage.script.calls(tool)

    def tool_returns(self, tool: str, value: object, *, times: int | None = None) -> None:
        """Have a tool return this instead of running. Its arguments and its value are checked all the same.

        Args:
            tool: Its name.
            value: What its function would return, or JSON that makes it.
            times: How many calls; `None` for all of them, 0 for none any more.

        Raises:
            ValueError: there is no such tool.
        """
        self.stage.script.returns(tool, value, times)

    def tool_raises(
        self, tool: str, error: BaseException | type[BaseException] | str, *, times: int | None = None
    ) -> None:
        """Have a tool raise this instead of running; a text is a `ToolError`'s. As `tool_returns`."""
        self.stage.script.raises(tool, error, times)

    def during(self, tool: str, happens: Callable[[], object]) -> None:
        """Have something happen the next time that a tool is called, once, before it runs: `cancel` its task, for one.

        Args:
            tool: Its name.
            happens: Called without arguments. What it raises, the tool raises.

        Raises:
            ValueError: there is no such tool.
        """
        self.stage.script.happens_during(tool, happens)

    def override(self, factory: Callable[..., object], by: Callable[..., object]) -> AbstractContextManager[None]:
        """Within the block, call another factory wherever the server's functions declare `Depends(factory)`.

        Instances that are made for the process within the block are separate, and are closed at its end.

        Args:
            factory: The factory that the functions declare.
            by: The factory that is called instead.

        Raises:
            RegistrationError: no function of the server depends on `factory`, or `by` cannot replace it.
        """
        return self.stage.overrides.override(factory, by)

    def answers(self, answers: Mapping[str, Json] | None) -> None:
        """Answer questions of tools, from now on and whenever they are asked, by their key or their text.

        Args:
            answers: The form's fields, or `"decline"` or `"cancel"`, to a form or a page; a text to a question to the
                model; a list of URIs for the roots. `None`: this client cannot be asked.
        """
        self.stage.answers.give(answers)

    @property
    def waiting_events(self) -> list[WaitingEvent]:
        """The queue of events in front of the worker: the list itself, for a test to change. An event that is removed
        is lost, one that is there twice is delivered twice, and one further back comes later."""
        return self.stage.worker.events.waiting

    @property
    def worker_runs(self) -> list[WorkerRun]:
        """What became of the events that the worker has had, in order."""
        return self.stage.worker.events.runs

    def dispatch_fails(self, *, times: int | None = 1) -> None:
        """Have the next events not be taken, as when Lambda cannot be reached; `None` for all, 0 for none any more."""
        self.stage.worker.events.refused = times

    def remaining_s(self, seconds: float) -> None:
        """Give every invocation from now on, and the rest of one under way, this much time; before, 120 s, and a
        worker's 900 s."""
        self.stage.invocations.remaining_s(seconds)

    def killed_after(self, what: str) -> Kill:
        """Kill the function the next time that it has done this; the request that it works on raises `Killed`. So does
        what a worker was working for.

        What the store holds then stays, and nothing of that run reaches it any more. As a context manager, the block
        is left there, and has to be.

        Args:
            what: A DynamoDB operation that succeeds (`PutItem`, `UpdateItem`, …), or the name of a tool that returns.

        Raises:
            ValueError: there is neither.
        """
        if not self.store.knows(what):
            self.stage.script.check(what)
        return self.stage.invocations.kill_after(what)

"""One step of a run: a record that fills up while the step is prepared, runs, ends and is stored."""

from msgspec import Struct

from mcp_baton.protocol.json import JsonObject
from mcp_baton.tasks.store import Timing
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.tools.content import ResourceContent
from mcp_baton.tools.outcomes import Failed, Outcome
from mcp_baton.workflow.host import Skipped
from mcp_baton.workflow.lease import Over
from mcp_baton.workflow.pause import PauseReason
from mcp_baton.workflow.steps.step import Step

type Stop = PauseReason | Over
"""Why a run ended before every step was settled, or could not end its task."""


class UnreadResource(Struct, frozen=True):
    """A resource that could not be read. The run continues without it."""

    uri: str
    error: str


type Content = ResourceContent | UnreadResource


class StepRun(Struct):
    """How a run ran a step, or one element of a list.

    Attributes:
        arguments: The resolved arguments of the call; `None` if no call was made.
        resources: The resources that were fetched before the tool.
        outcome: How it ended; `None` as long as the step is open.
        attempts: How often the tool was called in this run.
        stored_call: The arguments to store with the result, if a person has supplied some of them.
        timing: When the step ran, with its fetches; `None` without a task.
        replayed: An earlier run or a continuation completed the step; this run only shows it.
        read_resources: Which of the step's `resources` were fetched, as the step declares them.
        after: The resources that were fetched after the tool.
        unread: The URI of the resource that could not be fetched; the tool was not called.
        users: The steps that use this answer. None of them may have run with the answer that it replaces.
        calls: For how many elements of a list; 1 for a step without a list. The other attempts are retries.
        index: The element of the step's list; `None` for the step itself.
        begun_ms: When it began, epoch milliseconds, and `begun_s` on the run's clock; `None` without a task.
        variables: The variables of a call in another thread; `None` for those of the run.
        failed: The failure, with its cause.
        stop: Why the step is not settled, or why the run has to end.
        retry_s: The wait before the next attempt, if it is too long for this invocation.
        written: Whether a write of this run has included it, or it needs none.
    """

    step: Step
    arguments: JsonObject | None = None
    resources: tuple[Content, ...] = ()
    outcome: Outcome | Skipped | None = None
    attempts: int = 0
    stored_call: JsonObject | None = None
    timing: Timing | None = None
    replayed: bool = False
    read_resources: frozenset[str] = frozenset()
    after: tuple[Content, ...] = ()
    unread: str | None = None
    users: tuple[str, ...] = ()
    calls: int = 1
    index: int | None = None
    begun_ms: int | None = None
    begun_s: float = 0.0
    variables: TaskVariables | None = None
    failed: Failed | None = None
    stop: Stop | None = None
    retry_s: float | None = None
    written: bool = False

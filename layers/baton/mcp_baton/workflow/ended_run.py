"""How a run of a workflow ended."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from mcp_baton.tasks.record import StepStatus, TaskRecord
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.lease import Over
from mcp_baton.workflow.pause import PauseReason, has_failed_calls, suspends
from mcp_baton.workflow.repeats import Repeat
from mcp_baton.workflow.resolve import KnownValues
from mcp_baton.workflow.step_run import StepRun

type Persisted = bool | Literal["unknown"]
"""Whether the store has everything that a run did; `unknown` if a response that would show it was lost."""


class EndedRun(Struct, frozen=True):
    """A run that has ended: completed, paused, or stopped because its task was over or had another run.

    Attributes:
        known: Arguments, statuses, outputs and variables at the end of the run.
        traces: The steps that ran, in order. A resumed run also has those that were completed before.
        pauses: Why steps have stopped, in the order of the steps. Without parallel steps, it has at most one.
        task: The stored task; `None` for a run without a task.
        over: Why the run could not end its task: the task was over, or had another run.
        retries_ms: Until when the next attempts of elements wait, epoch milliseconds.
        list_calls: How many calls of lists without a failed call have succeeded.
        stored: Whether the last write was made.
        persisted: Whether the store has everything that happened.
        oversized: The task variables whose values were too large to store.
        refused: The answers that were not stored, because another call had used the earlier answers.
        blocked: The stopped steps that could not run.
        repeated: The steps of this run that an interrupted earlier run may have run, too.
        open_repeats: The open steps that an interrupted earlier run may have run.
        unrecorded: The steps of this run that are not recorded, or may not be recorded.
        ignored: The arguments of a resume that do not replace the stored ones, and empty answers.
        wrong_answer: What is wrong with an answer in a form. The run has not used it.
    """

    known: KnownValues
    traces: tuple[StepRun, ...]
    pauses: tuple[PauseReason, ...]
    task: TaskRecord | None
    over: Over | None = None
    stored: bool = True
    persisted: Persisted = True
    oversized: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()
    blocked: tuple[StepRun, ...] = ()
    repeated: tuple[Repeat, ...] = ()
    open_repeats: tuple[Repeat, ...] = ()
    unrecorded: tuple[Repeat, ...] = ()
    ignored: tuple[str, ...] = ()
    wrong_answer: str | None = None
    retries_ms: tuple[int, ...] = ()
    list_calls: int = 0

    @property
    def workflow(self) -> Workflow:
        return self.known.workflow

    @property
    def read_resources(self) -> dict[str, frozenset[str]]:
        """Which resources of the stopped steps were fetched, as the steps declare them."""
        steps = {pause.step for pause in self.pauses}
        read = {trace.step.name: trace.read_resources for trace in self.traces if trace.step.name in steps}
        return read | {blocked.step.name: blocked.read_resources for blocked in self.blocked}

    @property
    def pause(self) -> PauseReason | None:
        """Why the first of the stopped steps has stopped; `None` if no step has."""
        return self.pauses[0] if self.pauses else None

    @property
    def suspends(self) -> bool:
        """Whether its stopped steps only wait: for a person, a callback or a time."""
        return suspends(self.pauses)

    @property
    def may_ask(self) -> bool:
        """Whether the client's user may be asked, so that the run continues with the answers. It would make the calls
        that have failed again, which the model has to decide; and a wrong answer is not asked for again."""
        return self.stored and self.wrong_answer is None and not has_failed_calls(self.pauses)

    @property
    def statuses(self) -> Mapping[str, StepStatus]:
        """Each step's status, by name, in order."""
        return self.known.statuses

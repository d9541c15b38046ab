"""What a run writes to its task, and what is known of its writes (docs/storage.md)."""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from msgspec.structs import replace

from mcp_baton.exceptions import ClaimLost, OutcomeUnknown, StoreError, TaskFinished, TaskNotFound, ValueLost
from mcp_baton.tasks.record import ITEMS_PREFIX, RESULT_PREFIX, StepStatus, TaskRecord, statuses_of
from mcp_baton.tasks.store import Batch, TaskStore, write_decided
from mcp_baton.tasks.values import list_in
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.tools.outcomes import Failed, Succeeded
from mcp_baton.workflow.batch import merged_items, run_batch
from mcp_baton.workflow.ended_run import Persisted
from mcp_baton.workflow.host import stored_result
from mcp_baton.workflow.lease import Lease, Over, Superseded, TaskOver
from mcp_baton.workflow.list_elements import ListElements
from mcp_baton.workflow.state import State
from mcp_baton.workflow.step_run import StepRun

logger = logging.getLogger(__name__)

MAX_WRITE_ATTEMPTS: Final = 10
"""How often a run tries to write. Each lost race means that a continuation wrote in between."""


class RunWriter:
    """Writes a run to its task.

    Args:
        sleep: Waits the given number of seconds before a write is tried again.

    Attributes:
        is_made: Whether the last write was made.
        persisted: Whether the store has everything that happened.
        unsure: The steps that a write with an unknown outcome may have stored.
        oversized: The task variables whose values were too large to store.
        refused: The answers that were not stored, because another call had used the earlier answers.
    """

    def __init__(
        self, run: State, store: TaskStore | None, sleep: Callable[[float], None], rng: Callable[[], float]
    ) -> None:
        self._run = run
        self._store = store
        self._sleep = sleep
        self._rng = rng
        self.is_made = True
        self.persisted: Persisted = True
        self.unsure = self.oversized = self.refused = frozenset[str]()
        # What the last try to write has in it.
        self._steps: list[StepRun] = []
        self._items: dict[str, ListElements] = {}
        self._releases = False

    def write(self, *, last: bool) -> Over | None:
        """Write what has not been written; the last write releases the claim.

        If the write fails, the client still gets the reply (docs/workflows.md, Without a task).

        Returns:
            Why the run cannot write to its task any more; `None` if it can.
        """
        lease = self._run.lease
        if lease is None or self._store is None:
            return None
        decide = partial(self._decide, lease, last)
        # A continuation can change each element once.
        attempts = MAX_WRITE_ATTEMPTS + sum(len(items.elements) for items in self._unwritten_items().values())
        try:
            task = write_decided(self._store, lease.task, decide, attempts=attempts, sleep=self._sleep, rng=self._rng)
        except StoreError as error:
            return self._not_written(lease, error)
        if self._releases:
            lease.task, lease.released = task, True
        else:
            lease.note_written(task)
        self._note_written(task)
        self._note_oversized(task)
        return None

    def _decide(self, lease: Lease, last: bool, task: TaskRecord) -> Batch:
        """The batch for the task's present state."""
        run = self._run
        # A callback or a continuation may have completed the step at which the run has stopped. Then it goes on.
        self._releases = last and not run.settled_meanwhile(task)
        self._steps, self._items = self._unwritten_in(task), merged_items(task, self._unwritten_items())
        batch = run_batch(
            task,
            self._steps,
            run.pauses,
            run.variables,
            last=last,
            move=run.move,
            release=self._releases,
            items=self._items,
        )
        # The last write releases the claim, so it need not renew it.
        claim = lease.current_claim if self._releases else lease.claim()
        # The decision depends on more than statuses if there are lists, or if a write may have been made.
        return replace(batch, claim=claim, same_version=bool(self._items or self.unsure))

    def _not_written(self, lease: Lease, error: StoreError) -> Over | None:
        over = isinstance(error, ClaimLost | TaskFinished)
        self.note_failed(unknown=isinstance(error, OutcomeUnknown), over=over)
        match error:
            case TaskFinished():
                lease.task = error.current
                return TaskOver(error.current.status)
            case ClaimLost():
                lease.task = error.current
                return Superseded()
            case TaskNotFound() if lease.unsure:
                logger.error("task %s: it was not created", lease.task.task_id)
                self._run.lease = self._run.host.lease = None
                return None
            case TaskNotFound():
                return TaskOver(None)
        logger.error("task %s: the run could not be written", lease.task.task_id, exc_info=error)
        return None

    @property
    def unrecorded(self) -> list[StepRun]:
        """The steps that are not in the store, or may not be."""
        if self.persisted is True:
            return []
        steps = (this for this in self._run.traces if not this.replayed)
        return [this for this in steps if not this.written or this.step.name in self.unsure]

    def _unwritten(self) -> list[StepRun]:
        return [this for this in self._run.traces if not this.written]

    def _unwritten_items(self) -> dict[str, ListElements]:
        """The lists with results that were not written, and those whose steps were settled since the last write."""
        settled = {this.step.name for this in self._unwritten()}
        return {name: items for name, items in self._run.items.items() if items.is_changed or name in settled}

    def _unwritten_in(self, task: TaskRecord) -> list[StepRun]:
        """The steps that must still be written to the task in its present state.

        After a write with an unknown outcome, the stored result of a step may be this run's or that of a later call,
        which must not be overwritten. So a step of that write is left out if it is stored as completed, or if it has
        failed in this run and its stored result has changed.
        """
        if not self.unsure:
            return self._unwritten()
        statuses = statuses_of(task)
        return [this for this in self._unwritten() if not self._may_be_stored(this, task, statuses)]

    def _may_be_stored(self, this: StepRun, task: TaskRecord, statuses: Mapping[str, StepStatus]) -> bool:
        """Whether a write with an unknown outcome included the step, and the step is completed or has another result
        than when this run last read or wrote the task."""
        name, last_task = f"{RESULT_PREFIX}{this.step.name}", self._run.task
        if this.step.name not in self.unsure:
            return False
        if statuses.get(this.step.name) is StepStatus.COMPLETED or not isinstance(this.outcome, Failed):
            return statuses.get(this.step.name) is StepStatus.COMPLETED
        try:
            return last_task is not None and last_task.variables.get(name) != task.variables.get(name)
        except StoreError:
            return True

    def _note_written(self, task: TaskRecord) -> None:
        """Note that these steps and lists were written.

        A step that was left out stays unsure if the task has another result for it than this run: a later call may have
        written it, or an earlier one whose result this run never replaced.
        """
        run, steps, unsure = self._run, self._steps, self.unsure
        # Write each value once only: another request may have changed it since.
        run.use_variables(TaskVariables(task.variables))
        for name, written_items in self._items.items():
            list_run = run.lists[name]
            # Results that are too large together are not stored, so the last write has to have all of them.
            list_run.is_lost = f"{ITEMS_PREFIX}{name}" in task.oversized
            list_run.items.stored = None if list_run.is_lost else list_in(task.variables, name) or written_items.stored
            list_run.items.replaced, list_run.items.dropped = False, frozenset()
            list_run.items.version, list_run.items.is_changed, list_run.unwritten = task.version, False, 0
        if unsure:
            names = {this.step.name for this in steps}
            omitted_steps = [this for this in self._unwritten() if this.step.name not in names]
            unsure -= names.union(this.step.name for this in omitted_steps if _is_stored(this, task))
        for this in run.traces:
            this.written = True
        refused = self.refused.union(this.step.name for this in steps if this.users and not _is_stored(this, task))
        self.is_made, self.persisted = True, "unknown" if unsure else not refused
        self.unsure, self.refused = unsure, refused

    def _note_oversized(self, task: TaskRecord) -> None:
        """Note the variables whose values were not stored."""
        self.oversized = self.oversized.union(task.oversized)
        for name in task.oversized:
            if name.startswith(RESULT_PREFIX):
                try:
                    task.variables.get(name)
                except ValueLost as lost:
                    self._run.lost_results[name.removeprefix(RESULT_PREFIX)] = str(lost)

    def note_failed(self, *, unknown: bool = False, over: bool = False) -> None:
        """Note that a write failed, or that nothing can be written any more.

        Args:
            over: Whether the task is over or has another run, so that only steps can be missing.
        """
        steps, lists = {this.step.name for this in self._unwritten()}, self._unwritten_items().keys()
        if unknown:
            self.unsure |= steps | lists
        # A list without new results is no result that is missing.
        results = steps.union(name for name in lists if self._run.lists[name].unwritten)
        if steps or lists or not over:
            self.is_made = False
            self.persisted = "unknown" if unknown or (results and results <= self.unsure) else False

    def forget(self, name: str) -> None:
        """Forget that the outcome of a step's write is unknown: the step is open again."""
        self.unsure -= {name}


def _is_stored(this: StepRun, task: TaskRecord) -> bool:
    """Whether the task has this run's result of the step. Any stored result may replace a failure."""
    if not isinstance(this.outcome, Succeeded):
        return True
    try:
        return bool(task.variables.get(f"{RESULT_PREFIX}{this.step.name}") == stored_result(this.outcome))
    except StoreError:
        return False

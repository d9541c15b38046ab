"""Jobs: tool calls that a worker makes in the background, each with a task of its own (docs/background.md).

A job is created with its task, then dispatched: an event that names the task is sent to the worker. The event may be
lost, doubled or late. Whoever gets it claims the task first; what nobody claims is dispatched again by a poll.
"""

from collections.abc import Mapping
from typing import Protocol

from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.record import Claim, TaskRecord


def event_of(task: TaskRecord, dispatch: int) -> dict[str, Json]:
    """The event of a dispatch: what a worker is invoked with. It names the task and holds nothing of it.

    `{"batonTask": {"owner": …, "taskId": …, "dispatch": 1}}`
    """
    return {"batonTask": {"owner": task.owner, "taskId": task.task_id, "dispatch": dispatch}}


class Dispatcher(Protocol):
    """Invokes the worker asynchronously: Lambda's `InvocationType=Event`, or what stands for it."""

    def dispatch(self, event: JsonObject) -> None:
        """Hand the event over. It was taken, not worked on, when this returns.

        Raises:
            NotDispatched: it was not taken, or that is not known.
        """


class JobStore(Protocol):
    """What is done to jobs, each of it one conditional write. Tasks are created by `TaskStore.create`, read by `get`,
    renewed by `renew`, completed by the worker's `write` with its claim, and cancelled by `cancel`, all as any task.

    Every method raises `StoreUnavailable` where the store does not answer, and `OutcomeUnknown` where the write may
    have landed; `TaskNotFound` for a task that is missing, expired or another owner's, and `TaskFinished` for one that
    is over.
    """

    def claim(self, owner: str, task_id: str, claim: Claim, dispatch: int) -> TaskRecord:
        """Begin an attempt: claim a `working` task that nobody holds and that has attempts left, and read it.

        Args:
            owner: Whose it must be.
            task_id: Its id.
            claim: Who takes it, and until when. The task's own has the next number.
            dispatch: The number of the dispatch that the event carries; kept with the claim.

        Raises:
            TaskHeld: another worker holds it; carries the task, whose `claim.dispatch` says by which dispatch.
            NoAttemptLeft: its attempts are used up, and nobody holds it.
            Conflict: it waits for the client's answers, or it is no job.
        """

    def dispatch_again(self, task: TaskRecord) -> TaskRecord | None:
        """Note one more dispatch of a `working` task that is due, that nobody holds and that has attempts left: of many
        polls one wins.

        Returns:
            The task, whose `job.dispatches` is the number for the event; `None` where there is nothing to do.
        """

    def give_up(self, task: TaskRecord, error: JsonObject) -> TaskRecord | None:
        """End a task as `failed` whose attempts are used up and that nobody holds.

        Args:
            task: The task as it was read.
            error: The JSON-RPC error, `{"code", "message"}`.

        Returns:
            The task; `None` where somebody else has got on with it.
        """

    def fail(self, task: TaskRecord, claim: Claim, error: JsonObject) -> TaskRecord:
        """End a task as `failed` that this worker holds.

        Raises:
            ClaimLost: another worker has taken it over.
        """

    def ask(self, task: TaskRecord, claim: Claim, questions: Mapping[str, JsonObject]) -> TaskRecord:
        """Let a task wait for the client: it becomes `input_required`, the questions are added to those that it has
        asked, the claim is given up, and the attempts are counted anew.

        Raises:
            ClaimLost: another worker has taken it over.
            TooLarge: the questions do not fit.
        """

    def answer(self, owner: str, task_id: str, answers: JsonObject) -> TaskRecord | None:
        """Take answers. Those to questions that are not open are ignored. With the last one the task becomes `working`
        and one more dispatch is noted, in the same write. Lost races are tried again until it is known what became of
        each answer.

        Returns:
            The task as this write has left it: where it is `working`, the caller sends the event of `job.dispatches`.
            `None` where none of the answers was taken.

        Raises:
            TooLarge: the answers do not fit.
        """

    def report(self, task: TaskRecord, claim: Claim, message: str) -> TaskRecord:
        """Set the status message, and renew the claim.

        Raises:
            ClaimLost: another worker has taken it over.
        """

    def extend(self, task: TaskRecord, ttl_ms: int) -> TaskRecord:
        """Let a live task, of a job or of the workflow that one runs, live for this long from now on. Nothing is
        written where it does so for more than half of that, or may not live longer.

        Returns:
            The task as it stands.

        Raises:
            ClaimLost: it was held when it was read, and another one has taken it over. Only a write tells that.
        """

    def hand_over(self, task: TaskRecord, claim: Claim, ttl_ms: int) -> TaskRecord:
        """Give the claim up to a fresh worker: the attempts are counted anew, one more dispatch is noted, and the task
        lives for at least this long from now on, where that is not beyond the longest lifetime of a task.

        Raises:
            ClaimLost: another worker has taken it over.
        """

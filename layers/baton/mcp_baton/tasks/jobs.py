"""Jobs: tool calls that a worker runs in the background, each as a task (docs/background.md).

A job is created with its task, then dispatched: an event with the task's id is sent to the worker. The event may be
lost, doubled or late. A worker that gets it claims the task first. If none does, a poll or a sweep dispatches the job
again. A `working` job, and a workflow's that asks its client, is in the outbox, which sweeps read.
"""

from collections.abc import Iterator, Mapping
from typing import Protocol

from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.record import Claim, JobWaits, TaskRecord


def event_of(task: TaskRecord, dispatch: int) -> dict[str, Json]:
    """The event of a dispatch: `{"batonTask": {"owner": …, "taskId": …, "dispatch": 1}}`. It has `traceparent` if the
    request that created the task was traced by OpenTelemetry."""
    fields: dict[str, Json] = {"owner": task.owner, "taskId": task.task_id, "dispatch": dispatch}
    if task.job is not None and task.job.work.traceparent:
        fields["traceparent"] = task.job.work.traceparent
    return {"batonTask": fields}


class Dispatcher(Protocol):
    """Invokes the worker asynchronously, on AWS with Lambda's `InvocationType=Event`."""

    def dispatch(self, event: JsonObject) -> None:
        """Hand the event over. When this returns, it was accepted, but the job may not have started. Raises
        `NotDispatched` if it was not accepted, or that is unknown."""


class JobStore(Protocol):
    """The operations on jobs. Each is one conditional write, unless it says otherwise.

    `TaskStore` creates, reads, renews, completes and cancels jobs as any other task. The errors that are common to all
    methods are those of `TaskStore`.
    """

    def claim(self, owner: str, task_id: str, claim: Claim, dispatch: int) -> TaskRecord:
        """Begin an attempt: claim a `working` task that has no live claim and has attempts left, and read it. The
        dispatch number of the event is stored with the claim. Attempts are counted here, not when they are dispatched.

        Raises:
            TaskHeld: another worker has a live claim; contains the task, whose `claim.dispatch` says by which dispatch.
            NoAttemptLeft: no attempts are left, and there is no live claim.
            Conflict: the task waits for the client's answers, it is not a job, or a worker has handled this dispatch
                already and no further one is due.
        """

    def dispatch_again(self, task: TaskRecord) -> TaskRecord | None:
        """Note one more dispatch of a `working` task that is due, has no live claim and has attempts left. No request
        is sent if the task, as it was read, needs no dispatch. Of several simultaneous polls, one succeeds.

        Returns:
            The task, with the number for the event in `job.dispatches`; `None` if there is nothing to do.
        """

    def give_up(self, task: TaskRecord, error: JsonObject) -> TaskRecord | None:
        """Make a task `failed` that has no attempts left and no live claim. `None` if another writer has changed it."""

    def withdraw(self, task: TaskRecord, message: str) -> TaskRecord:
        """Make a new task `cancelled`, with this status message. Raises `Conflict` if a worker has ever claimed it."""

    def fail(self, task: TaskRecord, claim: Claim, error: JsonObject) -> TaskRecord:
        """Make a task `failed` that this worker has claimed. Raises `ClaimLost`."""

    def ask(
        self, task: TaskRecord, claim: Claim, questions: Mapping[str, JsonObject], due_ms: int | None = None
    ) -> TaskRecord:
        """Make a task wait for the client: it becomes `input_required` with these questions and no others, the claim is
        released, and the job has all its attempts again. With `due_ms` it also waits for something else, as after
        `suspend`: a wake-up makes it `working`, and it asks again. If the client has answered all of them meanwhile, it
        stays `working`, and one more dispatch is noted, for which the caller sends the event.

        Raises:
            ClaimLost: another worker has taken it over.
            TooLarge: the questions do not fit.
            ValueError: a key was used for another question before.
        """

    def answer(self, owner: str, task_id: str, answers: JsonObject) -> TaskRecord | None:
        """Take answers: one `GetItem` and one `UpdateItem`, and one more `UpdateItem` after each lost race. Answers to
        questions that are not open are ignored. With the last answer the task becomes `working`, and one more dispatch
        is noted in the same write.

        Returns:
            The task after this write. If it is `working`, the caller sends the event with `job.dispatches`. `None` if
            no answer was taken.

        Raises:
            TooLarge: the answers do not fit.
        """

    def report(self, task: TaskRecord, claim: Claim, message: str) -> TaskRecord:
        """Set the status message, and renew the claim: one `UpdateItem`, sent once. Raises `ClaimLost`."""

    def extend(self, task: TaskRecord, ttl_ms: int, least_ms: int | None = None) -> TaskRecord:
        """Make a live task expire `ttl_ms` from now: a job's task, or the task of the workflow that the job runs.

        Nothing is written if the task already lives for `least_ms`, by default half of `ttl_ms`, or if it has the
        maximum lifetime.

        Returns:
            The current task.

        Raises:
            ClaimLost: it had a claim when it was read, and another run has taken it over. Only a write detects this.
        """

    def suspend(self, task: TaskRecord, claim: Claim, ttl_ms: int, waits: JobWaits, due_ms: int) -> TaskRecord:
        """Release the claim until `wake`, after `extend`: the job waits. It has all its attempts again. From `due_ms`
        on, epoch milliseconds, a poll may dispatch it. What it waits for replaces its status message. Raises
        `ClaimLost`."""

    def wake(self, owner: str, task_id: str) -> TaskRecord | None:
        """Note one more dispatch of a `working` task whose claim was released. Returns the task, with the number for
        the event in `job.dispatches`; `None` if a worker has it, or if it is over."""

    def hand_over(self, task: TaskRecord, claim: Claim, ttl_ms: int) -> TaskRecord:
        """Release the claim for a new worker, after `extend`: the job has all its attempts again, and one more dispatch
        is noted. Raises `ClaimLost`."""

    def due(self) -> Iterator[tuple[str, str]]:
        """The owner and the id of each job in the outbox that is due, in random order: one or more `Query` requests for
        each shard. The index may be a moment old."""

    def unlist(self, task: TaskRecord) -> None:
        """Remove a task from the outbox, unless it was written since it was read: one `UpdateItem`, sent once."""

    def read_listed(self, owner: str, task_id: str) -> TaskRecord | None:
        """Read a `working` job of the outbox: one `GetItem`. `None` if it no longer has to be checked. This
        removes a job that should not be in the outbox: one `UpdateItem`, sent once."""

"""Repeated first calls of a workflow's tool: the task of the first call answers them (docs/workflows.md, Repeated
calls).

Clients give up before a long call ends, and their model makes the same call again. So the first call stores which task
it starts. An equal call finds that task, and replies with it instead of starting a second one.
"""

import logging
from typing import Final

from msgspec import Struct

from mcp_baton.exceptions import BatonError, StoreBusy, StoreError, StoreUnavailable, TaskNotFound
from mcp_baton.protocol.json import JsonObject, dumps_spaced
from mcp_baton.protocol.state import KeyUnavailable
from mcp_baton.tasks.ids import text_digest
from mcp_baton.tasks.keys import canonical_text
from mcp_baton.tasks.record import TaskRecord, TaskStatus, epoch_ms, pauses_of
from mcp_baton.tasks.store import Start, TaskStore
from mcp_baton.telemetry import REPEATED_CALLS
from mcp_baton.tools.arguments import NEW_TASK, TASK_ID
from mcp_baton.tools.asking import declares
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.lease import lease_end
from mcp_baton.workflow.pause import AnswersRequired
from mcp_baton.workflow.request import Request
from mcp_baton.workflow.server_view import may_use
from mcp_baton.workflow.stored_pauses import parse_pauses
from mcp_baton.workflow.times import milliseconds
from mcp_baton.workflow.workflow_tool import WorkflowTool

logger = logging.getLogger(__name__)

REPEATS_KEY: Final = "repeats"
"""The member of `_meta` of a reply to a repeated call."""

SLOW_REPLY_MS: Final = 3_000
"""A client may have given up before a reply that took this long, milliseconds."""

CREATION_S: Final = 2.0
"""How long after its arrival a repeated call waits until the first call has created its task, seconds."""

FIRST_LOOK_S: Final = 0.05
START_ATTEMPTS: Final = 10


class RepeatedCall(BatonError):
    """The call repeats an earlier one. Nothing was started.

    Attributes:
        start: The start of the earlier call.
        task: Its task; `None` if it is not created yet.
        is_running: Whether the earlier call has not ended.
        takes_over: Whether the run of the earlier call has died, so that this call resumes the task.
        age_ms: How long ago the earlier call arrived, milliseconds.
    """

    def __init__(
        self,
        start: Start,
        task: TaskRecord | None,
        age_ms: int,
        *,
        is_running: bool = False,
        takes_over: bool = False,
    ) -> None:
        super().__init__("an equal call has started the task")
        self.start = start
        self.task = task
        self.is_running = is_running
        self.takes_over = takes_over
        self.age_ms = age_ms

    @property
    def introduction(self) -> str:
        """The first sentences of the reply."""
        state = ", which is still running" if self.is_running else ""
        return (
            f"This is the task of an equal call {max(self.age_ms, 0) // 1000} s ago{state}. To start another task, add "
            f"{dumps_spaced({TASK_ID: NEW_TASK})} to the arguments."
        )


class Starter(Struct, frozen=True):
    """Stores the start of a first call, or finds the task of the equal call that it repeats.

    Attributes:
        digest: Of the call: equal calls of an owner have the same.
        anew: Whether the call starts a new task in any case.
    """

    request: Request
    workflow: Workflow
    store: TaskStore
    owner: str
    digest: str
    repeats_ms: int
    anew: bool

    def begin(self) -> Start | None:
        """Store the start of a new task. If the store does not answer, the call starts a task as without repetitions;
        `None` if it is known that the start was not stored.

        Raises:
            RepeatedCall: the call repeats an earlier one.
            StoreBusy: the store is overloaded, or the task of an equal call cannot be read now. Nothing was started.
        """
        starts, earlier = self.store.starts, None
        until_ms = lease_end(self.store, self.request.exchange.remaining_ms)
        start = Start(self.store.new_task_id(), self.request.asked_ms(), until_ms)
        for _ in range(START_ATTEMPTS):
            try:
                if self.anew:
                    starts.replace(self.owner, self.digest, start)
                    return start
                found = starts.begin(self.owner, self.digest, start, earlier)
            except StoreBusy:
                raise
            except StoreError as error:
                logger.warning("the start of the call could not be stored; repetitions are not found", exc_info=True)
                # The write may still arrive. Then the task must have the id that it stores.
                return start if isinstance(error, StoreUnavailable) else None
            if found is None:
                return start
            self._check(found)
            earlier = found
        raise StoreBusy("equal calls have started tasks until no attempt was left")

    def forget(self, start: Start) -> None:
        """Remove the start of a task that was not created, so that the next equal call does not wait for it."""
        try:
            self.store.starts.forget(self.digest, start)
        except StoreError:
            logger.warning("task %s: its start could not be removed", start.task_id, exc_info=True)

    def _check(self, found: Start) -> None:
        """Return if the call starts a new task. Raises `RepeatedCall` if it repeats the call of this start."""
        task, now_ms = self._task(found), self.store.now_ms()
        age_ms = now_ms - found.asked_ms
        # Without a task, the first call died before it created the task, or the task has expired.
        if task is None or not may_use(self.request.server, task) or _is_clients(task):
            return
        ended_ms, claim = _end_of_run(task), task.claim
        takes_over = ended_ms is None and task.job is None and claim is not None and claim.lapsed_at(now_ms)
        if takes_over and claim is not None:
            is_repetition = now_ms - claim.until_ms < self.repeats_ms
        elif ended_ms is None:
            is_repetition = True
        else:
            is_slow = ended_ms - found.asked_ms >= SLOW_REPLY_MS
            is_repetition = (is_slow or self._may_show_form(task)) and now_ms - ended_ms < self.repeats_ms
        if is_repetition and not self._has_named_workflow(task):
            note(self.request, "takeover" if takes_over else "repetition", f"task {task.task_id}")
            raise RepeatedCall(
                found, task, age_ms, is_running=ended_ms is None and not takes_over, takes_over=takes_over
            )

    def _may_show_form(self, task: TaskRecord) -> bool:
        """Whether the user of the earlier call may still see a form: the run is paused for values of a person, and
        this client, which is the same one as a rule, shows forms."""
        envelope = self.request.envelope
        if not envelope.is_known or not declares(envelope.capabilities, "elicitation"):
            return False
        pauses = parse_pauses(pauses_of(task))
        questions = [question for pause in pauses if isinstance(pause, AnswersRequired) for question in pause.questions]
        is_asking = self.workflow.ask and any(pause.missing_arguments for pause in pauses)
        return is_asking or any(question.of == "user" for question in questions)

    def _has_named_workflow(self, job: TaskRecord) -> bool:
        """Whether the task is a background call, and a client has continued or ended the task of its workflow."""
        if job.job is None or job.job.work.workflow_task is None:
            return False
        workflow_task = self._read(job.job.work.workflow_task)
        return workflow_task is not None and _is_clients(workflow_task)

    def _task(self, start: Start) -> TaskRecord | None:
        """Return the task of a start; `None` if it does not exist and can no longer be created. If the first call may
        be creating it at this moment, waits a little and then raises `RepeatedCall`."""
        services, asked_ms = self.request.services, self.request.asked_ms()
        waited_s = min(max(self.store.now_ms() - asked_ms, 0) / 1_000, CREATION_S)
        ends_s, pause_s = services.clock() + CREATION_S - waited_s, FIRST_LOOK_S
        while True:
            # The time is taken before the read: this call may stand still after it, and the task be created meanwhile.
            now_ms = self.store.now_ms()
            task = self._read(start.task_id)
            if task is not None or now_ms >= start.until_ms:
                return task
            left_s = ends_s - services.clock()
            if left_s <= 0:
                note(self.request, "repetition", f"task {start.task_id}")
                raise RepeatedCall(start, None, now_ms - start.asked_ms, is_running=True)
            services.sleep(min(pause_s, left_s))
            pause_s *= 2

    def _read(self, task_id: str) -> TaskRecord | None:
        """Return a task, or `None` if there is none. There is no check of the scopes, which would hide the task and so
        let the call wait for it."""
        try:
            return self.store.get(self.owner, task_id)
        except TaskNotFound:
            return None
        except StoreUnavailable as error:
            # An equal call may be running.
            raise StoreBusy(f"task {task_id}: it cannot be read: {error}") from error


def note(request: Request, kind: str, subject: str) -> None:
    request.services.telemetry.add(REPEATED_CALLS, of=kind)
    logger.info("request %s: repeated call: %s, %s", request.exchange.request_id, kind, subject)


def _is_clients(task: TaskRecord) -> bool:
    """Whether the client knows the task, because it has named or ended it; or whether the task has no result."""
    return task.named or task.by_client or task.status in {TaskStatus.FAILED, TaskStatus.CANCELLED}


def _end_of_run(task: TaskRecord) -> int | None:
    """Return when the run of a task ended, epoch milliseconds; `None` if it has not ended, or died."""
    if task.status.terminal:
        return epoch_ms(task.updated_at)
    if task.job is not None or task.claim is None or task.claim.until_ms > 0:
        return None  # a background call has ended when its task has
    return task.claim.ended_ms


def starter_of(
    request: Request, tool: WorkflowTool, arguments: JsonObject, *, as_task: bool, anew: bool
) -> Starter | None:
    """Return the starter of a first call; `None` if its repetitions do not count as such."""
    workflow, store, owner = tool.workflow, request.store, request.owner
    if request.params.get("requestState") is not None:
        return None  # a later round of the same call
    if anew:
        note(request, "new", f"workflow {workflow.name}")
    repeats = request.server.options.repeats if workflow.repeats is None else workflow.repeats
    if store is None or owner is None or not repeats or tool.only_reads:
        return None
    digest = _digest(request, tool, arguments, as_task=as_task)
    if digest is None:
        return None
    return Starter(request, workflow, store, owner, digest, milliseconds(repeats), anew=anew)


def _digest(request: Request, tool: WorkflowTool, arguments: JsonObject, *, as_task: bool) -> str | None:
    """Return a digest that two calls share if they are equal; `None` if there is no key for secret arguments."""
    workflow, seal = tool.workflow, request.services.seal
    sent = tool.canonical(arguments)
    secrets = {name: sent.pop(name) for name in workflow.secrets if name in sent}
    call = canonical_text([request.owner, workflow.name, sent, as_task])
    if not workflow.secrets:
        return text_digest(call)
    if seal.is_temporary:
        return None
    try:
        return seal.digest(canonical_text([call, secrets]))
    except KeyUnavailable:
        logger.warning("workflow %s: repeated calls are not found, because the state key cannot be read", workflow.name)
        return None

"""A task's questions in the handshake era: requests of the server's, on the streams of requests that look after the
task (MCP 2025-11-25, basic/utilities/tasks, Input Required Status).

Nothing of them is kept but that they were sent: a question's id says of which task it is, and whichever invocation gets
the answer gives it to the task. So an answer that comes late, when nobody waits any more, is taken all the same.
"""

import logging
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from mcp_baton.exceptions import StoreError, StoreUnavailable, TaskFinished, TaskNotFound, TooLarge, ToolError
from mcp_baton.protocol.envelope import RELATED_TASK_KEY, STATELESS_REVISIONS, Envelope, Era
from mcp_baton.protocol.http import HttpResponse
from mcp_baton.protocol.json import Json, JsonObject, dumps
from mcp_baton.protocol.jsonrpc import Response
from mcp_baton.protocol.sessions import SESSION_HEADER
from mcp_baton.server.access import refusal
from mcp_baton.server.asking.asker import InputRequired, Question, refuse_undeclared
from mcp_baton.server.background.dispatching import dispatch
from mcp_baton.server.request import Request
from mcp_baton.server.running.tool_threads import KEEP_ALIVE_S
from mcp_baton.server.services import Services
from mcp_baton.tasks.answers import FIRST_WAIT_S, LONGEST_WAIT_S
from mcp_baton.tasks.ids import digest_of, new_task_question, sent_mark
from mcp_baton.tasks.record import Job, JobSpec, TaskRecord, TaskStatus
from mcp_baton.tasks.store import TaskStore


def questions_open(request: Request, task: TaskRecord) -> TaskRecord | None:
    """Ask what a task has asked, and wait until it asks nothing more: for as long as a question is waited for, and as
    the function's time lasts.

    Returns:
        The task as it then stands; `None` where it still waits, or the client cannot be asked here.

    Raises:
        StoreError: the store did not answer.
    """
    if request.store is None or not send_questions(request, task):
        return None
    for _ in _pauses(request):
        if request.store.read_status(task.owner, task.task_id).status is not TaskStatus.INPUT_REQUIRED:
            return request.store.get(task.owner, task.task_id)
    return None


def send_questions(request: Request, task: TaskRecord) -> bool:
    """Send the client what a task has asked it, on the stream of this request; not what was sent of late, since each
    request would put the same form before the same person.

    Returns:
        Whether the client can be asked here.

    Raises:
        StoreUnavailable: the store did not answer.
    """
    if request.store is None or request.stateless or not request.reply.may_ask:
        return False
    if task.job is None or task.status is not TaskStatus.INPUT_REQUIRED:
        return False
    for key, question in task.job.open.items():
        if _is_due(request, request.store, task, key):
            identifier = new_task_question(task.task_id, key)
            request.reply.request(identifier, str(question["method"]), _params(task, key, question))
    return True


def _is_due(request: Request, store: TaskStore, task: TaskRecord, key: str) -> bool:
    """Whether a question is to be sent now. It is marked as sent for this window of time and the next, so that it is
    sent again after one window at the earliest, to a client that has lost it, and after two at the latest; to another
    session at once."""
    window_s = max(request.services.settings.question_ms // 1000, 1)
    window = request.now_ms() // 1000 // window_s
    session = request.headers.get(SESSION_HEADER.lower(), "")
    marks = [sent_mark(task.task_id, key, session, number) for number in (window, window + 1)]
    if not _marked(store, task.owner, marks[0], 2 * window_s):
        return False
    _marked(store, task.owner, marks[1], 3 * window_s)
    return True


def _marked(store: TaskStore, owner: str, mark: str, ttl_s: int) -> bool:
    """Whether a mark was set now; it was there where not."""
    try:
        store.answers.ask(owner, mark, ttl_s)
    except StoreUnavailable:
        raise
    except StoreError:
        return False
    return True


def _params(task: TaskRecord, key: str, question: JsonObject) -> JsonObject:
    """A question's params as they are sent: they name the task, and a page has an id (MCP 2025-11-25,
    ElicitRequestURLParams)."""
    asked = question["params"]
    params: dict[str, Json] = dict(asked) if isinstance(asked, dict) else {}
    if params.get("mode") == "url":
        params["elicitationId"] = f"{task.task_id}-{digest_of(key)}"
    return {**params, "_meta": {RELATED_TASK_KEY: {"taskId": task.task_id}}}


def _pauses(request: Request) -> Iterator[None]:
    """Wait ever longer between two looks, up to a second, until the client or the time is gone."""
    began_s = said_s = request.services.clock()
    pause_s = FIRST_WAIT_S
    while request.services.clock() - began_s < request.services.settings.question_ms / 1000:
        left_s = request.left_s()
        if request.reply.gone or (left_s is not None and left_s <= LONGEST_WAIT_S):
            return
        yield
        request.services.sleep(pause_s)
        pause_s = min(pause_s * 1.5, LONGEST_WAIT_S)
        if request.services.clock() - said_s >= KEEP_ALIVE_S:
            said_s = request.services.clock()
            request.reply.keep_open()


REFUSED: Final = "mcp-baton/refused"
"""The member of a stored answer that says why the client refused to answer: in the handshake era it may."""


class TaskAsker:
    """The asker of a job.

    Args:
        job: The job, with what it has asked and what the client has answered.
        envelope: What is known of the client.
    """

    def __init__(self, job: Job, envelope: Envelope) -> None:
        self._job = job
        self._envelope = envelope

    def ask(self, questions: tuple[Question, ...]) -> list[JsonObject]:
        """The answers, if the client has given all of them.

        Raises:
            InputRequired: it has not.
            ToolError: it has not declared that it can answer, it has refused to, or an answer is no object.
            ValueError: a key has asked something else in this task.
        """
        for question in questions:
            self._check_key(question)
        missing = [question for question in questions if self._answer(question.key) is None]
        if missing:
            refuse_undeclared(self._envelope, missing)
            asked: dict[str, Json] = {item.key: {"method": item.method, "params": item.params} for item in missing}
            raise InputRequired({"inputRequests": asked})
        return [self._read(question) for question in questions]

    def _check_key(self, question: Question) -> None:
        before = self._job.asked.get(question.key)
        if before is None:
            return
        asks: dict[str, Json] = {"method": question.method, "params": question.params}
        if dumps(before, sort_keys=True) != dumps(asks, sort_keys=True):
            raise ValueError(
                f"question key {question.key!r}: it has asked something else in this task; give each its own"
            )

    def _answer(self, key: str) -> object:
        return self._job.answers.get(key, self._job.work.answers.get(key))

    def _read(self, question: Question) -> JsonObject:
        answer = self._answer(question.key)
        if not isinstance(answer, Mapping):
            raise ToolError(f"The client's answer to {question.key!r} is no object.", retryable=False)
        if REFUSED in answer:
            raise ToolError(f"The client refused {question.method}: {answer[REFUSED]}", retryable=False)
        return answer


def questions_of(required: InputRequired) -> dict[str, JsonObject]:
    """What a function asks that has ended so, by key."""
    asked = required.result["inputRequests"]
    found = asked if isinstance(asked, Mapping) else {}
    return {key: question for key, question in found.items() if isinstance(question, Mapping)}


logger = logging.getLogger(__name__)

NOT_OPEN = "Invalid request: there is no such question, or it was answered before"


class Taker(Struct, frozen=True):
    """Takes answers for tasks, and sends for the worker with the last one.

    Attributes:
        store: Where the tasks are.
        services: Invoke the worker.
    """

    store: TaskStore
    services: Services

    def take(self, owner: str, task_id: str, digest: str, response: Response) -> HttpResponse:
        """Give an answer to its task.

        Args:
            owner: Who has sent it.
            task_id: The task that has asked.
            digest: Of the question's key.
            response: The answer.

        Returns:
            What the client is told.
        """
        try:
            return self._taken(owner, task_id, digest, _answer(response))
        except (TaskNotFound, TaskFinished):
            return refusal(400, NOT_OPEN)
        except TooLarge:
            return refusal(413, "The answer is too large to be stored")
        except StoreError:
            logger.exception("task %s: an answer could not be stored", task_id)
            return refusal(503, "The answer could not be stored; send it again")

    def _taken(self, owner: str, task_id: str, digest: str, answer: JsonObject) -> HttpResponse:
        job = self.store.get(owner, task_id).job
        key = next((key for key in job.open if digest_of(key) == digest), None) if job else None
        task = None if key is None else self.store.jobs.answer(owner, task_id, {key: answer})
        if task is None:
            return refusal(400, NOT_OPEN)
        if task.status is TaskStatus.WORKING:
            dispatch(self.services, task)
        return HttpResponse(202)


def _answer(response: Response) -> JsonObject:
    if response.error is None:
        return response.result or {}
    message: Json = response.error.get("message")
    return {REFUSED: message if isinstance(message, str) and message else "it gave no reason"}


ASKED_FOR: Final = ("elicitation", "sampling", "roots")
"""The capabilities by which a client says what it can be asked for (MCP client/elicitation, sampling, roots)."""


def declared(envelope: Envelope) -> JsonObject | None:
    """What a client has declared that it can be asked for; `None` where that is not known."""
    if not envelope.is_known:
        return None
    return {name: envelope.capabilities[name] for name in ASKED_FOR if name in envelope.capabilities}


def envelope_of(work: JobSpec, token: str) -> Envelope:
    """The surroundings of a worker's request.

    Args:
        work: What it has to do.
        token: Under which the function's progress is taken.
    """
    era = Era.STATELESS if work.revision in STATELESS_REVISIONS else Era.HANDSHAKE
    known = work.capabilities is not None
    return Envelope(era, work.revision, {}, work.capabilities or {}, token, None, is_known=known)

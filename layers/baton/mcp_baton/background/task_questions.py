"""Questions of background tasks to the client.

In the handshake era they are requests of the server, on the streams of requests that read the task (MCP 2025-11-25,
basic/utilities/tasks, Input Required Status). The id of a question names its task, so any invocation can pass the
answer to the task, also when no request waits for it any more.
"""

from collections.abc import Mapping
from typing import Final

from mcp_baton.exceptions import StoreError, StoreUnavailable, ToolError
from mcp_baton.protocol.envelope import RELATED_TASK_KEY, SESSION_HEADER, STATELESS_REVISIONS, Envelope, Era
from mcp_baton.protocol.json import Json, JsonObject, dumps
from mcp_baton.tasks.answers import MAX_ANSWER_WAIT_S, growing_pauses
from mcp_baton.tasks.ids import new_task_question, sent_mark, short_digest
from mcp_baton.tasks.record import Job, JobSpec, TaskRecord, TaskStatus
from mcp_baton.tasks.store import TaskStore
from mcp_baton.tools.asking import REFUSED_KEY, ClientQuestion, InputRequired, refuse_undeclared
from mcp_baton.workflow.request import Request


def ask_open_questions(request: Request, task: TaskRecord) -> TaskRecord | None:
    """Send the open questions of a task, and wait for the answers: at most `question_ms`, and until the function's time
    is over. Returns the task after the answers; `None` if answers are missing, or the client cannot be asked here."""
    if request.store is None or not send_questions(request, task):
        return None
    began_s, pauses = request.services.clock(), growing_pauses()
    while request.services.clock() - began_s < request.services.settings.question_ms / 1000:
        remaining_s = request.left_s()
        if request.exchange.gone or (remaining_s is not None and remaining_s <= MAX_ANSWER_WAIT_S):
            return None
        if request.store.read_status(task.owner, task.task_id).status is not TaskStatus.INPUT_REQUIRED:
            return request.store.get(task.owner, task.task_id)
        request.pause(next(pauses))
    return None


def send_questions(request: Request, task: TaskRecord) -> bool:
    """Send the open questions of a task on the stream of this request, if the client can be asked here. A question that
    was sent recently is left out: otherwise each request would show the same form to the same person."""
    if request.store is None or request.stateless or not request.exchange.may_ask:
        return False
    if task.job is None or task.status is not TaskStatus.INPUT_REQUIRED:
        return False
    for key, question in task.job.open.items():
        if _is_due(request, request.store, task, key):
            identifier = new_task_question(task.task_id, key)
            request.exchange.request(identifier, str(question["method"]), _params(task, key, question))
    return True


def _is_due(request: Request, store: TaskStore, task: TaskRecord, key: str) -> bool:
    """Whether to send a question now, and mark it as sent. The mark is for this window of time and the next. So a
    question is repeated after one to two windows, because the client may have lost it; in another session, at once."""
    window_s = max(request.services.settings.question_ms // 1000, 1)
    window = request.now_ms() // 1000 // window_s
    session = request.headers.get(SESSION_HEADER.lower(), "")
    marks = [sent_mark(task.task_id, key, session, number) for number in (window, window + 1)]
    if not _set_mark(store, task.owner, marks[0], 2 * window_s):
        return False
    _set_mark(store, task.owner, marks[1], 3 * window_s)
    return True


def _set_mark(store: TaskStore, owner: str, mark: str, ttl_s: int) -> bool:
    try:
        store.answers.ask(owner, mark, ttl_s)
    except StoreUnavailable:
        raise
    except StoreError:
        return False
    return True


def _params(task: TaskRecord, key: str, question: JsonObject) -> JsonObject:
    """Return the params of a question, with the task's id, and with an id for a URL (MCP 2025-11-25,
    ElicitRequestURLParams)."""
    question_params = question["params"]
    params: dict[str, Json] = dict(question_params) if isinstance(question_params, dict) else {}
    if params.get("mode") == "url":
        params["elicitationId"] = f"{task.task_id}-{short_digest(key)}"
    return {**params, "_meta": {RELATED_TASK_KEY: {"taskId": task.task_id}}}


class TaskAsker:
    def __init__(self, job: Job, envelope: Envelope) -> None:
        self._job = job
        self._envelope = envelope

    def ask(self, questions: tuple[ClientQuestion, ...]) -> list[JsonObject]:
        for question in questions:
            self._check_key(question)
        missing = [question for question in questions if self._answer(question.key) is None]
        if missing:
            refuse_undeclared(self._envelope, missing)
            requests: dict[str, Json] = {item.key: {"method": item.method, "params": item.params} for item in missing}
            raise InputRequired({"inputRequests": requests})
        return [self._read(question) for question in questions]

    def _check_key(self, question: ClientQuestion) -> None:
        earlier = self._job.asked.get(question.key)
        if earlier is None:
            return
        request: dict[str, Json] = {"method": question.method, "params": question.params}
        if dumps(earlier, sort_keys=True) != dumps(request, sort_keys=True):
            raise ValueError(
                f"question key {question.key!r}: it has asked something else in this task; give each its own"
            )

    def _answer(self, key: str) -> object:
        return self._job.answers.get(key, self._job.work.answers.get(key))

    def _read(self, question: ClientQuestion) -> JsonObject:
        answer = self._answer(question.key)
        if not isinstance(answer, Mapping):
            raise ToolError(f"The client's answer to {question.key!r} is not an object.", retryable=False)
        if REFUSED_KEY in answer:
            raise ToolError(f"The client refused {question.method}: {answer[REFUSED_KEY]}", retryable=False)
        return answer


def questions_of(error: InputRequired) -> dict[str, JsonObject]:
    """Return the questions of a function that has ended with `InputRequired`, by key."""
    requests = error.result["inputRequests"]
    questions = requests if isinstance(requests, Mapping) else {}
    return {key: question for key, question in questions.items() if isinstance(question, Mapping)}


QUESTION_CAPABILITIES: Final = ("elicitation", "sampling", "roots")
"""The client capabilities that questions need (MCP client/elicitation, sampling, roots)."""


def question_capabilities(envelope: Envelope) -> JsonObject | None:
    """Return the capabilities for questions that a client has declared; `None` if they are unknown."""
    if not envelope.is_known:
        return None
    return {name: envelope.capabilities[name] for name in QUESTION_CAPABILITIES if name in envelope.capabilities}


def envelope_of(work: JobSpec, token: str) -> Envelope:
    """Return the envelope of a job: the one of the request that has created it."""
    era = Era.STATELESS if work.revision in STATELESS_REVISIONS else Era.HANDSHAKE
    is_known = work.capabilities is not None
    return Envelope(era, work.revision, {}, work.capabilities or {}, token, None, is_known=is_known)

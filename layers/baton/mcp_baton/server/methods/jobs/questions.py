"""A task's questions in the handshake era: requests of the server's, on the streams of requests that look after the
task (MCP 2025-11-25, basic/utilities/tasks, Input Required Status).

Nothing of them is kept but that they were sent: a question's id says of which task it is, and whichever invocation gets
the answer gives it to the task. So an answer that comes late, when nobody waits any more, is taken all the same.
"""

from collections.abc import Iterator

from mcp_baton.exceptions import StoreError, StoreUnavailable
from mcp_baton.protocol.envelope import RELATED_TASK_KEY
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.protocol.sessions import SESSION_HEADER
from mcp_baton.server.request import Request
from mcp_baton.server.running.worker import KEEP_ALIVE_S
from mcp_baton.tasks.answers import FIRST_WAIT_S, LONGEST_WAIT_S
from mcp_baton.tasks.ids import digest_of, new_task_question, sent_mark
from mcp_baton.tasks.record import TaskRecord, TaskStatus
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
        if request.store.look(task.owner, task.task_id).status is not TaskStatus.INPUT_REQUIRED:
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
    window_s = max(request.settings.question_ms // 1000, 1)
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
    begun_s = said_s = request.clock()
    pause_s = FIRST_WAIT_S
    while request.clock() - begun_s < request.settings.question_ms / 1000:
        left_s = request.left_s()
        if request.reply.gone or (left_s is not None and left_s <= LONGEST_WAIT_S):
            return
        yield
        request.sleep(pause_s)
        pause_s = min(pause_s * 1.5, LONGEST_WAIT_S)
        if request.clock() - said_s >= KEEP_ALIVE_S:
            said_s = request.clock()
            request.reply.keep_open()

"""Delivers a client's answer to the invocation or task that asked (revisions up to 2025-11-25)."""

import logging
from collections.abc import Callable

from mcp_baton.exceptions import StoreError, TaskFinished, TaskNotFound, TooLarge
from mcp_baton.protocol.http import HttpResponse
from mcp_baton.protocol.json import Json
from mcp_baton.protocol.jsonrpc import Response
from mcp_baton.tasks.ids import is_question, parse_task_question, short_digest
from mcp_baton.tasks.record import TaskRecord, TaskStatus
from mcp_baton.tasks.store import TaskStore
from mcp_baton.tools.asking import REFUSED_KEY
from mcp_baton.transport.exchange import refusal

logger = logging.getLogger(__name__)


type Hides = Callable[[TaskRecord], bool]
"""Whether the caller must not use a task."""

type Dispatch = Callable[[TaskRecord], object]
"""Sends a task to the worker."""


def deliver_answer(
    store: TaskStore | None, owner: str | None, response: Response, hides: Hides, dispatch: Dispatch
) -> HttpResponse:
    """Store an answer for the invocation that waits for it, or give it to the task that asked."""
    question = str(response.id)
    try:
        if store is None or owner is None:
            raise TaskNotFound
        if parse_task_question(question) is not None:
            _give_to_task(store, owner, response, hides, dispatch)
        elif is_question(question):
            answer: dict[str, Json] = (
                {"result": response.result} if response.error is None else {"error": response.error}
            )
            store.answers.answer(owner, question, answer)
        else:
            raise TaskNotFound
    except (TaskNotFound, TaskFinished):
        return refusal(400, "Invalid request: there is no such question, or it was answered before")
    except TooLarge:
        return refusal(413, "The answer is too large to be stored")
    except StoreError:
        logger.exception("the answer to %s could not be stored", question)
        return refusal(503, "The answer could not be stored; send it again")
    return HttpResponse(202)


def _give_to_task(store: TaskStore, owner: str, response: Response, hides: Hides, dispatch: Dispatch) -> None:
    """Pass an answer to its task, and invoke the worker after the last one."""
    task_id, digest = parse_task_question(str(response.id)) or ("", "")
    task = store.get(owner, task_id)
    job = None if hides(task) else task.job
    key = next((key for key in job.open if short_digest(key) == digest), None) if job else None
    if key is None:
        raise TaskNotFound
    if response.error is None:
        answer = response.result or {}
    else:
        message: Json = response.error.get("message")
        answer = {REFUSED_KEY: message if isinstance(message, str) and message else "it gave no reason"}
    answered_task = store.jobs.answer(owner, task_id, {key: answer})
    if answered_task is None:
        raise TaskNotFound
    if answered_task.status is TaskStatus.WORKING:
        dispatch(answered_task)

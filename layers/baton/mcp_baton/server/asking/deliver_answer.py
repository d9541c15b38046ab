"""Delivers a client's answer to the invocation or task that asked (revisions up to 2025-11-25)."""

import logging

from mcp_baton.exceptions import StoreError, TaskNotFound, TooLarge
from mcp_baton.protocol.http import HttpResponse
from mcp_baton.protocol.json import Json
from mcp_baton.protocol.jsonrpc import Response
from mcp_baton.server.access import refusal
from mcp_baton.server.services import Services
from mcp_baton.tasks.ids import asked_by, is_question
from mcp_baton.tasks.store import TaskStore

logger = logging.getLogger(__name__)


def take_answer(
    store: TaskStore | None,
    owner: str | None,
    response: Response,
    services: Services,
) -> HttpResponse:
    """Store an answer for the invocation that waits for it, or give it to the task that asked.

    Args:
        store: The store.
        owner: The sender of the answer.
        response: The answer.
        services: Invoke a worker for the task.

    Returns:
        The reply to the client.
    """
    asker = asked_by(str(response.id))
    if asker is not None and store is not None and owner is not None:
        from mcp_baton.server.background.questions import Taker

        return Taker(store, services).take(owner, *asker, response)
    if store is None or owner is None or not is_question(str(response.id)):
        return refusal(400, "Invalid request: there is no such question")
    answer: dict[str, Json] = {"result": response.result} if response.error is None else {"error": response.error}
    try:
        store.answers.answer(owner, str(response.id), answer)
    except TaskNotFound:
        return refusal(400, "Invalid request: there is no such question, or it was answered before")
    except TooLarge:
        return refusal(413, "The answer is too large to be stored")
    except StoreError:
        logger.exception("an answer could not be stored")
        return refusal(503, "The answer could not be stored; send it again")
    return HttpResponse(202)

"""A client's answer to a question that a task has asked it in the handshake era: see `questions`."""

import logging

from msgspec import Struct

from mcp_baton.exceptions import StoreError, TaskFinished, TaskNotFound, TooLarge
from mcp_baton.protocol.http import HttpResponse
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.protocol.jsonrpc import Response
from mcp_baton.server.access import refusal
from mcp_baton.server.methods.jobs.asker import REFUSED
from mcp_baton.server.methods.jobs.dispatching import dispatch
from mcp_baton.tasks.ids import digest_of
from mcp_baton.tasks.jobs import Dispatcher
from mcp_baton.tasks.record import TaskStatus
from mcp_baton.tasks.store import TaskStore
from mcp_baton.telemetry import Telemetry

logger = logging.getLogger(__name__)

NOT_OPEN = "Invalid request: nobody has asked this, or the answer is there already"


class Taker(Struct, frozen=True):
    """Takes answers for tasks, and sends for the worker with the last one.

    Attributes:
        store: Where the tasks are.
        dispatcher: Invokes the worker.
        telemetry: Where that is noted.
    """

    store: TaskStore
    dispatcher: Dispatcher | None
    telemetry: Telemetry

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
            dispatch(self, task)
        return HttpResponse(202)


def _answer(response: Response) -> JsonObject:
    if response.error is None:
        return response.result or {}
    message: Json = response.error.get("message")
    return {REFUSED: message if isinstance(message, str) and message else "it gave no reason"}

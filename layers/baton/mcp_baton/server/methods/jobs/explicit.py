"""A call whose function begins in its request, and says itself where its task begins (docs/background.md).

There the request creates the task with the answers that the client has given so far, and a worker calls the function
again.
"""

import logging

from mcp_baton.exceptions import ProtocolError, StoreError
from mcp_baton.protocol.codes import INTERNAL_ERROR
from mcp_baton.protocol.json import JsonObject
from mcp_baton.server.asking.asker import TaskBegins
from mcp_baton.server.methods.jobs.creating import as_created, begun, created
from mcp_baton.server.methods.tools import outcome_of, result_of
from mcp_baton.server.published.tool import Tool
from mcp_baton.server.request import Request
from mcp_baton.server.running.runner import Surroundings

logger = logging.getLogger(__name__)


def until_it_begins(request: Request, tool: Tool, arguments: JsonObject) -> JsonObject:
    """Call a function until its task begins.

    Returns:
        The task; what the call has come to where the function has ended without one.

    Raises:
        InputRequired: the client must answer first.
        CallerGone: the client went away.
        ProtocolError: the function wants the request answered with it, or the task could not be created.
    """
    try:
        outcome = outcome_of(request, tool, arguments, Surroundings(starts_task=True))
    except TaskBegins as begins:
        return begun(request, tool, arguments, answers=begins.answers, key=begins.key)
    result = result_of(tool, outcome)
    return result if request.stateless else _over_at_once(request, tool, arguments, result)


def _over_at_once(request: Request, tool: Tool, arguments: JsonObject, result: JsonObject) -> JsonObject:
    """The task of a call that has ended already. Whoever asks for a task in the handshake era takes nothing else
    (MCP 2025-11-25, basic/utilities/tasks, Creating Tasks).

    Where its result cannot be stored nobody is sent for, and the client never learns of the task: the call was made.
    """
    task = created(request, tool, arguments)
    if request.store is None:
        return as_created(request, task)
    try:
        return as_created(request, request.store.complete(task.owner, task.task_id, result))
    except StoreError as error:
        correlation_id = request.exchange.request_id
        logger.exception("request %s: the result of %s could not be stored", correlation_id, tool.name)
        message = "The call was made, but its result could not be stored"
        raise ProtocolError(INTERNAL_ERROR, message, {"correlationId": correlation_id}) from error

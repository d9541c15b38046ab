"""A task's stored value as a resource: whole, to its owner alone, and never listed (docs/storage.md)."""

import logging

from mcp_baton.exceptions import ProtocolError, StoreError, StoreUnavailable, TaskNotFound
from mcp_baton.protocol.budget import ANSWER_BYTES
from mcp_baton.protocol.codes import INTERNAL_ERROR, INVALID_REQUEST
from mcp_baton.protocol.json import Json, JsonObject, dumps, escaped
from mcp_baton.server.methods.task_values import result_mark
from mcp_baton.server.published.own_uris import value_at
from mcp_baton.server.request import Request
from mcp_baton.tasks.record import TaskRecord
from mcp_baton.tasks.texts import VALUE_BYTES
from mcp_baton.tasks.values import FINAL_RESULT, text_of, weight_of

logger = logging.getLogger(__name__)


def stored_text(request: Request, uri: str) -> tuple[str, JsonObject] | None:
    """The JSON text of the value at one of Baton's own URIs, or what stands for it until it is written in pieces; and
    what `_meta` says of it.

    Returns:
        `None` where this caller has no such value: it is unknown, expired or another's, which are one and the same.

    Raises:
        ProtocolError: it is too long to be read, or cannot be read.
    """
    place = value_at(uri)
    if place is None or request.store is None or request.owner is None:
        return None
    task_id, name = place
    try:
        task = request.store.get(request.owner, task_id)
        text = _text(request, task, name, uri)
        return None if text is None else (text, result_mark(task) if name == FINAL_RESULT else {})
    except TaskNotFound:
        return None
    except StoreUnavailable as error:
        logger.exception("request %s: %s cannot be read", request.exchange.request_id, uri)
        message = "The task store is not available. Send the same request again."
        raise ProtocolError(INTERNAL_ERROR, message, {"correlationId": request.exchange.request_id}) from error
    except StoreError as error:
        raise ProtocolError(INTERNAL_ERROR, f"Reading {uri} failed: {error}") from error


def _text(request: Request, task: TaskRecord, name: str, uri: str) -> str | None:
    weight = weight_of(task, name)
    if weight is None:
        return None
    if weight.text_bytes > VALUE_BYTES:
        raise _too_long(uri, weight.text_bytes, f"at most {VALUE_BYTES} can be read")
    room = request.budget.unread if request.reply.takes_pieces else request.budget.shown
    if weight.text_bytes > room:
        raise _no_room(uri, weight.text_bytes)
    request.budget.read(weight.text_bytes)
    # Read through once to the end before the answer begins: what is damaged is an error, not half an answer.
    length = sum(len(escaped(piece).encode()) for piece in text_of(task, name))
    if length + 2 * len(dumps(uri).encode()) <= request.budget.left:
        return "".join(text_of(task, name))
    if request.reply.takes_pieces:
        return request.reply.in_pieces(text_of(task, name))
    raise _no_room(uri, weight.text_bytes)


def _no_room(uri: str, text_bytes: int) -> ProtocolError:
    remedy = f"more than an answer of {ANSWER_BYTES} holds travels only as a stream of its own"
    return _too_long(uri, text_bytes, f"{remedy}: send the request by itself, with `Accept: text/event-stream`")


def _too_long(uri: str, text_bytes: int, cause: str) -> ProtocolError:
    data: Json = {"uri": uri, "bytes": text_bytes}
    return ProtocolError(INVALID_REQUEST, f"{uri} has {text_bytes} bytes; {cause}", data)

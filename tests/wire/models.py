"""Messages against the official models (`mcp-types`) of their revision."""

import json
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import mcp_types
from mcp_types import methods
from mcp_types.jsonrpc import jsonrpc_message_adapter
from pydantic import TypeAdapter, ValidationError

from tests.wire import extension
from tests.wire.message import TASKS_REVISION, Sent

TASK_RESULTS: Mapping[str, type[mcp_types.Result]] = MappingProxyType(
    {
        "tasks/get": mcp_types.GetTaskResult,
        "tasks/list": mcp_types.ListTasksResult,
        "tasks/cancel": mcp_types.CancelTaskResult,
        "tasks/result": mcp_types.GetTaskPayloadResult,
    }
)
"""Revision 2025-11-25: the official maps leave `tasks/*` out, the models are there."""

EXTENSION_RESULTS: Mapping[str, TypeAdapter[Any]] = MappingProxyType(
    {
        "tasks/get": TypeAdapter(extension.Told),
        "tasks/update": TypeAdapter(extension.Acknowledgement),
        "tasks/cancel": TypeAdapter(extension.Acknowledgement),
    }
)


NOTIFICATION_OF_TASKS = "notifications/tasks"


def complaints(sent: Sent) -> list[str]:
    """What the models say against a message; nothing when it is right."""
    try:
        jsonrpc_message_adapter.validate_python(sent.message)
        _validate(_writable(sent))
    except ValidationError as error:
        return [f"models {sent.revision}: {found['loc']}: {found['msg']}" for found in error.errors()]
    except KeyError as error:
        return [f"models {sent.revision}: the revision has no {error}"]
    return []


def _writable(sent: Sent) -> Sent:
    """The message without lone surrogates: JSON can say them, and the models cannot write what they have read."""
    text = json.dumps(sent.message, ensure_ascii=False)
    return replace(sent, message=json.loads(text.encode(errors="replace")))


def _validate(sent: Sent) -> None:
    if sent.stateless and sent.message.get("method") == NOTIFICATION_OF_TASKS:
        _validate_notification(sent.message["params"])
    elif "method" in sent.message:
        parse = methods.parse_server_request if "id" in sent.message else methods.parse_server_notification
        parse(sent.message["method"], sent.revision, sent.message.get("params"))
    elif sent.result is not None and sent.method is not None:
        _validate_result(sent, sent.method, sent.result)


def _validate_notification(params: dict[str, Any]) -> None:
    """A task as `tasks/get` tells it, without what makes that a result."""
    if "resultType" in params:
        raise KeyError("resultType", NOTIFICATION_OF_TASKS)
    EXTENSION_RESULTS["tasks/get"].validate_python({**params, "resultType": "complete"})


def _validate_result(sent: Sent, method: str, result: dict[str, Any]) -> None:
    if sent.stateless and sent.makes_task:
        extension.Created.model_validate(result)
    elif sent.makes_task:
        mcp_types.CreateTaskResult.model_validate(result, by_name=False)
    elif sent.stateless and method in EXTENSION_RESULTS:
        EXTENSION_RESULTS[method].validate_python(result)
    elif sent.revision == TASKS_REVISION and method in TASK_RESULTS:
        TASK_RESULTS[method].model_validate(result, by_name=False)
    else:
        methods.parse_server_result(method, sent.revision, result)

"""The MCP methods: one module for each family, and the table of the methods of each era.

A family is imported when one of its methods is first called. So the first list does not import the engine.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType

from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.envelope import Era
from mcp_baton.protocol.json import JsonObject
from mcp_baton.protocol.jsonrpc import METHOD_NOT_FOUND
from mcp_baton.workflow.request import Request

type Method = Callable[[Request], JsonObject]

_COMMON_METHODS: Mapping[str, str] = {
    "tools/list": "lists.list_tools",
    "tools/call": "tools.call_tool",
    "prompts/list": "lists.list_prompts",
    "prompts/get": "prompts.get_prompt",
    "resources/list": "lists.list_resources",
    "resources/templates/list": "lists.list_resource_templates",
    "resources/read": "resources.read_resource",
    "completion/complete": "completion.complete",
    "tasks/get": "tasks.get_task",
    "tasks/cancel": "tasks.cancel_task",
}
METHODS: Mapping[Era, Mapping[str, str]] = MappingProxyType(
    {
        Era.HANDSHAKE: {
            **_COMMON_METHODS,
            "initialize": "lifecycle.initialize",
            "ping": "lifecycle.ping",
            "logging/setLevel": "lifecycle.set_log_level",
            "resources/subscribe": "resources.subscribe",
            "resources/unsubscribe": "resources.subscribe",
            "tasks/list": "tasks.list_tasks",
            "tasks/result": "tasks.task_result",
        },
        Era.STATELESS: {
            **_COMMON_METHODS,
            "server/discover": "lifecycle.discover",
            "subscriptions/listen": "subscriptions.listen",
            "tasks/update": "tasks.update_task",
        },
    }
)
"""The methods of each era: their modules in this package and functions."""

_methods: dict[str, Method] = {}


def method_of(era: Era, name: str) -> Method | None:
    path = METHODS[era].get(name)
    if path is None:
        return None
    if path not in _methods:
        module, _, function = path.partition(".")
        _methods[path] = getattr(import_module(f"{__name__}.{module}"), function)
    return _methods[path]


def call_method(request: Request) -> JsonObject:
    method = method_of(request.envelope.era, request.message.method)
    if method is None:
        raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {request.message.method}")
    return method(request)

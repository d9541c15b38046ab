"""The MCP methods: one module a family, and here the table of them for each era."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from mcp_baton.protocol.envelope import Era
from mcp_baton.protocol.json import JsonObject
from mcp_baton.server.methods import completion, lifecycle, lists, prompts, resources, subscriptions, tasks, tools
from mcp_baton.server.request import Request

type Method = Callable[[Request], JsonObject]

_BOTH: Mapping[str, Method] = {
    "tools/list": lists.list_tools,
    "tools/call": tools.call_tool,
    "prompts/list": lists.list_prompts,
    "prompts/get": prompts.get_prompt,
    "resources/list": lists.list_resources,
    "resources/templates/list": lists.list_resource_templates,
    "resources/read": resources.read_resource,
    "completion/complete": completion.complete,
    "tasks/get": tasks.get_task,
    "tasks/cancel": tasks.cancel_task,
}
METHODS: Mapping[Era, Mapping[str, Method]] = MappingProxyType(
    {
        Era.HANDSHAKE: {
            **_BOTH,
            "initialize": lifecycle.initialize,
            "ping": lifecycle.ping,
            "logging/setLevel": lifecycle.set_log_level,
            "resources/subscribe": resources.subscribe,
            "resources/unsubscribe": resources.subscribe,
            "tasks/list": tasks.list_tasks,
            "tasks/result": tasks.task_result,
        },
        Era.STATELESS: {
            **_BOTH,
            "server/discover": lifecycle.discover,
            "subscriptions/listen": subscriptions.listen,
            "tasks/update": tasks.update_task,
        },
    }
)
"""The methods of each era."""

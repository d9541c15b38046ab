"""The lists of tools, prompts and resources (MCP server/tools, server/prompts, server/resources)."""

import binascii
import logging
from collections.abc import Sequence
from typing import Final

from mcp_baton.exceptions import RegistrationError
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.protocol.jsonrpc import InvalidParams
from mcp_baton.tools.labels import Labels
from mcp_baton.tools.prompt import definition_of_prompt
from mcp_baton.tools.published_schema import definition_with_approval
from mcp_baton.tools.tool import TaskSupport, Tool
from mcp_baton.workflow.request import Request

logger = logging.getLogger(__name__)

ENTRIES_PER_PAGE: Final = 200
"""Entries on one page of a list."""

LIST_TTL_MS: Final = 300_000
"""How long a client may cache a list, milliseconds: lists change only with a deployment."""


def list_tools(request: Request) -> JsonObject:
    """List the tools, then the tools of workflows, each in the order of registration."""
    server = request.server
    with_task_id, with_approval = server.tools_with_task_id, server.tools_with_approval
    definitions: list[Json] = []
    for name, tool in server.tools.items():
        definition = _definition(tool, with_task_id=name in with_task_id, with_approval=name in with_approval)
        if definition is not None:
            definitions.append(_with_execution(request, definition, tool.tasks))
    workflow_tools = list(filter(None, map(server.workflow_tool, server.workflow_tool_names)))
    for_apps = bool(workflow_tools) and request.envelope.shows_apps
    definitions += [
        _with_execution(request, item.definition_for_apps if for_apps else item.definition, item.tasks)
        for item in workflow_tools
    ]
    return _page(request, "tools", definitions, private=for_apps)


def _definition(tool: Tool, *, with_task_id: bool, with_approval: bool) -> JsonObject | None:
    """Return the definition of a tool. `None` if it is invalid: the other tools are listed anyway. An invalid tool
    cannot be called either, and `Server.check()` reports it."""
    try:
        definition = tool.definition_with_task_id if with_task_id else tool.definition
        return definition_with_approval(definition) if with_approval else definition
    except RegistrationError as error:
        logger.warning("left out of tools/list: %s", error)
        return None


def _with_execution(request: Request, definition: JsonObject, tasks: TaskSupport) -> JsonObject:
    """Add to a definition whether calls may run as tasks. The 2026 era has no such member."""
    can_be_task = tasks.support != "forbidden" and request.has_workers and not request.stateless
    return {**definition, "execution": tasks.execution} if can_be_task else definition


def list_prompts(request: Request) -> JsonObject:
    """List the prompts, then the workflows, each in the order of registration."""
    server = request.server
    definitions = [definition_of_prompt(item.name, item.labels, item.arguments) for item in server.prompts.values()]
    for workflow in server.workflows.values():
        labels = Labels(title=workflow.title, description=workflow.description)
        definitions.append(definition_of_prompt(workflow.name, labels, server.prompt_arguments(workflow)))
    return _page(request, "prompts", definitions)


def list_resources(request: Request) -> JsonObject:
    definitions = [resource.definition for resource in request.server.resources.values() if not resource.is_template]
    return _page(request, "resources", definitions)


def list_resource_templates(request: Request) -> JsonObject:
    definitions = [resource.definition for resource in request.server.resources.values() if resource.is_template]
    return _page(request, "resourceTemplates", definitions)


def cacheable(request: Request, result: dict[str, Json], *, private: bool = False) -> dict[str, Json]:
    """Mark a result as cacheable (MCP server/utilities/caching): for all callers, or only for this one if it depends on
    scopes or on the client's capabilities."""
    private = private or request.server.is_filtered
    return result | {"ttlMs": LIST_TTL_MS, "cacheScope": "private" if private else "public"}


def _page(request: Request, key: str, entries: Sequence[Json], *, private: bool = False) -> JsonObject:
    start = _position(request.params.get("cursor"), len(entries))
    result: dict[str, Json] = {key: list(entries[start : start + ENTRIES_PER_PAGE])}
    if start + ENTRIES_PER_PAGE < len(entries):
        result["nextCursor"] = binascii.b2a_base64(str(start + ENTRIES_PER_PAGE).encode(), newline=False).decode()
    return cacheable(request, result, private=private) if request.stateless else result


def _position(cursor: Json, length: int) -> int:
    if cursor in (None, ""):
        return 0
    try:
        position = int(binascii.a2b_base64(str(cursor), strict_mode=True)) if isinstance(cursor, str) else -1
    except ValueError:
        position = -1
    if not 0 < position < length or position % ENTRIES_PER_PAGE:
        raise InvalidParams("`cursor` was not returned by this list")
    return position

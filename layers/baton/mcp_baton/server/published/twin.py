"""A durable workflow published as a tool: its twin, for hosts whose model can only call tools (docs/workflows.md).

A list shows it, so it knows neither the engine nor pydantic; running it is `server.methods.twins`.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.published.own_uris import APP_URI
from mcp_baton.server.published.task_support import NO_TASK, TaskSupport
from mcp_baton.server.published.tool import Tool
from mcp_baton.server.schema.argument_schemas import argument_schemas, takes_null
from mcp_baton.workflow.definition import Argument, Workflow
from mcp_baton.workflow.names import TASK_ACTION, TASK_ID, TASK_RESULT
from mcp_baton.workflow.purpose import described, title_of

REQUIRED: Final = "required unless task_id is given"
TO_GO_ON: Final = "The task_id of an earlier result, to go on with that task. Leave it out to start anew."

_STEP: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "status": {"type": "string", "enum": ["pending", "completed", "failed", "skipped"]},
    },
    "required": ["name", "status"],
}
_NEXT: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "tool": {"type": "string"},
        "arguments": {"type": "object"},
        "guidance": {"type": "string"},
        "resource": {"type": "string"},
    },
}
OUTPUT_PROPERTIES: Final[JsonObject] = {
    "message": {"type": "string", "description": "What happened, and what to do next: the content's text."},
    "task_id": {"type": "string"},
    "task_status": {
        "type": "string",
        "enum": ["working", "input_required", "completed", "failed", "cancelled"],
    },
    "steps": {"type": "array", "items": _STEP},
    "pause_reason": {"type": "object", "properties": {"type": {"type": "string"}}, "required": ["type"]},
    "results": {
        "type": "object",
        "description": "The value of each completed step; {bytes, uri} for one that is long.",
    },
    "next": {"type": "array", "items": _NEXT, "description": "What remains, in order."},
    "warning": {"type": "string", "description": "Which steps may have run more than once."},
    "running_until": {"type": "string", "description": "Until when another run holds the task."},
}
OUTPUT_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "properties": OUTPUT_PROPERTIES,
    "required": ["message", "steps", "results", "next"],
}
"""Of a twin's structured content; a run without a task has neither `task_id` nor `task_status`."""

ACTIONS: Final = ("show", "list", "cancel", "complete")
_ACTION: Final[JsonObject] = {
    "type": "string",
    "enum": list(ACTIONS),
    "description": "What to do instead of running: show the task, list all tasks, cancel the task, or complete it.",
}
_RESULT: Final[JsonObject] = {"type": "object", "description": "The result of a task that is completed so."}
_BOARD: Final[JsonObject] = {"type": "object", "description": "The task as its page shows it."}
_TASKS: Final[JsonObject] = {"type": "array", "items": {"type": "object"}, "description": "The newest tasks."}


class Twin:
    """A workflow as a tool.

    Args:
        workflow: The workflow, checked: each step has the name of its tool.
        tools: The server's tools by name.
    """

    def __init__(self, workflow: Workflow, tools: Mapping[str, Tool]) -> None:
        self.workflow = workflow
        self._tools = tools

    @property
    def name(self) -> str:
        """How it is called: as the workflow is."""
        return self.workflow.name

    @cached_property
    def tasks(self) -> TaskSupport:
        """How a call may run as a task of its own. A run that was killed is not repeated where a step's tool must not
        be (docs/background.md)."""
        if not self.workflow.background:
            return NO_TASK
        idempotent = all(self._tools[step.tool].tasks.idempotent for step in self.workflow.steps if step.tool)
        return TaskSupport("optional", idempotent)

    @cached_property
    def definition(self) -> dict[str, Json]:
        """The twin as `tools/list` shows it (MCP server/tools, Tool)."""
        return {
            "name": self.workflow.name,
            "title": title_of(self.workflow),
            "description": described(self.workflow, lambda tool: self._tools[tool].summary),
            "annotations": self._annotations,
            "inputSchema": self.input_schema,
            "outputSchema": OUTPUT_SCHEMA,
            "_meta": {"ui": {"resourceUri": APP_URI}},
        }

    @cached_property
    def definition_for_apps(self) -> JsonObject:
        """The same for a client that shows pages: with what else the page of the tasks calls it for
        (docs/console.md)."""
        schema = self.input_schema
        properties = schema["properties"]
        more = dict(properties) if isinstance(properties, Mapping) else {}
        returned: JsonObject = {**OUTPUT_PROPERTIES, "board": _BOARD, "tasks": _TASKS}
        return {
            **self.definition,
            "inputSchema": {**schema, "properties": {**more, TASK_ACTION: _ACTION, TASK_RESULT: _RESULT}},
            "outputSchema": {**OUTPUT_SCHEMA, "properties": returned},
        }

    @property
    def input_schema(self) -> dict[str, Json]:
        """One flat object, in which nothing is required: with `task_id`, no argument is."""
        schemas, definitions = argument_schemas(self.workflow.arguments)
        properties: dict[str, Json] = {
            argument.name: _property(argument, schemas[argument.name]) for argument in self.workflow.arguments
        }
        properties[TASK_ID] = {"type": "string", "description": TO_GO_ON}
        made: dict[str, Json] = {"type": "object", "properties": properties, "additionalProperties": False}
        return {"$defs": definitions, **made} if definitions else made

    @cached_property
    def without_null(self) -> frozenset[str]:
        """The arguments of whose types null is no value: null counts as absent there."""
        return frozenset(argument.name for argument in self.workflow.arguments if not takes_null(argument))

    @property
    def _annotations(self) -> dict[str, Json]:
        """What the tools of all steps say of themselves (MCP server/tools, ToolAnnotations, whose defaults hold)."""
        hints = [self._tools[step.tool].labels.annotations or {} for step in self.workflow.steps if step.tool]
        writing = [hint for hint in hints if hint.get("readOnlyHint") is not True]
        made: dict[str, Json] = {"readOnlyHint": not writing}
        if writing:
            made["destructiveHint"] = any(hint.get("destructiveHint") is not False for hint in writing)
            made["idempotentHint"] = all(hint.get("idempotentHint") is True for hint in writing)
        return made | {"openWorldHint": any(hint.get("openWorldHint") is not False for hint in hints)}


def _property(argument: Argument, schema: Mapping[str, Any]) -> dict[str, Json]:
    parts = [argument.shown_description.rstrip("."), *([REQUIRED] if argument.required else [])]
    description = "; ".join(part for part in parts if part)
    made: dict[str, Json] = dict(schema)
    if description:
        made["description"] = description
    return made | ({} if argument.default is None else {"default": argument.default})

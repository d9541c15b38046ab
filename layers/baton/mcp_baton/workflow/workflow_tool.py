"""Workflows as tools: their description and schemas (docs/workflows.md, As a tool). Pure."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tools.arguments import TASK_ARGUMENT, TASK_ID, Argument
from mcp_baton.tools.published_schema import optional_parameter, published
from mcp_baton.tools.quoting import quoted_error
from mcp_baton.tools.resource import APP_URI
from mcp_baton.tools.schema.plain import Definitions, NotPlain, plain_type
from mcp_baton.tools.schema.prompt_arguments import canonical_argument, convert, is_empty, named
from mcp_baton.tools.schema.schema import schema_generator
from mcp_baton.tools.tool import TaskSupport, Tool
from mcp_baton.workflow.definition import ANSWERS, TASK_ACTION, TASK_RESULT, Workflow
from mcp_baton.workflow.refusals import InvalidToolArguments
from mcp_baton.workflow.steps.question import Question
from mcp_baton.workflow.steps.step import Step
from mcp_baton.workflow.steps.wait import Wait

if TYPE_CHECKING:
    from pydantic.json_schema import JsonSchemaMode

MAX_DESCRIPTION_CHARS: Final = 599
"""The longest description, characters. It costs tokens in each conversation."""

MAX_GOAL_CHARS: Final = 200
MAX_SUMMARY_CHARS: Final = 80
MAX_TITLE_CHARS: Final = 60

_ENDING: Final = (
    "It may pause, for instance where a step fails or a value is missing. The result then says which calls remain and "
    "gives a task_id: make those calls, or call this tool again with task_id alone to let the server continue."
)

type Summarise = Callable[[str], str]
"""Takes a tool's name and returns its summary in one line; empty if there is none."""


def title_of(workflow: Workflow) -> str:
    return workflow.title or shorten(_sentence(workflow.description).rstrip("."), MAX_TITLE_CHARS) or workflow.name


def describe_workflow(workflow: Workflow, summarise: Summarise) -> str:
    """Return the description for models: the steps, that the workflow may pause, and how to continue."""
    goal = shorten(_sentence(workflow.description), MAX_GOAL_CHARS)
    count = len(workflow.steps)
    intro = f"{goal} The server runs {count} {'step' if count == 1 else 'steps'}:".lstrip()
    longest = MAX_DESCRIPTION_CHARS - len(intro) - len(_ENDING) - 2
    summaries = [f"{number}. {_describe_step(step, summarise)}" for number, step in enumerate(workflow.steps, 1)]
    names = [f"{number}. {shorten(step.name, MAX_SUMMARY_CHARS)}." for number, step in enumerate(workflow.steps, 1)]
    steps = _join_if_fits(summaries, longest) or _join_if_fits(names, longest) or _join_first(names, longest)
    return f"{intro} {steps} {_ENDING}"


def shorten(text: str, longest: int) -> str:
    line = " ".join(text.split())
    if len(line) <= longest:
        return line
    words = line[: longest - 1].rpartition(" ")[0] or line[: longest - 2]
    return f"{words.rstrip(' ,;:.')} …"


def _sentence(text: str) -> str:
    line = " ".join(text.split()).rstrip(".")
    return f"{line[0].upper()}{line[1:]}." if line else ""


def _describe_step(step: Step, summarise: Summarise) -> str:
    name = shorten(step.name, MAX_SUMMARY_CHARS)
    if isinstance(step, Question):
        text = f"asks {'the user' if step.of == 'user' else 'you'}: {step.question}"
    elif isinstance(step, Wait):
        text = step.wait_text
    else:
        text = f"read {', '.join(step.resources)}" if step.tool is None else summarise(step.tool)
    summary = shorten(text, MAX_SUMMARY_CHARS).rstrip(".")
    return f"{name}: {summary}." if summary else f"{name}."


def _join_if_fits(parts: list[str], longest: int) -> str:
    text = " ".join(parts)
    return text if len(text) <= longest else ""


def _join_first(parts: list[str], longest: int) -> str:
    """Join the parts that fit, and say how many are left out."""
    text = ""
    for index, part in enumerate(parts):
        ending = f"… and {len(parts) - index} more."
        longer_text = f"{text}{part} "
        if len(longer_text) + len(ending) > longest:
            return f"{text}{ending}"
        text = longer_text
    return text.rstrip()


type Schemas = dict[str, dict[str, Any]]


def argument_schemas(arguments: Sequence[Argument]) -> tuple[Schemas, Schemas]:
    definitions = Definitions()
    schemas: Schemas = {}
    try:
        for argument in arguments:
            plain = plain_type(argument.type)
            if plain is None:
                return _pydantic_schemas(arguments)
            schemas[argument.name] = plain.schema(definitions)
    except NotPlain:
        return _pydantic_schemas(arguments)
    return schemas, definitions.schemas


def takes_null(argument: Argument) -> bool:
    plain = plain_type(argument.type)
    if plain is not None:
        return plain.takes_null
    try:
        convert(None, argument.type)
    except Exception:  # noqa: BLE001 - a validator of the author may raise anything
        return False
    return True


def _pydantic_schemas(arguments: Sequence[Argument]) -> tuple[Schemas, Schemas]:
    """Let pydantic create the schemas. A type without a JSON Schema gets an empty one: `convert` then reports invalid
    values."""
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    adapters: list[tuple[str, JsonSchemaMode, TypeAdapter[Any]]] = []
    for argument in arguments:
        try:
            adapter = TypeAdapter(argument.type)
            adapter.json_schema(mode="validation")
        except PydanticUserError:
            continue
        adapters.append((argument.name, "validation", adapter))
    pydantic_schemas, root = TypeAdapter.json_schemas(adapters, schema_generator=schema_generator())
    schemas = {name: _untitled(schema) for (name, _), schema in pydantic_schemas.items()}
    definitions = {name: _untitled(schema) for name, schema in root.get("$defs", {}).items()}
    return {argument.name: schemas.get(argument.name, {}) for argument in arguments}, definitions


def _untitled(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key != "title"}


REQUIRED: Final = "required unless task_id is given"

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
        "task_id": {"type": "string"},
        "guidance": {"type": "string"},
        "resource": {"type": "string"},
    },
}
_REASON: Final[JsonObject] = {"type": "object", "properties": {"type": {"type": "string"}}, "required": ["type"]}
OUTPUT_PROPERTIES: Final[JsonObject] = {
    "message": {"type": "string", "description": "What happened, and what to do next: the content's text."},
    "task_id": {"type": "string"},
    "task_status": {
        "type": "string",
        "enum": ["working", "input_required", "completed", "failed", "cancelled"],
    },
    "steps": {"type": "array", "items": _STEP},
    "pause_reason": _REASON,
    "pause_reasons": {"type": "array", "items": _REASON, "description": "Of all stopped steps, if there are several."},
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
"""The schema of the structured content. A run without a task has neither `task_id` nor `task_status`."""

ACTIONS: Final = ("show", "list", "cancel", "complete")
_ACTION: Final[dict[str, Any]] = {
    "type": "string",
    "enum": list(ACTIONS),
    "description": "What to do instead of running: show the task, list all tasks, cancel the task, or complete it.",
}
_RESULT: Final[dict[str, Any]] = {"type": "object", "description": "The result to complete the task with."}
_BOARD: Final[JsonObject] = {"type": "object", "description": "The task as its page shows it."}
_TASKS: Final[JsonObject] = {"type": "array", "items": {"type": "object"}, "description": "The newest tasks."}


class WorkflowTool:
    def __init__(self, workflow: Workflow, tools: Mapping[str, Tool]) -> None:
        self.workflow = workflow
        self._tools = tools

    @property
    def name(self) -> str:
        return self.workflow.name

    @cached_property
    def tasks(self) -> TaskSupport:
        """How a call may run in the background. An event starts any workflow there. A killed run is only repeated if
        all its tools are idempotent (docs/background.md)."""
        idempotent = all(self._tools[step.tool].tasks.idempotent for step in self.workflow.steps if step.tool)
        return TaskSupport("optional" if self.workflow.background else "forbidden", idempotent)

    @cached_property
    def _hints(self) -> list[JsonObject]:
        return [self._tools[step.tool].labels.annotations or {} for step in self.workflow.steps if step.tool]

    @property
    def only_reads(self) -> bool:
        """Whether all its tools have `readOnlyHint`."""
        return all(hint.get("readOnlyHint") is True for hint in self._hints)

    @cached_property
    def definition(self) -> dict[str, Json]:
        hints = self._hints
        writing_hints = [hint for hint in hints if hint.get("readOnlyHint") is not True]
        annotations: dict[str, Json] = {"readOnlyHint": not writing_hints}
        if writing_hints:
            annotations["destructiveHint"] = any(hint.get("destructiveHint") is not False for hint in writing_hints)
            annotations["idempotentHint"] = all(hint.get("idempotentHint") is True for hint in writing_hints)
        annotations["openWorldHint"] = any(hint.get("openWorldHint") is not False for hint in hints)
        return {
            "name": self.workflow.name,
            "title": title_of(self.workflow),
            "description": describe_workflow(self.workflow, lambda tool: self._tools[tool].summary),
            "annotations": annotations,
            "inputSchema": self.input_schema,
            "outputSchema": OUTPUT_SCHEMA,
            "_meta": {"ui": {"resourceUri": APP_URI}},
        }

    @cached_property
    def definition_for_apps(self) -> JsonObject:
        """The definition for a client that shows pages, with the arguments that the page uses (docs/console.md)."""
        schema: dict[str, Any] = self.input_schema
        actions = {TASK_ACTION: optional_parameter(_ACTION), TASK_RESULT: optional_parameter(_RESULT)}
        output_properties: JsonObject = {**OUTPUT_PROPERTIES, "board": _BOARD, "tasks": _TASKS}
        return {
            **self.definition,
            "inputSchema": {**schema, "properties": {**schema["properties"], **actions}},
            "outputSchema": {**OUTPUT_SCHEMA, "properties": output_properties},
        }

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        """The input schema. Nothing is required, because a call with `task_id` needs no other argument."""
        questions = self.workflow.questions
        schemas, definitions = argument_schemas((*self.workflow.arguments, *questions))
        properties: dict[str, Json] = {
            argument.name: _property(argument, schemas[argument.name]) for argument in self.workflow.arguments
        }
        if questions:
            answers: dict[str, Json] = {item.name: _property(item, schemas[item.name]) for item in questions}
            text = "Answers to the workflow's questions, if they are known. The result says which questions are open."
            properties[ANSWERS] = {
                "type": "object",
                "description": text,
                "properties": answers,
            }
        properties[TASK_ID] = {"type": "string", "description": TASK_ARGUMENT.description}
        return published({"$defs": definitions, "type": "object", "properties": properties})

    def canonical(self, arguments: JsonObject) -> dict[str, Json]:
        """Return the arguments of a first call in one form, so that equal calls have equal ones: with the declared
        defaults, with converted numbers and booleans, and without empty answers."""
        given = {item.name: arguments.get(item.name, item.default) for item in self.workflow.arguments}
        canonical: dict[str, Json] = {
            item.name: canonical_argument(item, given[item.name])
            for item in self.workflow.arguments
            if given[item.name] is not None or item.default is not None
        }
        answers = arguments.get(ANSWERS)
        if not isinstance(answers, Mapping):
            return canonical
        questions = {question.name: question for question in self.workflow.questions}
        given_answers: JsonObject = {
            name: canonical_argument(questions[name], value) if name in questions else value
            for name, value in answers.items()
            if not is_empty(value)
        }
        return canonical | ({ANSWERS: given_answers} if given_answers else {})

    @cached_property
    def without_null(self) -> frozenset[str]:
        """The arguments whose type does not accept null. For these, null counts as missing."""
        return frozenset(argument.name for argument in self.workflow.arguments if not takes_null(argument))

    def first_arguments(self, arguments: JsonObject, *, of_event: bool = False) -> dict[str, Json]:
        """Return the arguments of a call or an event that starts a task, without those that count as left out. Raises
        `InvalidToolArguments`."""
        arguments = self.given_arguments(arguments, of_event=of_event)
        given = {name: value for name, value in arguments.items() if value is not None or name not in self.without_null}
        missing = [item.name for item in self.workflow.arguments if item.required and item.name not in given]
        if missing:
            raise InvalidToolArguments(f"missing: {', '.join(missing)}{'' if of_event else f' ({REQUIRED})'}")
        return given

    def given_arguments(self, arguments: JsonObject, *, of_event: bool = False) -> dict[str, Json]:
        """Return the arguments by their names. An event cannot name a task. Raises `InvalidToolArguments`."""
        declared = [argument.name for argument in self.workflow.arguments]
        # Some hosts send empty values for optional arguments that their model has left out.
        optional = (TASK_ACTION, TASK_RESULT, ANSWERS)
        given = named(self.workflow.arguments, arguments)
        given = {name: value for name, value in given.items() if value or name not in optional}
        names = [*declared, *([ANSWERS] if self.workflow.questions else [])]
        unknown = sorted(given.keys() - set(names))
        if unknown:
            known_names = ", ".join(names if of_event else [*names, TASK_ID])
            raise InvalidToolArguments(
                f"unknown arguments: {quoted_error(', '.join(unknown))}; {self.name} takes {known_names}"
            )
        return given


def _property(argument: Argument, schema: Mapping[str, Any]) -> dict[str, Json]:
    parts = [argument.shown_description.rstrip("."), *([REQUIRED] if argument.required else [])]
    description = "; ".join(part for part in parts if part)
    members: dict[str, Json] = dict(schema)
    if description:
        members["description"] = description
    return members | ({} if argument.default is None else {"default": argument.default})

"""Placeholders that a model sends as arguments are replaced by their values (docs/workflows.md). Pure."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

from msgspec import Struct

from mcp_baton.protocol.json import Json, JsonObject, json_size
from mcp_baton.tasks.keys import digest
from mcp_baton.tasks.record import StepStatus
from mcp_baton.tools.quoting import one_line, quoted_error
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.handle import Handle
from mcp_baton.workflow.plan import Plan
from mcp_baton.workflow.resolve import KnownValues
from mcp_baton.workflow.source_values import Missing
from mcp_baton.workflow.sources import PromptArg, Source, StepOutput, TaskVariable
from mcp_baton.workflow.steps.step import Step

MAX_PLACEHOLDER_CHARS: Final = 2_000
"""Characters of the longest text that can be a placeholder."""

MAX_PLACEHOLDERS: Final = 100
"""Placeholders in one call. Each is searched for among the sources of the workflow."""

ELEMENT: Final = "<element>"
"""The placeholder of an element of a list. Inside of a value it is a text, such as a tag of XML."""

_OUTPUT, _FIELD, _VARIABLE = "output from ", "field '", "task variable "
_NAMED = re.compile(r"<(?P<kind>prompt arg|task variable|secret|missing:|invalid:) (?P<name>.+)>")

_PART = re.compile(r"<[^<>]+>")

GIVE: Final = "give the value itself"
SUPPLY: Final = f"a value that you must supply; {GIVE}"
SECRET_VALUE: Final = f"a value that is secret, and is not kept; {GIVE}"
INSIDE: Final = f"a placeholder inside of a value is not replaced; {GIVE}"
WITHOUT_TASK: Final = f"a placeholder of a workflow, and this call names no task that has its value; {GIVE}"
NO_STATE: Final = " its value cannot be read now"
CHANGED: Final = (
    " Nothing was run. The values of the placeholders have changed since the question was asked. Make the call anew."
)


class UnknownPlaceholder(Struct, frozen=True):
    """A placeholder whose value is not known."""

    argument: str
    placeholder: str
    reason: str


class ReplacedArguments(Struct, frozen=True):
    """A call's arguments with the values of its placeholders.

    Attributes:
        unknown: The placeholders without a value. If there is one, the call must not be made.
        inserted_bytes: The bytes of JSON that replaced placeholders.
        read_bytes: The bytes of stored values that were read.
    """

    arguments: JsonObject
    names: tuple[str, ...] = ()
    unknown: tuple[UnknownPlaceholder, ...] = ()
    inserted_bytes: int = 0
    read_bytes: int = 0

    @property
    def digest(self) -> str | None:
        """A digest of the values that replaced placeholders; `None` without placeholders."""
        return digest({name: self.arguments[name] for name in self.names}) if self.names else None


class PlaceholderLimits(Struct, frozen=True):
    """The limits for the placeholders of one call.

    Attributes:
        inserted_bytes: The most bytes of JSON that may replace all placeholders together.
        read_bytes: The most bytes of stored values that may be read.
    """

    inserted_bytes: int
    read_bytes: int


def replace_placeholders(arguments: JsonObject, plan: Plan | None, limits: PlaceholderLimits) -> ReplacedArguments:
    """Replace each argument that is exactly a placeholder by its value, as JSON.

    A text that looks like a placeholder, but that no step of the workflow has, stays a text.

    Args:
        plan: The plan of the task that the call names; `None` if the task is not known.
    """
    remaining = limits
    replaced_arguments = dict(arguments)
    names: list[str] = []
    unknown: list[UnknownPlaceholder] = []
    sources = _WorkflowSources(plan.workflow, plan.known, plan.task.task_id) if plan else _WorkflowSources(None, None)
    for name in sorted(arguments):
        text = arguments[name]
        source = None
        if isinstance(text, str) and (is_placeholder(text) or text == ELEMENT):
            source = sources.find(text, name)
        if source is None:
            found = ((name, inner) for inner in placeholders_in(text)[:MAX_PLACEHOLDERS])
            unknown += _not_replaced(found, [sources], INSIDE)
            continue
        if len(names) == MAX_PLACEHOLDERS:
            reason = f"a call can have at most {MAX_PLACEHOLDERS} placeholders; {GIVE}"
            unknown.append(UnknownPlaceholder(name, str(text), reason))
            break
        names.append(name)
        value, problem, size, read_bytes = sources.value(source, remaining)
        remaining = PlaceholderLimits(remaining.inserted_bytes - size, remaining.read_bytes - read_bytes)
        if problem is None:
            replaced_arguments[name] = value
        else:
            unknown.append(UnknownPlaceholder(name, str(text), problem))
    return ReplacedArguments(
        replaced_arguments,
        tuple(names),
        tuple(unknown),
        limits.inserted_bytes - remaining.inserted_bytes,
        limits.read_bytes - remaining.read_bytes,
    )


def is_placeholder(text: str) -> bool:
    if not text.startswith("<") or not text.endswith(">") or len(text) > MAX_PLACEHOLDER_CHARS:
        return False
    return _output_in(text) is not None or _NAMED.fullmatch(text) is not None


def placeholders_in(value: Json) -> list[str]:
    """The texts in a value, also inside of other texts, that have the form of a placeholder."""
    if isinstance(value, str):
        return [text for text in _PART.findall(value) if is_placeholder(text)]
    if isinstance(value, Mapping):
        value = list(value.values())
    return [text for item in value for text in placeholders_in(item)] if isinstance(value, list | tuple) else []


def unreplaced(tool: str, arguments: JsonObject, workflows: Iterable[Workflow]) -> tuple[UnknownPlaceholder, ...]:
    """The placeholders in a call that names no task. Nothing can replace them, so the call must not be made.

    Args:
        workflows: Only texts that can be placeholders of one of them, in a step with this tool, are placeholders.
    """
    if not (found := list(_placeholders_by_argument(arguments))):
        return ()
    callers = [workflow for workflow in workflows if any(step.tool == tool for step in workflow.steps)]
    return tuple(_not_replaced(found[:MAX_PLACEHOLDERS], list(map(_sources_of_new_run, callers)), WITHOUT_TASK))


def unreplaced_in_own_call(arguments: JsonObject, workflow: Workflow) -> UnknownPlaceholder | None:
    """The first placeholder in a call of a workflow itself. Its arguments and answers are values for the workflow, so
    nothing replaces a placeholder in them."""
    found = _placeholders_by_argument(arguments)
    return next(_not_replaced(found, [_sources_of_new_run(workflow)], f"a placeholder; {GIVE}"), None)


def _placeholders_by_argument(arguments: JsonObject) -> Iterator[tuple[str, str]]:
    for name in sorted(arguments):
        value = arguments[name]
        yield from ((name, text) for text in ([ELEMENT] if value == ELEMENT else placeholders_in(value)))


def _not_replaced(
    found: Iterable[tuple[str, str]], sources: Sequence["_WorkflowSources"], reason: str
) -> Iterator[UnknownPlaceholder]:
    """Those of the found texts, by argument, that are placeholders of one of the workflows."""
    for name, text in found:
        if any(workflow.find(text, name) is not None for workflow in sources):
            yield UnknownPlaceholder(name, text, reason)


def unknown_text(unknown: tuple[UnknownPlaceholder, ...]) -> str:
    """The text of a call that was not made: one sentence for each placeholder without a value."""
    sentences = [
        f"The argument '{item.argument}' is {quoted_error(item.placeholder)}: {item.reason}." for item in unknown
    ]
    return " ".join(["Nothing was run.", *sentences])


class _WorkflowSources:
    """The data sources of a workflow. A call may have very many texts with the form of a placeholder, so each is found
    without a search.

    Args:
        known: The values of its task; `None` if they cannot be read.
    """

    def __init__(self, workflow: Workflow | None, known: KnownValues | None, task_id: str = "") -> None:
        self._workflow = workflow
        self._known = known
        self._task_id = task_id

    def find(self, text: str, argument: str) -> Source | str | None:
        """The data source of a placeholder, or why it has none; `None` for a text that is not a placeholder of the
        workflow."""
        match = _NAMED.fullmatch(text)
        kind, name = (match["kind"], match["name"]) if match else ("", "")
        if kind in {"missing:", "invalid:"}:
            return SUPPLY if name == argument else None
        if kind == "secret":
            return SECRET_VALUE if self._workflow is None or name in self._workflow.secrets else None
        if self._workflow is None or self._known is None:
            return f"{NO_STATE}; {GIVE}"
        if text in self._by_placeholder:
            return self._by_placeholder[text]
        if kind == "prompt arg":
            return PromptArg(name) if any(item.name == name for item in self._workflow.arguments) else None
        return self._output_or_variable(text, self._workflow)

    def _output_or_variable(self, text: str, workflow: Workflow) -> Source | str | None:
        origin, path = _output_in(text) or (text[1:-1], None)
        variable = _variable_in(origin)
        if variable:
            return TaskVariable(variable, path) if variable in self._variables else None
        step_name = _step_in(origin)
        if step_name:
            step = workflow.step(step_name)
            return StepOutput(step.binding, path) if step else None
        steps = self._by_tool.get(origin, ())
        if len(steps) > 1:
            return f"several steps call {origin}; say which, as in <output from {origin} (step '{steps[0].name}')>"
        return StepOutput(steps[0].binding, path) if steps else None

    def value(self, source: Source | str, limits: PlaceholderLimits) -> tuple[Json, str | None, int, int]:
        """The value of a source, or why it has no value; the bytes of its JSON, and the bytes that were read."""
        known = self._known
        if isinstance(source, str) or known is None:
            return None, str(source), 0, 0
        if isinstance(source, PromptArg) and source.name in known.secrets.names:
            return None, SECRET_VALUE, 0, 0  # The value is not stored.
        load = known.stored_bytes(source)
        if load > limits.inserted_bytes and isinstance(source, StepOutput | TaskVariable) and source.path is None:
            return None, self._too_long(load), 0, 0
        if load > limits.read_bytes:
            reason = f"{load} bytes must be read for it, which is more than is left to this request; send it by itself"
            return None, reason, 0, 0
        value = known.resolve(source)
        if isinstance(value, Missing) and value.producer is not None:
            known = known.with_skips()
            value = known.resolve(source)
        if isinstance(value, Missing):
            return None, _no_value_text(value, known), 0, load
        size = json_size(value)
        if size > limits.inserted_bytes:
            return None, self._too_long(size), 0, load
        return value, None, size, load

    def _too_long(self, size: int) -> str:
        """Why a value is too long, and how the server makes the call instead."""
        call = "get its prompt again with the task"
        if self._workflow is not None and self._workflow.has_workflow_tool:
            handle = Handle(self._task_id, self._workflow, given=self._known.arguments if self._known else ())
            call = f"call {self._workflow.name} with {one_line(handle.arguments)}"
        return (
            f"it stands for {size} bytes, more than placeholders may put into one call; {call} to let the server make "
            "it"
        )

    @cached_property
    def _by_placeholder(self) -> Mapping[str | None, Source]:
        known = self._known
        return {known.placeholder(source): source for source in reversed(self._sources)} if known else {}

    @cached_property
    def _sources(self) -> Sequence[Source]:
        return [
            source
            for step in self._steps
            for sources in (step.arguments, step.template_bindings)
            for source in sources.values()
        ]

    @cached_property
    def _variables(self) -> Collection[str]:
        names = {source.name for source in self._sources if isinstance(source, TaskVariable)}
        return names.union(self._known.variables) if self._known else names

    @cached_property
    def _by_tool(self) -> Mapping[str, Sequence[Step]]:
        steps: dict[str, list[Step]] = {}
        for step in self._steps:
            steps.setdefault(step.tool or "", []).append(step)
        return steps

    @property
    def _steps(self) -> Sequence[Step]:
        return self._workflow.steps if self._workflow else ()


def _sources_of_new_run(workflow: Workflow) -> _WorkflowSources:
    """The sources of a workflow without a task: nothing is known."""
    return _WorkflowSources(workflow, KnownValues.before_run(workflow))


def _no_value_text(missing: Missing, known: KnownValues) -> str:
    """Why a source has no value, and the remedy."""
    if missing.producer is not None:
        return _no_output_text(missing.producer, known)
    match missing.source:
        case PromptArg(name):
            return f"the workflow was started without its argument '{name}'; {GIVE}"
        case StepOutput(binding, path):
            return f"the result of step '{known.workflow.bound(binding).name}' has no '{path}'; {GIVE}"
        case TaskVariable(name):
            setters = " or ".join(known.workflow.setters.get(name, ()))
            first = f"call {setters} first, or " if setters else ""
            return f"the task has no such value in its variable '{name}' now; {first}{GIVE}"
    return f"it is another value for each element of the list; {GIVE}"


def _no_output_text(step: Step, known: KnownValues) -> str:
    match known.statuses[step.name]:
        case StepStatus.COMPLETED:
            reason = known.lost_results.get(step.name, "it cannot be read now")
            return f"the result of step '{step.name}' is not available: {reason}; {GIVE}"
        case StepStatus.PENDING if step.tool is not None:
            return f"step '{step.name}' has no result yet; call {step.tool} first"
        case status:
            return f"step '{step.name}' is {status.value} and has no result; {GIVE}"


# Texts come from clients, so these are linear, unlike regular expressions with several groups.


def _output_in(text: str) -> tuple[str, str | None] | None:
    """The origin and the path of `<output from ORIGIN>` or `<field 'PATH' from ORIGIN>`."""
    content = "" if "\n" in text else text[1:-1]
    if content.startswith(_OUTPUT):
        return (content.removeprefix(_OUTPUT), None) if content != _OUTPUT else None
    path, _, origin = content.removeprefix(_FIELD).rpartition("' from ")
    return (origin, path) if content.startswith(_FIELD) and path and origin else None


def _variable_in(origin: str) -> str | None:
    """The name in `task variable NAME` or `task variable NAME (set by TOOLS)`."""
    name = origin.removeprefix(_VARIABLE)
    if name == origin:
        return None
    return name.partition(" (set by ")[0] if name.endswith(")") else name


def _step_in(origin: str) -> str | None:
    """The name in `TOOL (step 'NAME')`."""
    tool, _, name = origin.removesuffix("')").rpartition(" (step '")
    return name if tool and origin.endswith("')") else None

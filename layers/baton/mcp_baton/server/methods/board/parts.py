"""The values of a task's steps as its board shows them: results, errors and arguments (docs/console.md).

Values that are kept outside the task's item are not read for it: they are named by their URI.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from mcp_baton.exceptions import StoreError
from mcp_baton.protocol.json import Json, JsonObject, dumps
from mcp_baton.server.methods.board.fitting import LONG, Part, size_of
from mcp_baton.server.methods.task_values import readable
from mcp_baton.server.published.own_uris import value_uri
from mcp_baton.tasks.record import RESULT_PREFIX, StepStatus, TaskRecord
from mcp_baton.tasks.values import StoredValues, Weight, weight_of
from mcp_baton.workflow.handoff import Requirements, preview_arguments, preview_uris
from mcp_baton.workflow.kept_calls import shown_call
from mcp_baton.workflow.plan import Plan
from mcp_baton.workflow.twin_text import cut


class Inside(StoredValues):
    """The variables of a task that are kept in its item: the others can be weighed alone, and nothing is fetched."""

    def __init__(self, task: TaskRecord) -> None:
        self._task = task
        self._variables = task.variables
        self._names = {name: None for name in task.variables if not is_outside(task, name)}

    def __getitem__(self, name: str) -> Json:
        if name not in self._names:
            raise KeyError(name)
        return self._variables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def weight(self, name: str) -> Weight:
        """What a value weighs, wherever it is kept."""
        weight = weight_of(self._task, name)
        if weight is None:
            raise KeyError(name)
        return weight

    def holds(self, _name: str, _text: bytes) -> bool | None:
        """Only reading a value can tell."""
        return None

    def text(self, name: str) -> Iterator[str]:
        """A value's JSON text."""
        yield dumps(self[name])

    def read_ahead(self, _names: Iterable[str]) -> None:
        """All of them are at hand."""


def inside(task: TaskRecord) -> TaskRecord:
    """A task with those of its variables alone that are kept in its item."""
    return replace(task, variables=Inside(task))


def is_outside(task: TaskRecord, name: str) -> bool:
    """Whether a variable is there, and kept outside the task's item."""
    weight = weight_of(task, name)
    return weight is not None and weight.outside


def described(plan: Plan, timings: Mapping[str, Json]) -> list[dict[str, Json]]:
    """Each step without its values: name, tool or resource, status, and why it failed.

    Args:
        plan: The plan, against the task as it stands.
        timings: When each step ran, `{"at", "ms"}` by its name, as far as that is known.
    """
    made = []
    for step in plan.steps:
        entry: dict[str, Json] = {"name": step["name"]}
        if "tool" in step:
            entry["tool"] = step["tool"]
        else:
            entry |= _resource(plan, step["name"])
        entry["status"] = step["status"]
        if step["status"] == StepStatus.FAILED:
            entry |= _error(plan.task, step["name"])
        timing = timings.get(step["name"])
        made.append({**entry, **(timing if isinstance(timing, Mapping) else {})})
    return made


def parts_of(task: TaskRecord, plan: Plan, tools: Requirements) -> list[Part]:
    """The results of completed steps, and the arguments of all, where they are known.

    Args:
        task: The task as it was read.
        plan: The plan, against the task without what is kept outside its item.
        tools: Knows what the tools require.
    """
    made: list[Part] = []
    for place, step in enumerate(plan.steps):
        if "tool" not in step:
            continue
        if step["status"] == StepStatus.COMPLETED:
            made += _result(task, place, step["name"])
        arguments = _arguments(plan, step["name"], tools, done=step["status"] == StepStatus.COMPLETED)
        if arguments is not None:
            size = size_of(arguments)
            made.append(Part(place, "arguments", arguments, size, {"bytes": size}))
    return made


def _result(task: TaskRecord, place: int, step: str) -> Iterator[Part]:
    name = f"{RESULT_PREFIX}{step}"
    weight = weight_of(task, name)
    if weight is None:
        return
    at_hand = weight.text_bytes <= LONG and not weight.outside
    size = weight.text_bytes if at_hand else max(weight.text_bytes, LONG + 1)
    note: JsonObject = {"bytes": weight.text_bytes, "uri": value_uri(task.task_id, name)}
    yield Part(place, "result", readable(task, name) if at_hand else None, size, note)


def _arguments(plan: Plan, name: str, tools: Requirements, *, done: bool) -> JsonObject | None:
    """What a step was called with, or is to be; secrets and long values by what stands for them."""
    try:
        kept = shown_call(plan.task.variables, name) if done else None
    except StoreError:
        return None
    step = plan.workflow.step(name) if plan.workflow else None
    if kept is not None or step is None or plan.workflow is None or plan.known is None:
        return kept
    arguments = preview_arguments(step, plan.workflow, plan.known, tools)
    return arguments | {argument: f"<invalid: {argument}>" for argument in plan.refused(step)}


def _resource(plan: Plan, name: str) -> dict[str, Json]:
    step = plan.workflow.step(name) if plan.workflow else None
    if step is None or plan.workflow is None or plan.known is None:
        return {}
    return {"resource": ", ".join(preview_uris(step, plan.workflow, plan.known).values())}


def _error(task: TaskRecord, step: str) -> dict[str, Json]:
    name = f"{RESULT_PREFIX}{step}"
    weight = weight_of(task, name)
    if weight is None or weight.outside:
        return {}
    stored = readable(task, name)
    error = stored.get("error") if isinstance(stored, Mapping) else None
    return {"error": cut(error)} if isinstance(error, str) else {}

"""A workflow as a tool: its definition, and invalid workflows."""

import enum
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from jsonschema_rs import meta
from pydantic import AfterValidator, BaseModel, BeforeValidator, PlainValidator

from mcp_baton import Argument, RegistrationError, Server, ToolStep, Workflow, WorkflowError
from mcp_baton.protocol.json import JsonObject
from mcp_baton.tools.published_schema import optional_parameter
from mcp_baton.workflow.workflow_tool import OUTPUT_SCHEMA, WorkflowTool

READS, KEEPS = {"readOnlyHint": True}, {"destructiveHint": False}
REPEATS, INSIDE = {"idempotentHint": True}, {"openWorldHint": False}


@dataclass(frozen=True)
class Address:
    street: str


class Item(BaseModel):
    sku: str
    amount: int = 1


class Colour(enum.Enum):
    RED = "red"


def server_of(*annotations: JsonObject, **options: Any) -> Server:
    """Return a server with a workflow of one step per tool. Each tool has one of these annotations."""
    server = Server("s")
    for number, hints in enumerate(annotations):
        server.tool(name=f"t{number}", annotations=hints)(lambda: None)
    steps = [ToolStep(f"s{number}", tool=f"t{number}") for number in range(len(annotations))]
    server.add_workflow(Workflow(**{"name": "flow", "description": "flow", "steps": steps, **options}))
    return server


ANYTHING = {"default": None, "nullable": True}


def workflow_tool_of(*types: Any) -> WorkflowTool:
    """Return the tool of a workflow that has an argument of each type: `a0`, `a1`, …"""
    arguments = [Argument(f"a{number}", type=target) for number, target in enumerate(types)]
    published = server_of({}, arguments=arguments).full_view.workflow_tool("flow")
    assert published is not None
    return published


def properties(*types: Any) -> list[Any]:
    schema: Any = workflow_tool_of(*types).input_schema
    schemas: list[Any] = list(schema["properties"].values())
    return schemas[:-1]


def write_hints(*, destructive: bool, idempotent: bool) -> JsonObject:
    return {"readOnlyHint": False, "destructiveHint": destructive, "idempotentHint": idempotent, "openWorldHint": True}


@pytest.mark.parametrize(
    ("tools", "hints"),
    [
        ([READS, READS], {"readOnlyHint": True, "openWorldHint": True}),
        ([READS | INSIDE], {"readOnlyHint": True, "openWorldHint": False}),
        ([READS, KEEPS], write_hints(destructive=False, idempotent=False)),
        ([KEEPS | REPEATS, READS, REPEATS | INSIDE], write_hints(destructive=True, idempotent=True)),
        ([{"readOnlyHint": False}], write_hints(destructive=True, idempotent=False)),
    ],
)
def test_the_annotations_combine_those_of_all_steps(tools: list[JsonObject], hints: JsonObject) -> None:
    published = server_of(*tools).full_view.workflow_tool("flow")
    assert published is not None
    assert published.definition["annotations"] == hints


def test_arguments_of_plain_types_are_described_as_in_tools() -> None:
    assert properties(str, int, float | None, list[str], Literal["a", "b"], dict, Any) == [
        optional_parameter({"type": "string"}),
        optional_parameter({"type": "integer"}),
        optional_parameter({"anyOf": [{"type": "number"}, {"type": "null"}]}),
        optional_parameter({"items": {"type": "string"}, "type": "array"}),
        optional_parameter({"enum": ["a", "b"], "type": "string"}),
        optional_parameter({"additionalProperties": {"description": "Any JSON."}, "type": "object"}),
        ANYTHING,
    ]


def test_a_type_without_a_schema_gets_an_empty_one() -> None:
    assert properties(Annotated[Any, PlainValidator(lambda value: value)], Item)[0] == ANYTHING
    assert properties(type("Odd", (), {}), int) == [ANYTHING, optional_parameter({"type": "integer"})]


def test_the_schema_is_an_object_without_composition_or_required_arguments() -> None:
    for types in ((), (str,), (Address, Item | Colour)):
        schema: Any = workflow_tool_of(*types).input_schema
        assert schema["type"] == "object"
        assert schema.keys() <= {"type", "properties", "additionalProperties", "$defs"}
        meta.validate(schema)
    meta.validate(dict(OUTPUT_SCHEMA))


def test_null_is_not_a_value_of_most_types() -> None:
    def fails(_: object) -> object:
        raise AttributeError("no such thing")

    types = (str, int | None, Any, list[str], Item, Item | None, Annotated[str, BeforeValidator(fails)], dict)
    assert workflow_tool_of(*types).without_null == {"a0", "a3", "a4", "a6", "a7"}


def test_a_custom_validator_decides_whether_null_is_valid() -> None:
    assert workflow_tool_of(Annotated[Any, AfterValidator(lambda value: value)]).without_null == frozenset()


@pytest.mark.parametrize("options", [{"durable": False}, {"tool": False}])
def test_a_workflow_without_a_tool_may_have_a_tools_name(options: dict[str, Any]) -> None:
    server = server_of({}, **options)
    server.tool(name="flow")(lambda: None)
    server.check()
    assert (server.full_view.workflow_tool("flow"), server.full_view.workflow_tool_names) == (None, [])


@pytest.mark.parametrize(("name", "target"), [("outer", "flow"), ("flow", "flow"), ("outer", "outer")])
def test_a_step_cannot_call_a_workflow(name: str, target: str) -> None:
    server = server_of({})
    server.workflows[name] = Workflow(name=name, description="d", steps=[ToolStep("a", tool=target)])
    with pytest.raises(WorkflowError, match=rf"'{name}', step 'a': '{target}' is a workflow"):
        server.check()


def test_an_argument_named_task_id_is_refused_in_durable_workflows() -> None:
    with pytest.raises(WorkflowError, match="the argument 'task_id': this name is taken"):
        server_of({}, arguments=[Argument("task_id")]).check()
    server_of({}, arguments=[Argument("task_id")], durable=False).check()
    with pytest.raises(WorkflowError, match="the argument 'task_id': this name is taken"):
        server_of({}, arguments=[Argument("task_id")], tool=False).check()


@pytest.mark.parametrize(
    ("option", "seconds"),
    [*[("reply_budget_s", seconds) for seconds in (0, -1, float("nan"))], ("poll_interval_s", 1e308)],
)
def test_seconds_that_are_no_time_are_refused(option: str, seconds: float) -> None:
    options: Any = {option: seconds}
    with pytest.raises(RegistrationError, match=f"{option}="):
        Server("s", **options)


def test_task_ids_are_in_meta_or_text() -> None:
    with pytest.raises(RegistrationError, match="task_ids='body' is not possible; use 'meta' or 'text'"):
        Server("s", task_ids="body")  # type: ignore[arg-type]
    assert [Server("s").options.task_ids, Server("s", task_ids="text").options.task_ids] == ["meta", "text"]

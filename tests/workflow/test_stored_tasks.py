"""`Verdicts` predicts correctly whether a resume is refused, for random old and new definitions and states."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_baton import Argument, Server, ToolStep, Workflow, constant, prompt_arg, step_output
from mcp_baton.aws import compose, dynamodb_store
from mcp_baton.cli.stored_tasks import Verdicts
from mcp_baton.settings import Settings
from mcp_baton.stores import DynamoDBStore
from mcp_baton.tasks.record import PROGRESS, RESULT_PREFIX, StepStatus, TaskRecord
from mcp_baton.testing.store import TABLE
from mcp_baton.workflow.resolve import KnownValues
from mcp_baton.workflow.run_task import new_task
from mcp_baton.workflow.sources import StepOutput
from mcp_baton.workflow.steps.step import Step
from tests.memory_dynamodb import memory_database
from tests.support.client import Client

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

OWNER = "alice"
NAMES, ARGUMENTS = ("a", "b", "c", "d"), ("x", "y", "z")
TEXTS = {int: "1", str: "one"}


def argument_named(name: str) -> st.SearchStrategy[Argument]:
    flags = st.tuples(st.booleans(), st.booleans(), st.sampled_from([int, str]))
    return flags.map(lambda choice: Argument(name, required=choice[0], secret=choice[1], type=choice[2]))


@st.composite
def steps(draw: st.DrawFn, arguments: list[Argument]) -> list[Step]:
    """Draw steps whose sources exist: constants, arguments, and outputs of earlier steps."""
    drawn_steps: list[Step] = []
    for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True)):
        inputs = [prompt_arg(argument.name) for argument in arguments]
        sources = [constant(1), *inputs, *(step_output(step.name) for step in drawn_steps)]
        tool, source = draw(st.sampled_from(["one", "two"])), draw(st.sampled_from(sources))
        drawn_steps.append(ToolStep(name, tool=tool, arguments={"value": source}))
    return drawn_steps


@st.composite
def definitions(draw: st.DrawFn) -> Workflow:
    names = draw(st.lists(st.sampled_from(ARGUMENTS), max_size=3, unique=True))
    arguments = [draw(argument_named(name)) for name in names]
    return Workflow(name="flow", description="work", arguments=arguments, steps=draw(steps(arguments)))


@st.composite
def changes(draw: st.DrawFn, old_workflow: Workflow) -> Workflow | None:
    """Draw the new definition: usually the old one with a few changes. `None` means that the workflow was removed."""
    kind = draw(st.sampled_from(["same", "changed", "changed", "changed", "another", "gone"]))
    if kind == "gone":
        return None
    if kind == "another":
        return draw(definitions())
    if kind == "same":
        return old_workflow
    arguments = [draw(st.one_of(st.just(old), argument_named(old.name))) for old in old_workflow.arguments]
    arguments += draw(st.lists(argument_named("new"), max_size=1))
    new_steps: list[Step] = []
    for step in old_workflow.steps:
        reworded_step = ToolStep(step.name, tool=step.tool or "", arguments=step.arguments, guidance="Look twice")
        changed_step = ToolStep(step.name, tool="one", arguments={"value": constant(2)})
        new_steps.append(draw(st.sampled_from([step, step, reworded_step, changed_step])))
    for added_step in draw(st.lists(st.just(ToolStep("new", tool="two")), max_size=1)):
        new_steps.insert(draw(st.integers(0, len(new_steps))), added_step)
    removed_name = draw(st.sampled_from([None, None, *NAMES]))
    remaining_steps: list[Step] = []
    for step in new_steps:  # leave out the steps that use the output of a removed step
        bindings = {source.binding for source in step.sources if isinstance(source, StepOutput)}
        if step.name != removed_name and bindings <= {earlier.name for earlier in remaining_steps}:
            remaining_steps.append(step)
    return Workflow(name="flow", description="work", arguments=arguments, steps=remaining_steps or new_steps)


@st.composite
def states(draw: st.DrawFn) -> tuple[Workflow, dict[str, str], list[StepStatus], Workflow | None]:
    """Draw an old definition, the arguments and the step statuses of a task, and the new definition."""
    old_workflow = draw(definitions())
    given_arguments = [argument for argument in old_workflow.arguments if argument.required or draw(st.booleans())]
    values = {argument.name: TEXTS[argument.type] for argument in given_arguments}
    statuses = [draw(st.sampled_from(StepStatus)) for _ in old_workflow.steps]
    return old_workflow, values, statuses, draw(changes(old_workflow))


def server_with(workflow: Workflow | None) -> Server:
    server = Server("shop")

    @server.tool
    def one(value: Any = 0) -> Any:
        return value

    @server.tool
    def two(value: Any = 0) -> Any:
        return value

    if workflow is not None:
        server.add_workflow(workflow)
    return server


def store_task(
    store: DynamoDBStore, workflow: Workflow, values: Mapping[str, str], statuses: list[StepStatus]
) -> TaskRecord:
    task = new_task(KnownValues.before_run(workflow, values, values), OWNER)
    progress: Any = workflow.progress(statuses)
    results = {
        f"{RESULT_PREFIX}{step.name}": 1
        for step, status in zip(workflow.steps, statuses, strict=True)
        if status is StepStatus.COMPLETED
    }
    task.variables.update({PROGRESS: progress, **results})  # type: ignore[attr-defined]
    return store.create(task)


@pytest.fixture(scope="module")
def database() -> Iterator["DynamoDBClient"]:
    with closing(memory_database()) as client:
        yield client


@given(state=states())
def test_the_verdict_on_a_task_equals_the_outcome_of_its_resume(
    database: "DynamoDBClient", state: tuple[Workflow, dict[str, str], list[StepStatus], Workflow | None]
) -> None:
    old_workflow, arguments, statuses, new_workflow = state
    settings = Settings(table=TABLE)
    store = dynamodb_store(TABLE, settings, connect=lambda: database)
    assert isinstance(store, DynamoDBStore)
    server, task = server_with(new_workflow), store_task(store, old_workflow, arguments, statuses)

    verdicts = Verdicts(server.full_view)
    verdicts.read(store, 1e9)
    assert sum(verdicts.outcomes.values()) == 1
    new_arguments = new_workflow.arguments if new_workflow else []
    secret_arguments = [argument for argument in new_arguments if argument.secret and argument.name in arguments]
    secrets = {argument.name: TEXTS[argument.type] for argument in secret_arguments}
    client = Client(compose(server, settings, store=store), OWNER)
    answer = client.get_prompt("flow", secrets, task=task.task_id).messages[-1]

    is_refused = "error" in answer
    try:
        assert bool(verdicts.problems) == is_refused, (verdicts.problems, answer)
        if is_refused:
            assert answer["error"]["code"] == -32602
    finally:
        store.table.delete(store.key(OWNER, task.task_id))

"""`Verdicts` predicts correctly whether a resume is refused, for random old and new definitions and states."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_baton import Argument, Server, Step, Workflow, constant, prompt_arg, step_output
from mcp_baton.aws import compose, dynamodb_store
from mcp_baton.cli.stored_tasks import Verdicts
from mcp_baton.local.dynamodb import create_table, embedded_client
from mcp_baton.settings import Settings
from mcp_baton.tasks.dynamodb.store import DynamoDBTaskStore
from mcp_baton.tasks.record import PROGRESS, RESULT_PREFIX, StepStatus, TaskRecord
from mcp_baton.workflow.run import RunInput, new_task
from tests.e2e.support import Client

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

TABLE, OWNER = "tasks", "alice"
NAMES, ARGUMENTS = ("a", "b", "c", "d"), ("x", "y", "z")
TEXTS = {int: "1", str: "one"}


def argument(name: str) -> st.SearchStrategy[Argument]:
    flags = st.tuples(st.booleans(), st.booleans(), st.sampled_from([int, str]))
    return flags.map(lambda it: Argument(name, required=it[0], secret=it[1], type=it[2]))


@st.composite
def steps(draw: st.DrawFn, arguments: list[Argument]) -> list[Step]:
    """Draw steps whose sources exist: constants, arguments, and outputs of earlier steps."""
    made: list[Step] = []
    for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True)):
        sources = [constant(1), *(prompt_arg(it.name) for it in arguments), *(step_output(it.name) for it in made)]
        tool, source = draw(st.sampled_from(["one", "two"])), draw(st.sampled_from(sources))
        made.append(Step(name, tool=tool, arguments={"value": source}))
    return made


@st.composite
def definitions(draw: st.DrawFn) -> Workflow:
    names = draw(st.lists(st.sampled_from(ARGUMENTS), max_size=3, unique=True))
    arguments = [draw(argument(name)) for name in names]
    return Workflow(name="flow", description="work", arguments=arguments, steps=draw(steps(arguments)))


@st.composite
def changes(draw: st.DrawFn, old: Workflow) -> Workflow | None:
    """Draw the new definition: usually the old one with a few changes. `None` means that the workflow was removed."""
    kind = draw(st.sampled_from(["same", "changed", "changed", "changed", "another", "gone"]))
    if kind == "gone":
        return None
    if kind == "another":
        return draw(definitions())
    if kind == "same":
        return old
    arguments = [draw(st.one_of(st.just(it), argument(it.name))) for it in old.arguments]
    arguments += draw(st.lists(argument("new"), max_size=1))
    kept: list[Step] = []
    for step in old.steps:
        texts = Step(step.name, tool=step.tool, arguments=step.arguments, guidance="Look twice")
        changed = Step(step.name, tool="one", arguments={"value": constant(2)})
        kept.append(draw(st.sampled_from([step, step, texts, changed])))
    for added in draw(st.lists(st.just(Step("new", tool="two")), max_size=1)):
        kept.insert(draw(st.integers(0, len(kept))), added)
    gone = draw(st.sampled_from([None, None, *NAMES]))
    left: list[Step] = []
    for step in kept:  # leave out the steps that use the output of a removed step
        if step.name != gone and {it.binding for it in step.inputs} <= {it.name for it in left}:
            left.append(step)
    return Workflow(name="flow", description="work", arguments=arguments, steps=left or kept)


@st.composite
def states(draw: st.DrawFn) -> tuple[Workflow, dict[str, str], list[StepStatus], Workflow | None]:
    """Draw an old definition, the arguments and the step statuses of a task, and the new definition."""
    old = draw(definitions())
    given = {it.name: TEXTS[it.type] for it in old.arguments if it.required or draw(st.booleans())}
    statuses = [draw(st.sampled_from(StepStatus)) for _ in old.steps]
    return old, given, statuses, draw(changes(old))


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


def stored(store: DynamoDBTaskStore, old: Workflow, given: Mapping[str, str], statuses: list[StepStatus]) -> TaskRecord:
    new = new_task(old, RunInput(given, given, OWNER), OWNER, None)
    progress: Any = old.progress(statuses)
    results = {
        f"{RESULT_PREFIX}{step.name}": 1
        for step, status in zip(old.steps, statuses, strict=True)
        if status is StepStatus.COMPLETED
    }
    new.variables.update({PROGRESS: progress, **results})  # type: ignore[attr-defined]
    return store.create(new)


@pytest.fixture(scope="module")
def database() -> Iterator["DynamoDBClient"]:
    with closing(embedded_client()) as client:
        create_table(client, TABLE)
        yield client


@given(state=states())
def test_the_verdict_on_a_task_equals_the_outcome_of_its_resume(
    database: "DynamoDBClient", state: tuple[Workflow, dict[str, str], list[StepStatus], Workflow | None]
) -> None:
    old, arguments, statuses, new = state
    chosen = Settings(table=TABLE)
    store = dynamodb_store(TABLE, chosen, connect=lambda: database)
    assert isinstance(store, DynamoDBTaskStore)
    server, task = server_with(new), stored(store, old, arguments, statuses)

    verdicts = Verdicts(server.full_view)
    verdicts.read(store, None, 1e9)
    assert sum(verdicts.outcomes.values()) == 1
    declared = [it for it in new.arguments if it.secret and it.name in arguments] if new else []
    secrets = {it.name: TEXTS[it.type] for it in declared}
    client = Client(compose(server, chosen, store=store), OWNER)
    resumed = client.get_prompt("flow", secrets, task=task.task_id).messages[-1]

    refused = "error" in resumed
    try:
        assert bool(verdicts.problems) == refused, (verdicts.problems, resumed)
        if refused:
            assert resumed["error"]["code"] == -32602
    finally:
        store.table.delete(store.key(OWNER, task.task_id))

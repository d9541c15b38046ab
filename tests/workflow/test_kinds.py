"""Each kind of step in each way to run, and each option of each kind (docs/workflows.md).

A new kind or a new option must be added to a table here; until then, a test fails.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Literal

import pytest

from mcp_baton import (
    Approval,
    Argument,
    Callback,
    Context,
    Fetch,
    ListStep,
    Question,
    Retry,
    Server,
    ToolError,
    ToolStep,
    Wait,
    Workflow,
    constant,
    item,
    prompt_arg,
)
from mcp_baton.protocol.json import Json
from mcp_baton.testing import Client, connect
from mcp_baton.testing.results import Run
from mcp_baton.testing.store import TABLE
from mcp_baton.workflow.step_functions import StepOptions
from mcp_baton.workflow.steps.step import Step
from mcp_baton.workflow.steps.tool_step import CallOptions
from tests.support.client import Era

GO: Final = {"go": "yes"}


class World:
    """A server whose workflow has one step of a kind, `s`, between two others."""

    def __init__(self, step: Step, others: Sequence[Step] = (), last: Sequence[Step] = (), **options: Any) -> None:
        self.is_down = False
        self.calls: list[str] = []
        self.server = Server("kinds")
        for tool in (self.before, self.work, self.later):
            self.server.add_tool(tool)
        self.server.resource("docs://a")(self.document)
        steps = [ToolStep(self.before, checkpoint=True), *others, step, ToolStep(self.later, after=["s"]), *last]
        self.server.add_workflow(
            Workflow(name="flow", description="run", arguments=[Argument("go")], steps=steps, **options)
        )

    def before(self, ctx: Context) -> str:
        self.calls.append("before")
        workflow = self.server.workflows["flow"]
        return ctx.callback_url("s") if workflow.callbacks else ""

    def work(self, value: str) -> str:
        if self.is_down:
            raise ToolError("down")
        self.calls.append(f"work {value}")
        return f"done {value}"

    def later(self) -> None:
        self.calls.append("later")

    def document(self) -> str:
        if self.is_down:
            raise ToolError("down")
        return "text"


@dataclass(frozen=True)
class Kind:
    """A kind of step.

    Attributes:
        settle: What a client, another system or the clock does for the step when a run has stopped at it. Gets the
            workflow's task.
        opens: Whether each run stops at it, and not only if something fails.
    """

    make: Callable[..., Step]
    result: Json
    settle: Callable[[Client, str], object]
    opens: bool = False


def _settle_list(client: Client, task_id: str) -> None:
    for index, value in enumerate("xy"):
        client.call_tool("work", {"value": value}, task=f"{task_id}/s/{index}")


KINDS: Final[Mapping[str, Kind]] = {
    "tool": Kind(
        lambda **options: ToolStep("s", {"value": constant("x")}, tool="work", **options),
        "done x",
        lambda client, task_id: client.call_tool("work", {"value": "x"}, task=f"{task_id}/s"),
    ),
    "list": Kind(
        lambda **options: ListStep("s", {"value": item()}, tool="work", each=constant(["x", "y"]), **options),
        ["done x", "done y"],
        _settle_list,
    ),
    "question": Kind(
        lambda **options: Question("s", "Who?", **options),
        "Kim",
        lambda client, task_id: client.call_workflow("flow", {"answers": {"s": "Kim"}}, task=task_id),
        opens=True,
    ),
    "callback": Kind(
        lambda **options: Wait("s", Callback(int, timedelta(hours=1)), **options),
        7,
        lambda client, task_id: client.send_callback(task_id, "s", 7),
        opens=True,
    ),
    "time": Kind(
        lambda **options: Wait("s", sleep=timedelta(minutes=5), **options),
        None,
        lambda client, _task_id: client.clock.advance(301),
        opens=True,
    ),
    "fetch": Kind(
        lambda **options: Fetch("s", ["docs://a"], **options),
        None,
        lambda client, _task_id: client.read_resource("docs://a"),
    ),
}


def task_of(client: Client) -> str:
    """Return the id of the workflow's task."""
    items = client.store.client.scan(TableName=TABLE)["Items"]
    [task_id] = [item["sk"]["S"].removeprefix("TASK#") for item in items if "workflow" in item]
    return task_id


def finish(client: Client, task_id: str) -> Run:
    """Resume a task until it is completed."""
    run = client.call_workflow("flow", GO, task=task_id) if client.task(task_id).status == "working" else None
    return run or client.call_workflow("flow", {"task_action": "show"}, task=task_id)


def stopped(kind: Kind, world: World, client: Client) -> str:
    """Start the workflow, and let the run stop at the step. Return the task's id."""
    world.is_down = not kind.opens
    run = client.call_workflow("flow", GO)
    assert run.pause.step == "s"
    world.is_down = False
    return run.task_id


def start(kind: Kind, era: Era) -> Iterator[tuple[World, Client, str]]:
    world = World(kind.make())
    with connect(world.server, era=era) as client:
        run = client.call_workflow("flow", GO)
        assert run.completed is not kind.opens
        if kind.opens:
            kind.settle(client, run.task_id)
            finish(client, run.task_id)
        yield world, client, run.task_id


def resume(kind: Kind, era: Era) -> Iterator[tuple[World, Client, str]]:
    world = World(kind.make())
    with connect(world.server, era=era) as client:
        task_id = stopped(kind, world, client)
        if kind.opens:
            # A run that comes too early stops at the step again.
            assert client.call_workflow("flow", GO, task=task_id).pause.step == "s"
            kind.settle(client, task_id)
        finish(client, task_id)
        yield world, client, task_id


def continuation(kind: Kind, era: Era) -> Iterator[tuple[World, Client, str]]:
    world = World(kind.make())
    with connect(world.server, era=era) as client:
        task_id = stopped(kind, world, client)
        kind.settle(client, task_id)
        finish(client, task_id)
        yield world, client, task_id


def worker(kind: Kind, era: Era) -> Iterator[tuple[World, Client, str]]:
    world = World(kind.make(), background=True)
    with connect(world.server, era=era) as client:
        run_in_worker(client, world, kind)
        yield world, client, task_of(client)


def run_in_worker(client: Client, world: World, kind: Kind) -> None:
    """Let a worker run the workflow as far as it can. What only the model can do for it is done after that."""
    client.answers({"s": "Kim"})
    started = client.start_task("flow", GO)
    approve(client)
    if world.server.workflows["flow"].callbacks:
        kind.settle(client, started.task_id)
    assert started.wait().status == "completed"
    if client.task(task_of(client)).status == "working":
        assert isinstance(kind.make(), Question)
        kind.settle(client, task_of(client))
        finish(client, task_of(client))


def approve(client: Client) -> None:
    people = client.as_owner("kim", scopes=["people"])
    for approval in people.approvals():
        people.approve(str(approval["approvalId"]))


def beside_a_list(kind: Kind, era: Era) -> Iterator[tuple[World, Client, str]]:
    others = [ListStep("all", {"value": item()}, tool="work", each=constant(["a", "b"]), parallel=2)]
    world = World(kind.make(), others)
    with connect(world.server, era=era) as client:
        run = client.call_workflow("flow", GO)
        if kind.opens:
            kind.settle(client, run.task_id)
            finish(client, run.task_id)
        assert sorted(call for call in world.calls if call in ("work a", "work b")) == ["work a", "work b"]
        yield world, client, run.task_id


def parallel(kind: Kind, era: Era) -> Iterator[tuple[World, Client, str]]:
    others = [ToolStep("other", {"value": constant("o")}, tool="work", after=["before"])]
    world = World(kind.make(after=["before"]), others, parallel=3)
    with connect(world.server, era=era) as client:
        run = client.call_workflow("flow", GO)
        assert run.steps["other"] == "completed"
        if kind.opens:
            kind.settle(client, run.task_id)
            finish(client, run.task_id)
        world.calls.remove("work o")  # it may end at any time
        yield world, client, run.task_id


def kill(kind: Kind, era: Era) -> Iterator[tuple[World, Client, str]]:
    world = World(kind.make())
    with connect(world.server, era=era) as client:
        with client.killed_after("before"):
            client.call_workflow("flow", GO)
        client.clock.advance(60)
        assert world.calls.pop() == "before"  # its result was not stored, so it is called again
        run = client.call_workflow("flow", GO, task=task_of(client))
        if kind.opens:
            assert run.pause.step == "s"
            kind.settle(client, task_of(client))
            finish(client, task_of(client))
        yield world, client, task_of(client)


def changed_definition(kind: Kind, era: Era) -> Iterator[tuple[World, Client, str]]:
    old, world = World(kind.make()), World(kind.make(), last=[ToolStep("more", tool="later")])
    with connect(old.server, era=era) as old_client:
        task_id = stopped(kind, old, old_client)
        client = old_client.deployed(world.server)
        kind.settle(client, task_id)
        finish(client, task_id)
        assert old.calls == ["before"]
        assert world.calls.pop() == "later"
        world.calls.insert(0, "before")
        yield world, client, task_id


WAYS: Final = (start, resume, continuation, worker, beside_a_list, parallel, kill, changed_definition)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("name", KINDS)
def test_each_kind_of_step_ends_once_in_each_way(
    name: str, way: Callable[[Kind, Era], Iterator[tuple[World, Client, str]]], era: Era
) -> None:
    kind = KINDS[name]
    for world, client, task_id in way(kind, era):
        task = client.task(task_id)
        assert (task.status, set(task.steps.values())) == ("completed", {"completed"})
        assert task.variables.get("_workflow.result.s") == kind.result
        assert len(world.calls) == len(set(world.calls)), world.calls
        assert (world.calls[0], world.calls[-1]) == ("before", "later")


def kinds_of_steps(kind: type[Step] = Step) -> set[type[Step]]:
    return {kind, *(inner for other in kind.__subclasses__() for inner in kinds_of_steps(other))}


def test_the_table_has_every_kind_of_step() -> None:
    assert {type(kind.make()) for kind in KINDS.values()} == kinds_of_steps() - {Step}


OPTIONS: Final[Mapping[str, Any]] = {
    "after": ["before"],
    "approval": Approval("people"),
    "binding": "bound",
    "checkpoint": True,
    "guidance": "Be quick.",
    "of": "user",
    "parallel": 2,
    "resources": ["docs://a"],
    "retry": Retry(attempts=2, first_s=0.01),
    "retryable": True,
    "returns": Literal["Kim", "Ada"],
    "template_bindings": {"name": constant("a")},
    "when": prompt_arg("go") == "yes",
}
"""An example of each option."""

PARTS: Final = frozenset({"self", "name", "arguments", "tool", "each", "question", "callback", "sleep"})
"""What a step of a kind consists of; `KINDS` has it. For `Fetch`, that is also `resources`."""


def options_of(kind: Kind) -> list[str]:
    parameters = inspect.signature(type(kind.make()).__init__).parameters.values()
    names = [entry.name for entry in parameters if entry.default is not entry.empty]
    names += [name for entry in parameters if entry.kind is entry.VAR_KEYWORD for name in CallOptions.__annotations__]
    return [name for name in names if name not in PARTS]


def test_each_option_of_each_kind_makes_another_step() -> None:
    for kind in KINDS.values():
        options = options_of(kind)
        assert [option for option in options if kind.make(**{option: OPTIONS[option]}) == kind.make()] == []


def test_step_takes_each_option_and_the_page_explains_it() -> None:
    options = {*options_of(KINDS["tool"]), *options_of(KINDS["list"])} - {"binding"}
    page = Path("docs/workflows.md").read_text()

    assert StepOptions.__annotations__.keys() == options
    assert [option for option in options if f"`{option}" not in page] == []


@pytest.mark.parametrize("background", [False, True], ids=["request", "worker"])
@pytest.mark.parametrize(
    ("name", "option"), [(name, option) for name, kind in KINDS.items() for option in options_of(kind)]
)
def test_each_option_of_each_kind_lets_the_step_end_once(name: str, option: str, background: bool) -> None:
    kind = KINDS[name]
    world = World(kind.make(**{option: OPTIONS[option]}), background=background)
    with connect(world.server) as client:
        if background:
            run_in_worker(client, world, kind)
        elif not client.call_workflow("flow", GO).completed:
            approve(client)
            if kind.opens:
                kind.settle(client, task_of(client))
            finish(client, task_of(client))
        assert client.task(task_of(client)).status == "completed"
        assert len(world.calls) == len(set(world.calls)), world.calls
        assert (world.calls[0], world.calls[-1]) == ("before", "later")

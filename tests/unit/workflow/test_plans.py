"""Random plans end as in a simple interpreter that makes one call at a time.

Plans have conditions, lists, data flow, failures, checkpoints and kills. The engine runs them with one or several calls
at the same time, which end in any order. Meanwhile, clients supply elements of lists. `SEEDS=200000 pytest
tests/unit/workflow/test_plans.py` tries more plans.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from functools import partial
from random import Random
from typing import Any
from zlib import crc32

import pytest
from msgspec import Struct, field, structs

from mcp_baton.exceptions import Conflict, TaskFinished
from mcp_baton.protocol.json import Json, JsonObject, dumps
from mcp_baton.tasks.record import (
    ITEMS_PREFIX,
    PAUSE_REASON,
    PROGRESS,
    RESULT_PREFIX,
    Claim,
    NewTask,
    TaskRecord,
    TaskStatus,
    statuses_of,
)
from mcp_baton.tasks.store import Batch, ClearPause, SetPause, Written, write_decided
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.tools.calls import FIRST, Attempt
from mcp_baton.tools.outcomes import Failed, Outcome, Prepared, Succeeded
from mcp_baton.workflow.continuation import ContinuationCall, continuation_batch
from mcp_baton.workflow.definition import Step, Workflow
from mcp_baton.workflow.engine import Engine
from mcp_baton.workflow.run import RunInput, new_task
from mcp_baton.workflow.sources import Condition, FirstOf, constant, item, step_output
from tests.fakes import ScriptedHost, plan_of

CHUNKS = 20
SEEDS = int(os.environ.get("SEEDS", "20000")) // CHUNKS
RUN_INPUT = RunInput({}, {}, "kim")


class Killed(BaseException):
    """Raised when the function is killed."""


# Plans are plain data. A source is ("constant", value), ("item", path), ("output", step, path) or ("default", step,
# path, value). A condition is (operator, source, source), ("exists", source) or ("not", condition).


class Line(Struct):
    name: str
    arguments: dict[str, Any]
    when: Any = None
    each: Any = None
    after: tuple[str, ...] = ()
    parallel: int = 1
    checkpoint: bool = False

    @property
    def needs(self) -> set[str]:
        sources = [*self.arguments.values(), self.each]
        condition = self.when[1] if self.when and self.when[0] == "not" else self.when
        sources += condition[1:] if condition else ()
        return {source[1] for source in sources if source and source[0] in ("output", "default")} | set(self.after)


def random_plan(rng: Random) -> list[Line]:
    plan: list[Line] = []
    for number in range(rng.randint(1, 6)):
        line = Line(f"s{number}", {})
        names = [earlier_line.name for earlier_line in plan]
        if names and rng.random() < 0.35:
            line.each = ("output", rng.choice(names), rng.choice(["list", "list", "list", "list", "n"]))
            line.parallel = rng.choice([1, 2, 8])
        for argument in rng.sample("abc", rng.randint(0, 2)):
            line.arguments[argument] = random_source(rng, names, in_list=line.each is not None)
        if names and rng.random() < 0.35:
            line.when = random_condition(rng, names)
        if names and rng.random() < 0.2:
            line.after = (rng.choice(names),)
        line.checkpoint = rng.random() < 0.3
        plan.append(line)
    return plan


def random_source(rng: Random, names: list[str], *, in_list: bool) -> Any:
    kinds = ["constant", *(["item"] if in_list else []), *(["output", "output", "default"] if names else [])]
    match rng.choice(kinds):
        case "item":
            return ("item", rng.choice([None, "n", "n", "odd"]))
        case "output":
            return ("output", rng.choice(names), rng.choice([None, "n", "n", "n", "list", "list.0.n"]))
        case "default":
            return ("default", rng.choice(names), "n", rng.randint(0, 9))
    return ("constant", rng.randint(0, 9))


def random_condition(rng: Random, names: list[str]) -> Any:
    source = rng.choice([("output", rng.choice(names), "n"), ("default", rng.choice(names), "n", 5)])
    base = rng.choice([(rng.choice(["<", "==", ">="]), source, ("constant", rng.randint(0, 9))), ("exists", source)])
    return ("not", base) if rng.random() < 0.3 else base


def value_of(name: str, arguments: JsonObject) -> Json:
    """Return a tool's result for these arguments."""
    number = crc32(f"{name} {dumps(arguments, sort_keys=True)}".encode())
    elements = [{"n": index} if (number >> index) % 5 else {"odd": index} for index in range(number % 4)]
    return {"n": number % 10, "list": elements}


# The interpreter


class State(Struct):
    """The state after a run: results, elements and results of unfinished lists, and the pause reason."""

    statuses: dict[str, str]
    results: dict[str, Any] = field(default_factory=dict)
    lists: dict[str, tuple[list[Any], dict[int, Any]]] = field(default_factory=dict)
    pause: tuple[str, str, tuple[int, ...]] | None = None


class Pauses(Exception):
    """Raised when a step cannot run."""


def interpret(plan: list[Line], state: State, broken: set[str], *, parallel: bool) -> None:
    """Run a plan, one call after the other."""
    pauses = []
    for number, line in enumerate(plan):
        needs = line.needs if parallel else {earlier_line.name for earlier_line in plan[:number]}
        if state.statuses[line.name] in ("completed", "skipped"):
            continue
        if all(state.statuses[name] in ("completed", "skipped") for name in needs):
            try:
                run_line(line, state, broken)
            except Pauses as pause:
                pauses.append((pause.args[0], line.name, pause.args[1] if len(pause.args) > 1 else ()))
    state.pause = pauses[0] if pauses else None


def run_line(line: Line, state: State, broken: set[str]) -> None:
    if line.when is not None and not holds(line.when, state):
        state.statuses[line.name] = "skipped"
        state.results.pop(line.name, None)
        return
    if line.each is None:
        arguments = {name: resolve(source, state) for name, source in line.arguments.items()}
        if line.name in broken:
            fail(line, state, "broken")
        state.results[line.name] = value_of(line.name, arguments)
    else:
        run_list(line, state, broken)
    state.statuses[line.name] = "completed"


def run_list(line: Line, state: State, broken: set[str]) -> None:
    for source in line.arguments.values():
        if source[0] != "item" and not is_empty(line, state):
            resolve(source, state)
    value = resolve(line.each, state)
    if not isinstance(value, list):
        fail(line, state, "each: a list is needed, and the value is a number")
    elements, results = state.lists.setdefault(line.name, (value, {}))
    errors: dict[int, str] = {}
    item_keys = {name: source[1] for name, source in line.arguments.items() if source[0] == "item"}
    for index, element in enumerate(elements):
        if index in results:
            continue
        missing = [name for name, key in item_keys.items() if key and key not in element]
        if missing or f"{line.name}[{index}]" in broken:
            key = item_keys[missing[0]] if missing else ""
            errors[index] = f"no value for '{missing[0]}': the element has no '{key}'" if missing else "broken"
            continue
        arguments = {name: resolve(source, state) for name, source in line.arguments.items() if source[0] != "item"}
        arguments |= {name: element[key] if key else element for name, key in item_keys.items()}
        results[index] = value_of(line.name, arguments)
    if errors:
        first = min(errors)
        text = f"{len(errors)} of {len(elements)} calls failed; the call for element {first}: {errors[first]}"
        fail(line, state, text, tuple(errors))
    state.results[line.name] = [results[index] for index in range(len(elements))]
    del state.lists[line.name]


def is_empty(line: Line, state: State) -> bool:
    """Whether there is no call that needs the arguments."""
    try:
        return bool(resolve(line.each, state) == [])
    except Pauses:
        return False


def fail(line: Line, state: State, error: str, items: tuple[int, ...] = ()) -> None:
    state.statuses[line.name], state.results[line.name] = "failed", {"error": error}
    raise Pauses("toolError", items)


def resolve(source: Any, state: State) -> Any:
    match source:
        case ("constant", value):
            return value
        case ("output" | "default", name, path, *default):
            if state.statuses[name] != "completed":
                if default:
                    return default[0]
                raise Pauses("unresolvedDependency")
            value = state.results[name]
            for key in path.split(".") if path else ():
                try:
                    value = value[int(key) if isinstance(value, list) else key]
                except (LookupError, ValueError, TypeError):
                    if default:
                        return default[0]
                    raise Pauses("unresolvableParams") from None
            return value


def holds(condition: Any, state: State) -> bool:
    match condition:
        case ("not", inner):
            return not holds(inner, state)
        case ("exists", source):
            try:
                resolve(source, state)
            except Pauses:
                return False
            return True
        case (operator, *sources):
            left, right = (resolve(source, state) for source in sources)
            return bool({"<": left < right, "==": left == right, ">=": left >= right}[operator])
    raise ValueError(condition)


# The engine with the same plan


def workflow_of(plan: list[Line], parallel: int) -> Workflow:
    steps = [
        Step(
            line.name,
            {name: source_of(source) for name, source in line.arguments.items()},
            tool=line.name,
            when=None if line.when is None else condition_of(line.when),
            each=None if line.each is None else source_of(line.each),
            parallel=line.parallel,
            after=line.after,
            checkpoint=line.checkpoint,
        )
        for line in plan
    ]
    return Workflow(name="w", description="d", steps=steps, parallel=parallel)


def source_of(source: Any) -> Any:
    match source:
        case ("constant", value):
            return constant(value)
        case ("item", path):
            return item(path)
        case ("output", name, path):
            return step_output(name, path)
        case (_, name, path, default):
            return FirstOf((step_output(name, path), constant(default)))


def condition_of(condition: Any) -> Condition:
    if condition[0] == "not":
        return ~condition_of(condition[1])
    return Condition.of(condition[0], *map(source_of, condition[1:]))


class OneTask:
    """An in-memory task store with one task. Every claim succeeds, as if the earlier one had expired."""

    def __init__(self) -> None:
        self.task: Any = None
        self.supplied: dict[str, Json] = {}

    def now_ms(self) -> int:
        return 0

    def create(self, new: NewTask) -> TaskRecord:
        variables = deepcopy(dict(new.variables))
        self.task = TaskRecord("kim", "t", TaskStatus.WORKING, "", "", 1, 1, variables, claim=new.claim)
        self.task = structs.replace(self.task, workflow=new.workflow, definition=new.definition)
        return self.task  # type: ignore[no-any-return]

    def take(self, _owner: str, _id: str, _workflow: str, claim: Claim) -> TaskRecord:
        if self.task.status.terminal:
            raise TaskFinished(self.task)
        self.task = structs.replace(self.task, claim=claim)
        return self.task  # type: ignore[no-any-return]

    def write(self, task: TaskRecord, batch: Batch) -> Written:
        current, variables = self.task, deepcopy(dict(self.task.variables))
        variables |= deepcopy(dict(batch.variables))
        steps, stored_statuses = variables[PROGRESS]["steps"], list(statuses_of(current).values())
        has_moved = batch.same_version and current.version != task.version
        if has_moved or any(stored_statuses[write.index] is not write.expected for write in batch.steps):
            raise Conflict(current)
        for write in batch.steps:
            steps[write.index]["status"] = write.status.value
            if write.status.value != "skipped":
                variables[f"{RESULT_PREFIX}{write.name}"] = write.result
        if isinstance(batch.pause, SetPause):
            variables[PAUSE_REASON] = batch.pause.reason
        elif isinstance(batch.pause, ClearPause):
            variables.pop(PAUSE_REASON, None)
        for name in batch.removed:
            variables.pop(name, None)
        status = TaskStatus.COMPLETED if batch.result is not None else current.status
        self.task = structs.replace(current, variables=variables, status=status, version=current.version + 1)
        return Written(self.task)

    def renew(self, task: TaskRecord, claim: Claim) -> TaskRecord:
        return structs.replace(task, claim=claim)

    def read_status(self, _owner: str, _id: str) -> Any:
        return self.task


@dataclass
class PlanHost(ScriptedHost):
    """Makes the calls of a plan. The function is killed at call number `kill_at`."""

    announces = False
    broken: set[str] = dataclass_field(default_factory=set)
    kill_at: int = 0
    happens: Callable[[str], None] = lambda _place: None

    def run(self, prepared: Prepared, _variables: Any, attempt: Attempt = FIRST) -> Outcome:
        self.kill_at -= 1
        if self.kill_at == 0:
            raise Killed
        place = attempt.key() if attempt.key else ""
        self.log.append(place)
        self.happens(place)
        if place in self.broken:
            return Failed("broken")
        return Succeeded(value_of(prepared.name, prepared.arguments))


def state_of(task: TaskRecord) -> State:
    variables: Any = task.variables
    pause = variables.get(PAUSE_REASON)
    results, lists = (
        {name.removeprefix(prefix): value for name, value in variables.items() if name.startswith(prefix)}
        for prefix in (RESULT_PREFIX, ITEMS_PREFIX)
    )
    items = tuple(failed_item["index"] for failed_item in pause.get("failedItems", ())) if pause else ()
    return State(
        {name: status.value for name, status in statuses_of(task).items()},
        results,
        {
            name: (entry["elements"], {int(at): value for at, value in entry["results"].items()})
            for name, entry in lists.items()
        },
        (pause["type"], pause.get("failedStep", pause.get("blockedStep")), items) if pause else None,
    )


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_plan_ends_as_in_a_simple_interpreter(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # The idempotency key names the step and the element, so that the host can identify the call.
    monkeypatch.setattr("mcp_baton.workflow.engine.step_key", lambda _task, name, _arguments: lambda: name)
    for seed in range(chunk * SEEDS, (chunk + 1) * SEEDS):
        check(seed)


def check(seed: int) -> None:
    rng = Random(seed)
    plan, parallel = random_plan(rng), rng.choice([1, 1, 2, 8])
    workflow, store = workflow_of(plan, parallel), OneTask()
    expected = State({line.name: "pending" for line in plan})
    calls = [*(line.name for line in plan), *(f"{line.name}[{index}]" for line in plan for index in range(3))]
    broken = {name for name in calls if rng.random() < 0.2}
    store.create(new_task(workflow, RUN_INPUT, "kim", None))
    for _ in range(4):
        interpret(plan, expected, broken, parallel=parallel > 1)
        for kill_at in [*(rng.randint(1, 6) for _ in range(rng.randint(0, 2))), 0]:
            run_engine(workflow, store, broken, kill_at, rng)
        assert state_of(store.task) == expected, f"seed {seed}"
        if expected.pause is None:
            break
        broken = {name for name in broken if rng.random() < 0.5}
    assert store.task.status.terminal == (expected.pause is None), f"seed {seed}"


def supply_an_element(workflow: Workflow, store: OneTask, broken: set[str], rng: Random, place: str) -> None:
    """During the call of an element, sometimes make another element's call as a client."""
    step = workflow.step(place.partition("[")[0])
    plan = plan_of(store.task, workflow)
    items = plan.known.items_of(step) if step and plan.known and not store.task.status.terminal else None
    if "[" not in place or step is None or plan.known is None or items is None or rng.random() > 0.2:
        return
    calls = {position: plan.known.at(items.elements[position]).arguments_of(step) for position in items.open}
    index = rng.choice([*calls, None])
    if index is None or list(calls.values()).count(calls[index]) > 1 or not isinstance(calls[index], dict):
        return
    name, arguments = step.name, calls[index]
    if f"{name}[{index}]" in broken or not isinstance(arguments, dict):
        return
    call, outcome = ContinuationCall(name, arguments), Succeeded(value_of(name, arguments))

    def decide(task: TaskRecord) -> Batch:
        return continuation_batch(plan_of(task, workflow), call, outcome, TaskVariables(task.variables))

    write = write_decided(store, store.task, decide, attempts=9, sleep=lambda _: None)  # type: ignore[arg-type]
    store.supplied[f"{name}[{index}]"] = outcome.value
    check_supplied(store, write.task)


def check_supplied(store: OneTask, task: TaskRecord) -> None:
    """Check that each result of a client is stored: among the elements, or in the list of results."""
    state = state_of(task)
    for place, value in store.supplied.items():
        name, _, index = place.removesuffix("]").partition("[")
        results = state.lists[name][1] if name in state.lists else state.results[name]
        assert results[int(index)] == value


def run_engine(workflow: Workflow, store: OneTask, broken: set[str], kill_at: int, rng: Random) -> None:
    if store.task.status.terminal:
        return
    supply = partial(supply_an_element, workflow, store, broken, rng)
    host = PlanHost(pick=rng.randrange, broken=broken, kill_at=kill_at, happens=supply)
    engine = Engine(host, store)  # type: ignore[arg-type]
    state_before = state_of(store.task)
    settled = {name for name, status in state_before.statuses.items() if status in ("completed", "skipped")}
    settled |= {f"{name}[{index}]" for name, (_, results) in state_before.lists.items() for index in results}
    with suppress(Killed):
        engine.resume(workflow, RUN_INPUT, engine.take(workflow, "kim", "t"))
    check_supplied(store, store.task)
    assert settled.isdisjoint(host.log)
    assert len(host.log) == len(set(host.log))
    assert host.most_at_once <= max(workflow.parallel, 1) * max(step.parallel for step in workflow.steps)

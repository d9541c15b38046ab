"""Mutants: Baton with one of its guards taken out. A simulation that notices none of them proves nothing.

Each must break an invariant within `MOST_SEEDS` seeds.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import pytest
from msgspec import structs

from mcp_baton import Workflow
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.methods import prompts, subscriptions, tasks
from mcp_baton.server.schema.prompt_arguments import ArgumentRefused
from mcp_baton.server.workflows import continuations, runs, task_view
from mcp_baton.server.workflows.continuations import recorded_meta
from mcp_baton.server.workflows.task_view import ViewOptions
from mcp_baton.tasks.dynamodb import expressions, items, listing, table
from mcp_baton.tasks.dynamodb.counting import LiveTasks
from mcp_baton.tasks.dynamodb.table import RetryPolicy
from mcp_baton.tasks.record import RESULT_PREFIX, Claim, StepStatus, TaskRecord, TaskStanding
from mcp_baton.workflow import engine
from mcp_baton.workflow.lease import Began, Lease
from mcp_baton.workflow.run import Run
from tests.simulation.harness import Outcome, simulate, simulating
from tests.simulation.jobs.background import BackgroundWorld
from tests.simulation.jobs.world import JobWorld
from tests.simulation.questions import QuestionWorld
from tests.simulation.rewriting import without_action, without_condition
from tests.simulation.world import Rewrite, World

MOST_SEEDS = 3_000

type Patch = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True)
class Mutant:
    """Baton with a guard taken out.

    Attributes:
        name: What is taken out, or done wrong.
        rewrite: What becomes of its requests.
        patch: What is changed in its code.
        is_rare: Whether it takes hundreds of seeds to notice.
        kind: What is simulated.
    """

    name: str
    rewrite: Rewrite | None = None
    patch: Patch | None = None
    is_rare: bool = False
    kind: type[World] = World


def killed_by(mutant: Mutant, seeds: range = range(MOST_SEEDS)) -> Outcome | None:
    """The first simulation that notices a mutant; `None` where none does."""
    with simulating(), pytest.MonkeyPatch.context() as patch:
        if mutant.patch:
            mutant.patch(patch)
        for seed in seeds:
            outcome = simulate(seed, mutant.kind, rewrite=mutant.rewrite)
            if outcome.broken:
                return outcome
    return None


def _tokens_short_lived(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(expressions, "old_set_at", lambda now_ms: expressions.set_at(now_ms - expressions.SPAN_MS))


def _tokens_not_looked_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(table, "has_token", lambda _item, _token: False)


def _completed_steps_forgotten(patch: pytest.MonkeyPatch) -> None:
    def carried(_task: object, workflow: Workflow) -> dict[str, StepStatus]:
        return {step.name: StepStatus.PENDING for step in workflow.steps}

    patch.setattr(engine, "carried", carried)


def _with_another_status(patch: pytest.MonkeyPatch) -> None:
    def other(task: TaskRecord, options: ViewOptions) -> dict[str, Json]:
        view = task_view.task_view(task, options)
        return view | {"status": "working" if view["status"] == "completed" else view["status"]}

    patch.setattr(tasks, "task_view", other)


def _without_variables(patch: pytest.MonkeyPatch) -> None:
    def without(task: TaskRecord, options: ViewOptions) -> dict[str, Json]:
        return task_view.task_view(task, structs.replace(options, values=task_view.NONE))

    patch.setattr(tasks, "task_view", without)


def _unmarked_results(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(task_view, "facts_of", lambda _task: {})
    patch.setattr(task_view, "result_mark", lambda _task: {})


def _all_results_marked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(task_view, "facts_of", lambda _task: {"result_by": "client"})
    patch.setattr(task_view, "result_mark", lambda _task: {task_view.RESULT_BY_KEY: "client"})


def _all_completed(patch: pytest.MonkeyPatch) -> None:
    def completed(*given: Any) -> dict[str, Json]:
        meta = recorded_meta(*given)
        steps = cast("list[dict[str, Json]]", meta["steps"])
        return meta | {"steps": [step | {"status": "completed"} for step in steps]}

    patch.setattr(continuations, "recorded_meta", completed)


def _always_unknown(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(continuations, "recorded_meta", lambda *given: recorded_meta(*given) | {"recorded": "unknown"})


def _runs_always_unknown(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(prompts, "run_meta", lambda *given: runs.run_meta(*given) | {"persisted": "unknown"})


def _expiry(expires: Callable[[int], int]) -> Rewrite:
    """Values outside the heads are written with another time of expiry."""

    def rewrite(sent: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        item = request.get("Item", {})
        if sent != "PutItem" or not item["pk"]["S"].startswith("VALUE#"):
            return request
        return {**request, "Item": {**item, "expires_at": {"N": str(expires(int(item["expires_at"]["N"])))}}}

    return rewrite


def _stale_reads(sent: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**request, "ConsistentRead": False} if sent in {"GetItem", "Query"} else request


def _one_owner(_sent: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", _renamed(request))


def _renamed(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: _renamed(member) for name, member in value.items()}
    return re.sub("^OWNER#p#", "OWNER#o#", value) if isinstance(value, str) else value


def _one_shard_listed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(listing, "shard_names", lambda _shards: items.shard_names(1))


def _nothing_listed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(task_view, "listed_meta", lambda _task, _now_ms: {})


def _nothing_counted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LiveTasks, "enter", lambda *_: None)


def _counted_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LiveTasks, "leave", lambda *_: None)


def _unconditional_counts(sent: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
    return without_condition("")(sent, request) if request.get("Key", {}).get("sk") == {"S": "COUNT"} else request


def _silent_streams(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(subscriptions, "_notified_state", lambda _task: "as it was")


def _claims_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Lease, "begin", lambda self: Began(self._store.now_ms(), self._clock()))
    patch.setattr(Lease, "pulse", lambda _self: 15.0)


def _old_claims_believed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TaskStanding, "claim", property(lambda _self: Claim("another", 0, 1_000)))


def _throttled_once(patch: pytest.MonkeyPatch) -> None:
    pause_s = RetryPolicy.pause_s

    def once(self: RetryPolicy, *given: Any, throttled: bool) -> float | None:
        return None if throttled else pause_s(self, *given, throttled=throttled)

    patch.setattr(RetryPolicy, "pause_s", once)


def _used_answers_replaced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(runs, "_new_answers", lambda _workflow, _task, answers: dict(answers))


def _answers_dropped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Run, "take_answers", lambda _self: None)


def _answers_given_once(patch: pytest.MonkeyPatch) -> None:
    def refusing(_workflow: Workflow, task: TaskRecord, answers: Mapping[str, JsonObject]) -> Mapping[str, JsonObject]:
        if any(RESULT_PREFIX + name in task.variables for name in answers):
            raise ArgumentRefused("the answer cannot be changed")
        return answers

    patch.setattr(runs, "_new_answers", refusing)


STEP = r"variables\._workflow\.progress\.steps\[\d+\]\.status="

MUTANTS = (
    Mutant("writes are applied however often they are sent", without_condition(r"NOT contains\(w")),
    Mutant("writes leave no token", without_action("ADD w")),
    Mutant("each write drops the tokens of the last minute", patch=_tokens_short_lived, is_rare=True),
    Mutant("a write that landed is not recognised by its token", patch=_tokens_not_looked_for),
    Mutant("a task that is over can be written to", without_condition("status IN")),
    Mutant("a task that has expired can be written to", without_condition("expires_at>"), is_rare=True),
    Mutant("a new task takes the place of another", without_condition(r"attribute_not_exists\(pk", "PutItem")),
    Mutant("a step is written whatever its status", without_condition(STEP)),
    Mutant("progress is replaced whatever it was", without_condition(r"variables\._workflow\.progress="), is_rare=True),
    Mutant("a run writes without its claim", without_condition(r"run\.id=")),
    Mutant("a live claim can be taken", without_condition(r"\(run\.until<")),
    Mutant("takers are not counted", without_action(r"SET run\.number=")),
    Mutant("a run does not give its claim up", without_action(r"SET run\.until=")),
    Mutant("a poll tells another status", patch=_with_another_status),
    Mutant("a poll of a job tells another status", patch=_with_another_status, kind=JobWorld),
    Mutant("a poll tells no variables", patch=_without_variables),
    Mutant("a result that a client supplied is not marked", patch=_unmarked_results),
    Mutant("a job's result that a client supplied is not marked", patch=_unmarked_results, kind=JobWorld),
    Mutant("a result is marked as a client's that is not", patch=_all_results_marked),
    Mutant("a continuation calls all steps completed", patch=_all_completed),
    Mutant("a continuation is always uncertain", patch=_always_unknown),
    Mutant("a run is always uncertain", patch=_runs_always_unknown),
    Mutant("values are kept for ever, as their expiry is in milliseconds", _expiry(lambda seconds: seconds * 1000)),
    Mutant("values expire before their task", _expiry(lambda seconds: seconds - 2 * 86_400)),
    Mutant("reads of tasks are stale", _stale_reads),
    Mutant("streams tell what stale reads return", _stale_reads, kind=JobWorld),
    Mutant("owners see each other's tasks", _one_owner),
    Mutant("a list has the tasks of one shard", patch=_one_shard_listed),
    Mutant("a list does not tell where tasks stand", patch=_nothing_listed),
    Mutant("an owner may have any number of tasks", patch=_nothing_counted, is_rare=True),
    Mutant("tasks that are over count against the limit", patch=_counted_for_ever),
    Mutant("tasks are counted as over that were never counted", _unconditional_counts),
    Mutant("a stream does not tell that its task is over", patch=_silent_streams),
    Mutant("a run begins calls without looking at its claim", patch=_claims_not_looked_at, is_rare=True),
    Mutant("a run stops for an older claim than its own", patch=_old_claims_believed),
    Mutant("a request that was throttled is not sent again", patch=_throttled_once),
    *(
        Mutant(name, rewrite, kind=JobWorld, is_rare=is_rare)
        for name, rewrite, is_rare in (
            ("a job is begun that another worker holds", without_condition(r"\(run\.until<"), False),
            ("a job is begun that waits for its client", without_condition("status="), False),
            ("a job is begun any number of times", without_condition(r"run\.number<allowed"), False),
            ("attempts are not counted", without_action(r"SET run\.number="), False),
            ("a job is dispatched again before it is due", without_condition("due<"), True),
            ("a job that is dispatched again stays due", without_action("SET due="), False),
            ("a job is dispatched again or given up that a worker holds", without_condition(r"run\.until<"), True),
            ("a job is given up that has attempts left", without_condition(r"run\.number>="), True),
            ("a worker writes without its claim", without_condition(r"run\.id="), False),
            ("a worker writes that has given its job up", without_condition(r"run\.until>"), True),
            ("a job that is over is written to", without_condition("status IN"), False),
            ("answers are decided on what was long ago", without_condition("version="), False),
            ("attempts are not counted anew after an answer", without_action("SET allowed="), False),
            ("writes of jobs are applied however often they are sent", without_condition(r"NOT contains\(w"), True),
        )
    ),
    Mutant("a worker hands over and keeps its claim", without_action(r"SET run\.until="), kind=BackgroundWorld),
    Mutant("a worker runs completed steps again", patch=_completed_steps_forgotten, kind=BackgroundWorld),
    Mutant("an answer is replaced after it was used", patch=_used_answers_replaced, kind=QuestionWorld),
    Mutant("answers are accepted and not stored", patch=_answers_dropped, kind=QuestionWorld),
    Mutant("an equal answer is refused", patch=_answers_given_once, kind=QuestionWorld),
    Mutant("a run with answers writes without its claim", without_condition(r"run\.id="), kind=QuestionWorld),
)

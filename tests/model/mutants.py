"""Faults of the engine, mostly of combinations, each with a plan in which the model notices it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from mcp_baton.approvals import decisions, gate
from mcp_baton.approvals import request as approval_request
from mcp_baton.background import waiting
from mcp_baton.background.items import DynamoDBJobStore
from mcp_baton.callbacks import endpoint as callbacks
from mcp_baton.present import mcp_task, pause_sentences, stored_task, task_action
from mcp_baton.tasks.keys import own_key
from mcp_baton.tasks.record import StepStatus
from mcp_baton.tools.calls import ToolCall
from mcp_baton.tools.secrets import Secrets
from mcp_baton.workflow import (
    batch,
    client_questions,
    continuation,
    continuations,
    ended_run,
    pause,
    resolve,
    runs,
    state,
    write,
)
from mcp_baton.workflow import run as running
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.definition_changes import statuses_under
from mcp_baton.workflow.list_elements import ListElements
from mcp_baton.workflow.pause import StepFailed
from mcp_baton.workflow.plan import Plan as TaskPlan
from mcp_baton.workflow.remaining import RemainingCalls
from mcp_baton.workflow.resolve import KnownValues
from mcp_baton.workflow.run import WorkflowRun
from mcp_baton.workflow.source_values import Missing
from mcp_baton.workflow.steps import tool_step
from mcp_baton.workflow.steps.list_step import ListRun
from mcp_baton.workflow.steps.step import Step
from mcp_baton.workflow.steps.tool_step import ToolStep
from mcp_baton.workflow.steps.wait import Callback
from tests.model.driver import Difference
from tests.model.examples import EXAMPLES
from tests.model.kills import drive_with_kills
from tests.model.plan import Approval, Line, Plan, Retry, Tool, World
from tests.model.shrink import difference


@dataclass(frozen=True)
class Mutant:
    """A fault: `target.name` is replaced by `value`.

    Attributes:
        example: The example that notices it, instead of `plan` and `world`.
    """

    fault: str
    target: object
    name: str
    value: Any
    plan: Plan = field(default_factory=lambda: Plan([], {}))
    world: World = field(default_factory=World)
    example: str = ""


def is_noticed(mutant: Mutant) -> bool:
    with patch.object(mutant.target, mutant.name, mutant.value):
        return bool(difference_of(mutant))


def difference_of(mutant: Mutant) -> str:
    """Return the difference of the mutant's plan, or an empty text."""
    plan, world = mutant.plan, mutant.world
    if mutant.example:
        found = next(example for example in EXAMPLES if example.name == mutant.example)
        plan, world = found.plan, found.world
    if not world.kills:
        return difference(plan, world)
    try:
        drive_with_kills(plan, world)
    except Difference as error:
        return str(error)
    return ""


FIVE = {"x": ("constant", 5)}
ALWAYS = (">=", ("output", "s0", "n"), ("constant", 0))
NEVER = (">", ("output", "s0", "n"), ("constant", 9))


def call(name: str, **options: Any) -> Line:
    """A step that calls the tool of the same number."""
    return Line(name, tool=name.replace("s", "t"), **{"arguments": FIVE, **options})


def plan_of(
    *lines: Line, parallel: int = 1, way: str = "tool", secret: bool = False, **options: dict[str, Any]
) -> Plan:
    """A plan whose tools have these options."""
    names = {line.tool for line in lines if line.tool}
    return Plan(
        list(lines), {name: Tool(name, **options.get(name, {})) for name in names}, parallel, way, secret=secret
    )


GUARDED = {"approval": Approval()}
LONG_RETRY = Retry(2, 3600.0)
APPROVAL_IN_BACKGROUND = plan_of(call("s0"), way="task", t0=GUARDED)
SLEEP_IN_BACKGROUND = plan_of(Line("s0", "sleep", within_s=3600.0), way="task")
TWO_AFTER_ANOTHER = plan_of(call("s0"), call("s1", arguments={"x": ("output", "s0", "n")}), parallel=2)
SECRET_MISSING = plan_of(call("s0", arguments={"y": ("secret",)}), secret=True)
LIST = plan_of(call("s0", arguments={"x": ("item", None)}, each=("constant", [3, 8])))

_uses, _follows, _output = Step.uses, Step.follows, KnownValues._output  # noqa: SLF001
_questions, _pause, _ready = KnownValues.open_questions, ListRun.pause, Workflow.ready
_pauses_with, _what_happened_within = TaskPlan.pauses_with, pause_sentences.what_happened_within
_may_retry: Callable[..., bool] = tool_step._may_retry  # noqa: SLF001
Gate = gate._Gate  # noqa: SLF001


CONDITIONS = (
    Mutant(
        "a condition is never false",
        KnownValues,
        "decide_condition",
        lambda *_: True,
        plan_of(call("s0"), call("s1", when=NEVER)),
    ),
    Mutant(
        "exists is always true",
        KnownValues,
        "_exists",
        lambda *_: True,
        plan_of(call("s0", when=("exists", ("argument", "b")))),
    ),
    Mutant(
        "a default is used before its step is settled",
        KnownValues,
        "_output",
        lambda *args: _output(*args) if args[2].name in args[0].outputs else Missing(args[1]),
        plan_of(
            Line("s0", "model"),
            call("s1"),
            Line("s2", "model", arguments={"v": ("default", ("output", "s1", "n"), 7)}),
        ),
        World(answers={"s0": 1, "s2": 2}),
    ),
    Mutant(
        "a step in or_default(…) does not know which tool sets its variable",
        Step,
        "follows",
        lambda step, other, _: _follows(step, other, {}),
        example="a step that uses a task variable in or_default(…) needs all earlier steps",
    ),
)

PARALLEL = (
    Mutant(
        "parallel steps ignore after",
        Step,
        "follows",
        lambda step, other, _: _uses(step, other.binding),
        plan_of(Line("s0", "sleep", within_s=300.0), call("s1", after=("s0",)), parallel=2),
    ),
    Mutant("parallel steps ignore data flow", Step, "uses", lambda *_: False, TWO_AFTER_ANOTHER),
    Mutant(
        "only the first open step runs, although others need nothing of it",
        Workflow,
        "ready",
        lambda self, statuses, started=(): (
            step for step in list(_ready(self, statuses))[:1] if step.name not in started
        ),
        plan_of(Line("s0", "sleep", within_s=300.0), call("s1"), parallel=2),
    ),
    Mutant(
        "a pause lists questions as the run has stopped at them",
        WorkflowRun,
        "_update_questions",
        lambda *_: None,
        example="a pause of parallel steps lists only some of the open questions",
    ),
    Mutant(
        "only the reason of the first stopped step is stored",
        batch,
        "stored_pauses",
        lambda reasons: tuple(reasons[:1]),
        plan_of(Line("s0", "model"), call("s1"), parallel=2, t1={"fails": 1}),
        World(answers={"s0": 1}),
    ),
    Mutant(
        "a step that needs the model does not end a call if another step waits",
        ended_run,
        "suspends",
        lambda pauses: any(pause.type == "waiting" for pause in pauses),
        example="a step that needs the model does not end a call whose first stopped step waits",
    ),
    Mutant(
        "the text of a task tells only the first stopped step",
        task_action,
        "what_happened_within",
        lambda pauses, room: _what_happened_within(pauses[:1], room),
        plan_of(Line("s0", "model"), Line("s1", "sleep", within_s=300.0), parallel=2),
        World(answers={"s0": 1}),
    ),
)

EARLY = (
    Mutant(
        "a pause lists only the first question",
        KnownValues,
        "open_questions",
        lambda known: dict(list(_questions(known).items())[:1]),
        plan_of(Line("s0", "model"), Line("s1", "user")),
        World(answers={"s0": 1, "s1": 2}),
    ),
    Mutant(
        "a form is not shown",
        client_questions,
        "unanswered_questions",
        lambda _: None,
        plan_of(Line("s0", "user"), call("s1")),
        World(answers={"s0": 1}, form=True),
    ),
    Mutant(
        "a resume uses early values at once",
        WorkflowRun,
        "_hold_early",
        lambda _: None,
        example="an answer that comes early settles a question whose condition is false",
    ),
    Mutant(
        "an early value settles its step before those that it follows",
        KnownValues,
        "may_settle",
        lambda known, step: known.decide_condition(step) is True,
        example="an early answer settles a question before the steps that it follows",
    ),
    Mutant(
        "an early value is not used",
        WorkflowRun,
        "_use_early",
        lambda *_: False,
        plan_of(call("s0"), Line("s1", "model", when=ALWAYS)),
        World(answers={"s1": 1}, early=("s1",)),
    ),
    Mutant(
        "a callback never counts as early",
        callbacks,
        "EARLY_PREFIX",
        "_workflow.other.",
        example="an early callback completes a step whose condition has no result",
    ),
    Mutant(
        "a run does not go on with a callback that comes while it runs",
        WorkflowRun,
        "settled_meanwhile",
        lambda *_: [],
        plan_of(
            call("s0"),
            call("s1"),
            Line("s2", "callback", within_s=7200.0),
            call("s3"),
            t0={"callback": "s2"},
            t1={"fails": 1},
        ),
        World(meanwhile="callback", seed=0),
    ),
)

LISTS = (
    Mutant(
        "the results of a list are in the wrong order",
        ListElements,
        "in_order",
        property(lambda items: [items.known[index] for index in reversed(range(len(items.elements)))]),
        LIST,
    ),
    Mutant(
        "a call that names an element is none",
        continuation,
        "_count_elements",
        lambda *_: 0,
        example="a retryable list whose arguments have no value never ends",
    ),
    Mutant(
        "a call with a bare id never means an element of a list",
        continuation,
        "_fitting",
        lambda *_: None,
        plan_of(call("s0", arguments={"x": ("item", None)}, each=("constant", [3, 8])), t0={"fails": 1}),
        World(seed=13),
    ),
    Mutant(
        "a list forgets the elements that failed",
        ListRun,
        "pause",
        lambda run: None if run.unapproved_count else _pause(run),
        example="the pause of a list says that an element has failed, although it waits for an approval",
    ),
    Mutant(
        "the elements and results of the first run do not stay",
        resolve,
        "stored_items",
        lambda *_, **__: None,
        plan_of(
            call("s0", arguments={"x": ("item", None)}, each=("constant", [3, 8])), t0={"approval": Approval(above=4)}
        ),
    ),
    Mutant(
        "an element that lacks a value makes its step retryable",
        state,
        "ToolError",
        lambda text, **_: ValueError(text),
        plan_of(call("s0", arguments={"x": ("item", "n")}, each=("constant", [{"n": 3}, {}]), retryable=True)),
    ),
)

RETRIES = (
    Mutant(
        "a failed call is not retried",
        tool_step,
        "_may_retry",
        lambda *_: False,
        plan_of(call("s0", retry=Retry(2, 1.0)), t0={"fails": 1}),
    ),
    Mutant(
        "a call is retried once too often",
        tool_step,
        "_may_retry",
        lambda step, failed, attempts: _may_retry(step, failed, attempts - 1),
        plan_of(call("s0", retry=Retry(2, 1.0)), t0={"fails": 3}),
    ),
    Mutant(
        "a call with a masked error is retried",
        tool_step,
        "_may_retry",
        lambda step, _, attempts: step.retry is not None and attempts < step.retry.attempts,
        plan_of(call("s0", retry=Retry(2, 1.0)), t0={"fails": 1, "masked": True}),
    ),
    Mutant(
        "attempts are counted from 1 after a long wait",
        ToolStep,
        "earlier_attempts",
        lambda *_: 0,
        plan_of(call("s0", retry=LONG_RETRY), way="task", t0={"fails": 3}),
    ),
    Mutant(
        "a long retry does not become a wait",
        WorkflowRun,
        "next_attempt_ms",
        lambda *_: None,
        plan_of(call("s0", retry=LONG_RETRY), way="task", t0={"fails": 1}),
    ),
    Mutant(
        "a run that wakes for another step makes the next attempt, too",
        ToolStep,
        "may_start",
        Step.may_start,
        plan_of(call("s0", retry=LONG_RETRY), call("s1"), parallel=2, way="task", t0={"fails": 1}, t1=GUARDED),
    ),
    Mutant(
        "a run that wakes for another step makes the next attempt of an element, too",
        ListRun,
        "retry_ms",
        lambda *_: 0,
        plan_of(
            call("s0", retry=LONG_RETRY, each=("constant", [3]), arguments={"x": ("item", None)}),
            call("s1"),
            parallel=2,
            way="task",
            t0={"fails": 1},
            t1=GUARDED,
        ),
    ),
)

WAITS = (
    Mutant(
        "a sweep finds no call whose wait has ended", DynamoDBJobStore, "due", lambda _: iter(()), SLEEP_IN_BACKGROUND
    ),
    Mutant("a wait ends at once", WorkflowRun, "end_of_wait", lambda _run, _until, now_ms: now_ms, SLEEP_IN_BACKGROUND),
    Mutant(
        "a callback that does not come skips its step in any case",
        Callback,
        "on_timeout",
        property(lambda _: "skip"),
        plan_of(call("s0"), Line("s1", "callback", within_s=7200.0), t0={"callback": "s1"}),
        World(silent=("s1",)),
    ),
    Mutant(
        "a call in the background does not know that its steps wait",
        ended_run,
        "suspends",
        lambda _: False,
        SLEEP_IN_BACKGROUND,
    ),
    Mutant("a decision does not wake a call", decisions, "wake", lambda *_: True, APPROVAL_IN_BACKGROUND),
    Mutant(
        "a call whose first step waits for an approval waits for nothing else",
        waiting.Waits,
        "due_ms",
        lambda self, now_ms: min([now_ms + 10**9, *self.ends_ms]),
        plan_of(call("s0"), way="task", t0={"approval": Approval(expires_s=3600.0)}),
        World(expiring=("s0",)),
    ),
)

APPROVALS = (
    Mutant(
        "an approval is used once, also after a clean failure",
        Gate,
        "_most_uses",
        property(lambda _: 1),
        example="an approval is not used again after a clean failure",
    ),
    Mutant(
        "an approval covers each failed call",
        Gate,
        "_most_uses",
        property(lambda _: 99),
        plan_of(call("s0", retryable=True), t0={"approval": Approval(), "fails": 3}),
    ),
    Mutant(
        "an approval is not freed after a clean failure",
        gate.UsedApproval,
        "end",
        lambda *_: None,
        plan_of(call("s0", retry=Retry(3, 1.0)), t0={"approval": Approval(), "fails": 1}),
    ),
    Mutant(
        "an approval covers all elements of a list",
        approval_request,
        "digest_of",
        lambda _: "0" * 64,
        plan_of(call("s0", arguments={"x": ("item", None)}, each=("constant", [3, 8])), t0=GUARDED),
    ),
    Mutant(
        "the model cannot supply an argument of a tool with only_in",
        ToolCall,
        "allows",
        lambda tool_call, _: tool_call.by.startswith("run:"),
        plan_of(call("s0", arguments={}), t0={"only_in": True}),
    ),
)

CONTINUATIONS = (
    Mutant(
        "the name of a step is ignored",
        continuations,
        "named_step",
        lambda *_: None,
        example="a missing value that equals that of an earlier call of the same tool is not recorded in its step",
    ),
    Mutant(
        "a call that came early counts although the condition of its step is false",
        continuation,
        "_early_note",
        lambda *_: {},
        plan_of(call("s0"), Line("s1", tool="t0", arguments=FIVE, when=NEVER), t0={"fails": 1}),
        World(seed=49),
    ),
    Mutant(
        "the result of a call that came early is lost if the condition of its step is false",
        batch,
        "_extras",
        lambda *_: {},
        plan_of(call("s0"), Line("s1", tool="t0", arguments=FIVE, when=NEVER), t0={"fails": 1}),
        World(seed=49),
    ),
    Mutant(
        "the result of a call does not settle its step",
        continuation,
        "status_of",
        lambda _: StepStatus.PENDING,
        plan_of(call("s0", arguments={})),
    ),
    Mutant(
        "a call leaves the pause of its step",
        TaskPlan,
        "pauses_with",
        lambda plan, name, reason: None if reason is None else _pauses_with(plan, name, reason),
        plan_of(call("s0", arguments={}), call("s1")),
    ),
    Mutant(
        "a run overwrites what a call has recorded meanwhile by nothing",
        write,
        "MAX_WRITE_ATTEMPTS",
        0,
        plan_of(call("s0"), call("s1"), call("s2"), t0={"fails": 1}, t1={"fails": 1}),
        World(meanwhile="call", seed=1),
    ),
)

CHANGES = (
    Mutant(
        "a changed completed step is accepted",
        runs,
        "conflicting_steps",
        lambda *_: [],
        plan_of(call("s0"), Line("s1", "model")),
        World(answers={"s1": 1}, changes=9, seed=1),
    ),
    Mutant(
        "a resume runs completed steps again",
        running,
        "statuses_under",
        lambda task, workflow: dict.fromkeys(statuses_under(task, workflow), StepStatus.PENDING),
        plan_of(call("s0"), call("s1"), t1={"fails": 1}),
    ),
    Mutant(
        "a resume does not move the task to a changed definition",
        running,
        "move_to",
        lambda *_: None,
        plan_of(call("s0"), Line("s1", "model")),
        World(answers={"s1": 1}, changes=9, seed=4),
    ),
)

SECRETS = (
    Mutant(
        "an error has the secret that it quotes",
        Secrets,
        "hide_text",
        lambda _, text: text,
        plan_of(call("s0", arguments={"x": ("secret",)}), secret=True, t0={"fails": 1}),
    ),
    Mutant("a call is stored with its secrets", continuation, "stored_call", lambda made, _: made, SECRET_MISSING),
    Mutant(
        "people see a secret",
        approval_request,
        "hidden_in",
        lambda *_: frozenset(),
        plan_of(call("s0", arguments={"x": ("secret",)}), secret=True, t0=GUARDED),
    ),
)

VIEWS = (
    Mutant(
        "tasks/get does not see a decision",
        mcp_task,
        "view_of",
        lambda task, now_ms, *_: stored_task.view_of(task, now_ms),
        plan_of(call("s0"), t0=GUARDED),
    ),
    Mutant(
        "a status message says that a person is waited for",
        pause_sentences,
        "WAITS_FOR_MODEL",
        "waits for an approval of people",
        plan_of(call("s0", arguments={})),
    ),
    Mutant(
        "next has a call that failed and fails again",
        StepFailed,
        "fails_again",
        False,
        plan_of(call("s0"), t0={"fails": 1}),
    ),
    Mutant(
        "the handoff lists a question among the calls",
        RemainingCalls,
        "_steps",
        lambda calls: calls.known.open_steps,
        example="the handoff has an empty line for a question, and suggests a call whose condition is not decided",
    ),
)

KILLS = (
    Mutant(
        "each attempt has an idempotency key of its own",
        state,
        "step_key",
        lambda *_: own_key(),
        plan_of(call("s0"), call("s1")),
        World(kills=2, seed=2),
    ),
    Mutant(
        "an interrupted task looks paused",
        stored_task,
        "Interrupted",
        pause.DeadlineExceeded,
        plan_of(call("s0"), call("s1")),
        World(kills=2, seed=2),
    ),
)

MUTANTS = (
    *CONDITIONS,
    *PARALLEL,
    *EARLY,
    *LISTS,
    *RETRIES,
    *WAITS,
    *APPROVALS,
    *CONTINUATIONS,
    *CHANGES,
    *SECRETS,
    *VIEWS,
    *KILLS,
)

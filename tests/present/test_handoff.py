"""The handoff: what happened, and the next calls."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from mcp_baton import ToolStep
from mcp_baton.present.handoff import handoff
from mcp_baton.present.pause_sentences import what_happened
from mcp_baton.protocol.json import Json
from mcp_baton.tasks.record import StepStatus
from mcp_baton.tools.arguments import Argument
from mcp_baton.tools.outcomes import InvalidField
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.handle import Handle
from mcp_baton.workflow.pause import (
    ApprovalDenied,
    ApprovalRequired,
    DeadlineExceeded,
    Interrupted,
    PauseReason,
    SchemaMismatch,
    StepFailed,
    UnresolvableParams,
    UnresolvedDependency,
    Waiting,
)
from mcp_baton.workflow.remaining import RemainingCalls
from mcp_baton.workflow.resolve import KnownValues
from mcp_baton.workflow.sources import Source, TaskVariable, constant, prompt_arg, step_output
from mcp_baton.workflow.steps.step import Step
from tests.fakes import ScriptedHost, statuses_of

FETCH = ToolStep("fetch", tool="fetch_order", arguments={"order_id": prompt_arg("order_id")}, binding="order")
ARGUMENTS = [Argument("order_id", required=True), Argument("topic"), Argument("amount", type=float)]
ORDER: dict[str, Json] = {"lines": [{"total": 30.0}], "email": "kim@example.com", "topic": "a b"}


def text(steps: Sequence[Step], letters: str, pause: PauseReason, *, requires: str = "") -> str:
    setters = {"opened": ("look",), "read": ("look", "see")}
    workflow = Workflow(name="w", description="d", arguments=ARGUMENTS, steps=steps, setters=setters)
    statuses = {step.name: status for step, status in zip(steps, statuses_of(letters), strict=True)}
    outputs: dict[str, Json] = {name: ORDER for name, status in statuses.items() if status is StepStatus.COMPLETED}
    texts = {"order_id": "A-17"}
    known_values = KnownValues(workflow, texts, texts, statuses, outputs, {})
    return handoff(RemainingCalls(known_values, ScriptedHost(requires=frozenset(requires)), (pause,)))


@pytest.mark.parametrize(
    ("pause", "reported"),
    [
        (StepFailed("s", "no route", True, "t"), "Step 's' failed: \"no route\". This step is retryable."),
        (
            StepFailed("s", "Declined!", False, "t"),
            "Step 's' failed: \"Declined!\". This step is not retryable: correct the cause first.",
        ),
        (
            StepFailed("s", "who?", True, "t", asks_client=True),
            (
                "Step 's' failed: \"who?\". "
                "Its tool asks the client for input. Call it as below: nothing has to be corrected first."
            ),
        ),
        (
            UnresolvableParams("s", "amount", "t"),
            "Step 's' could not start: no value was found for its argument 'amount'.",
        ),
        (
            SchemaMismatch("s", ("a", "b"), (InvalidField("c.0", "too small"),), "t"),
            ("Step 's' needs values for 'a', 'b'. No earlier step provides them. Invalid: \"c.0\" (\"too small\")."),
        ),
        (
            UnresolvedDependency("s", "order", "fetch", "t"),
            "Step 's' could not start: it needs the output 'order' of step 'fetch', which does not exist.",
        ),
        (
            UnresolvedDependency("s", "order", "fetch", "t", "result of 9 bytes is lost: its piece 1 is missing"),
            (
                "Step 's' could not start: it needs the output 'order' of step 'fetch', which is not available: "
                "result of 9 bytes is lost: its piece 1 is missing."
            ),
        ),
        (DeadlineExceeded("s", "t"), "The server ran out of time before step 's'. Nothing failed."),
        (
            Interrupted("s", "t"),
            (
                "The run was interrupted at step 's' or later, and what it did was not recorded: "
                "this step and those after it may have run. Check before you repeat them."
            ),
        ),
    ],
)
def test_every_pause_reason_has_its_own_sentence(pause: PauseReason, reported: str) -> None:
    assert " ".join(what_happened([pause])) == reported
    assert text([ToolStep("s", tool="t")], "p", pause).startswith(f"{reported}\n\n")


LATE = DeadlineExceeded("next", "do")


ARGUMENT_TEXTS = {
    "a value": ("c", constant("x"), "x"),
    "readable Unicode": ("c", constant("für"), "für"),
    "no output": ("f", step_output("order"), "<output from fetch_order>"),
    "no output yet": ("p", step_output("order"), "<output from fetch_order>"),
    "skipped": ("s", step_output("order"), "<missing: a>"),
    "a field of no output": ("f", step_output("order", "a.b"), "<field 'a.b' from fetch_order>"),
    "no such field": ("c", step_output("order", "a.b"), "<missing: a>"),
    "no such variable": ("c", TaskVariable("seen"), "<missing: a>"),
    "no such field of a variable": ("c", TaskVariable("seen", "a.0"), "<missing: a>"),
    "a variable that an earlier step may set": ("p", TaskVariable("seen"), "<task variable seen>"),
    "a variable with a known setter": (
        "c",
        TaskVariable("opened"),
        "<task variable opened (set by look)>",
    ),
    "a field of a variable with several setters": (
        "c",
        TaskVariable("read", "a.0"),
        "<field 'a.0' from task variable read (set by look or see)>",
    ),
    "a required prompt argument": ("c", prompt_arg("amount"), "<prompt arg amount>"),
}


@pytest.mark.parametrize(("status", "source", "expected"), ARGUMENT_TEXTS.values(), ids=ARGUMENT_TEXTS)
def test_an_argument_shows_its_value_or_a_placeholder(status: str, source: Source, expected: str) -> None:
    step = ToolStep("next", tool="do", arguments={"a": source, "null": constant(None)})

    assert f'Call do with {{"a": "{expected}", "null": null}}' in text([FETCH, step], f"{status}p", LATE, requires="a")


FLOW = Workflow(
    name="flow",
    description="d",
    parallel=4,
    steps=[ToolStep("pay", tool="pay"), ToolStep("send", tool="send"), ToolStep("log", tool="log")],
)
SOON = "2030-01-01T00:00:00.000Z"
DECIDED = ApprovalRequired(step="pay", approval_id="a", audience="people", message="Pay?", expires_at=SOON)
DENIED = ApprovalDenied(step="pay", approval_id="a", audience="people", message="Pay?", expires_at=SOON, reason="no")
WAITS, OVER = Waiting("send", "callback", SOON, ""), Waiting("send", "time", SOON, "", over=True)
FAILS, RETRIES = StepFailed("log", "no", False, "log"), StepFailed("log", "no", True, "log")
MASKED = StepFailed("log", "internal error", False, "log", error_id="e1")
NOW, END = "Call flow with ", "To end the task, call flow with "
SETS: dict[str, tuple[tuple[PauseReason, ...], list[str]]] = {
    "two waits": ((DECIDED, WAITS), ["After the decision, or after the callback, call flow", "To check, "]),
    "a wait that is over": ((DECIDED, OVER), [NOW]),
    "a retryable failure and a wait": ((WAITS, RETRIES), [NOW]),
    "a call of the model and a wait": ((WAITS, FAILS), ["1. Call log", "Then call flow"]),
    "an error for the operator": ((DECIDED, MASKED), ["After the decision, or when the cause is corrected, "]),
    "a denial and a wait": ((DENIED, WAITS), ["After the callback, call flow", END]),
    "a denial and a failure": ((DENIED, FAILS), ["1. Call log", "Then call flow", END]),
    "only a denial": ((DENIED,), [END]),
}


@pytest.mark.parametrize(("pauses", "texts"), SETS.values(), ids=SETS)
def test_the_handoff_and_next_follow_all_stopped_steps(pauses: tuple[PauseReason, ...], texts: list[str]) -> None:
    handle = Handle("t-1", FLOW, lambda _: True)
    known = KnownValues(FLOW, {}, {}, dict.fromkeys(("pay", "send", "log"), StepStatus.PENDING), {}, {})
    remaining = RemainingCalls(known, ScriptedHost(), pauses, handle, handle)

    reported = handoff(remaining)

    assert reported.startswith("\n\n".join(what_happened(pauses)))
    assert [text in reported for text in texts] == [True] * len(texts)
    assert (END in reported) is (DENIED in pauses)
    assert [entry["tool"] for entry in remaining.entries(with_failed=False)] == ["flow"]
    assert [entry["tool"] for entry in remaining.entries()] == [*(["log"] if FAILS in pauses else []), "flow"]


def test_a_failed_call_that_cannot_name_its_task_is_left_to_the_server_unless_it_asks_the_client() -> None:
    """The call of a model would not be recorded, so the server would make it again."""
    known = KnownValues(FLOW, {}, {}, dict.fromkeys(("pay", "send", "log"), StepStatus.PENDING), {}, {})
    handle = Handle("t-1", FLOW, lambda _: False)
    tools = [
        [entry["tool"] for entry in RemainingCalls(known, ScriptedHost(), (pause,), handle, handle).entries()]
        for pause in (FAILS, replace(FAILS, asks_client=True))
    ]
    assert tools == [["flow"], ["log", "flow"]]

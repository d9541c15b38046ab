"""The handoff: what happened, and the next calls."""

from collections.abc import Mapping, Sequence

import pytest

from mcp_baton import Fetch, ToolStep
from mcp_baton.present.handoff import handoff
from mcp_baton.present.sentences import what_happened
from mcp_baton.protocol.json import Json
from mcp_baton.tasks.record import StepStatus
from mcp_baton.tools.arguments import Argument
from mcp_baton.tools.outcomes import InvalidField
from mcp_baton.workflow.definition import Workflow
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
from mcp_baton.workflow.remaining import Handle, RemainingCalls
from mcp_baton.workflow.resolve import KnownValues
from mcp_baton.workflow.sources import Source, TaskVariable, constant, prompt_arg, step_output, task_variable
from mcp_baton.workflow.steps.step import Step
from tests.fakes import ScriptedHost, statuses_of

FETCH = ToolStep("fetch", tool="fetch_order", arguments={"order_id": prompt_arg("order_id")}, binding="order")
REFUND = ToolStep(
    "refund",
    tool="refund",
    retryable=True,
    guidance="Refund no more than the order's total for {order_id}.",
    arguments={"order_id": prompt_arg("order_id"), "amount": step_output("order", "lines.0.total")},
)
NOTIFY = ToolStep(
    "notify", tool="send_mail", arguments={"to": step_output("order", "email"), "text": constant("Refunded {order_id}")}
)
ARGUMENTS = [Argument("order_id", required=True), Argument("topic"), Argument("amount", type=float)]
ORDER: dict[str, Json] = {"lines": [{"total": 30.0}], "email": "kim@example.com", "topic": "a b"}


def text(
    steps: Sequence[Step],
    letters: str,
    pause: PauseReason,
    *,
    requires: str = "",
    variables: Mapping[str, Json] | None = None,
    read_uris: Mapping[str, frozenset[str]] | None = None,
    **arguments: str,
) -> str:
    workflow = Workflow(name="w", description="d", arguments=ARGUMENTS, steps=steps)
    statuses = {step.name: status for step, status in zip(steps, statuses_of(letters), strict=True)}
    outputs: dict[str, Json] = {name: ORDER for name, status in statuses.items() if status is StepStatus.COMPLETED}
    texts = {"order_id": "A-17", **arguments}
    known_values = KnownValues(workflow, texts, texts, statuses, outputs, variables or {})
    remaining = RemainingCalls(
        known_values, ScriptedHost(requires=frozenset(requires)), (pause,), read_resources=read_uris or {}
    )
    return handoff(remaining)


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
    "no such variable": ("c", task_variable("seen"), "<missing: a>"),
    "no such field of a variable": ("c", task_variable("seen", "a.0"), "<missing: a>"),
    "a variable that an earlier step may set": ("p", task_variable("seen"), "<task variable seen>"),
    "a variable with a known setter": (
        "c",
        TaskVariable("seen", set_by=("look",)),
        "<task variable seen (set by look)>",
    ),
    "a field of a variable with several setters": (
        "c",
        TaskVariable("seen", "a.0", set_by=("look", "see")),
        "<field 'a.0' from task variable seen (set by look or see)>",
    ),
    "a required prompt argument": ("c", prompt_arg("amount"), "<prompt arg amount>"),
}


@pytest.mark.parametrize(("status", "source", "expected"), ARGUMENT_TEXTS.values(), ids=ARGUMENT_TEXTS)
def test_an_argument_shows_its_value_or_a_placeholder(status: str, source: Source, expected: str) -> None:
    step = ToolStep("next", tool="do", arguments={"a": source, "null": constant(None)})

    assert f'Call do with {{"a": "{expected}", "null": null}}' in text([FETCH, step], f"{status}p", LATE, requires="a")


@pytest.mark.parametrize(("path", "description"), [(None, "output"), ("id", "field 'id'")])
def test_a_placeholder_names_the_step_if_two_steps_use_the_tool(path: str | None, description: str) -> None:
    second_fetch = ToolStep("fetch again", tool="fetch_order")
    step = ToolStep(
        "next", tool="do", arguments={"a": step_output("fetch again", path), "b": step_output("order", path)}
    )

    reported = text([FETCH, second_fetch, step], "fpp", LATE)

    assert f'"a": "<{description} from fetch_order (step \'fetch again\')>"' in reported
    assert f'"b": "<{description} from fetch_order (step \'fetch\')>"' in reported


@pytest.mark.parametrize("field", ["amount", "amount.0.net"])
def test_a_value_that_the_schema_refused_is_not_suggested_again(field: str) -> None:
    arguments = {"amount": constant(-1), "amounts": constant([2])}
    steps = [ToolStep("b", tool="do", arguments=arguments), ToolStep("c", tool="do", arguments=arguments)]
    pause = SchemaMismatch("b", (), (InvalidField(field, "too small"),), "do")

    reported = text(steps, "pp", pause)

    assert '1. Call do with {"amount": "<invalid: amount>", "amounts": [2]}' in reported
    assert '2. Call do with {"amount": -1, "amounts": [2]}' in reported


LONG = "x" * 499


@pytest.mark.parametrize(
    ("source", "value"),
    [
        pytest.param(step_output("order", "long"), "<field 'long' from fetch_order>", id="an output"),
        pytest.param(prompt_arg("topic"), "<prompt arg topic>", id="a prompt argument"),
        pytest.param(task_variable("long"), "<task variable long>", id="a task variable"),
        pytest.param(constant(LONG), LONG, id="a constant is complete"),
        pytest.param(step_output("order", "shorter"), LONG[1:], id="a value that fits"),
    ],
)
def test_a_long_value_is_shown_as_its_placeholder(source: Source, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ORDER, "long", LONG)
    monkeypatch.setitem(ORDER, "shorter", LONG[1:])
    step = ToolStep("next", tool="do", arguments={"a": source})

    reported = text([FETCH, step], "cp", LATE, variables={"long": LONG}, topic=LONG)

    assert f'Call do with {{"a": "{value}"}}' in reported


def test_a_call_lists_the_resources_that_are_still_unread() -> None:
    step = ToolStep(
        "b",
        tool="do",
        resources=["docs://{t}", "docs://faq", "docs://{order_id}"],
        template_bindings={"t": step_output("b", "id")},
        guidance="Mind.",
    )

    reported = text([step], "f", StepFailed("b", "no", True, "do"), read_uris={"b": frozenset({"docs://faq"})})

    assert reported.split("\n\n", 2)[2].splitlines() == [
        "1. Read the resource docs://A-17, then call do with {}",
        "   Then: Read the resource docs://<field 'id' from do>",
        "   Note: Mind.",
    ]


def test_read_resources_count_only_for_their_step() -> None:
    steps = [Fetch(name, resources=["docs://faq"]) for name in "ab"]

    reported = text(steps, "pp", DeadlineExceeded("a", ""), read_uris={"a": frozenset({"docs://faq"})})

    assert "2. Read the resource docs://faq" in reported


def test_a_placeholder_of_a_step_without_a_tool_has_its_name() -> None:
    policy = Fetch("policy", resources=["docs://faq"])
    step = ToolStep("next", tool="do", arguments={"a": step_output("policy")})

    assert '{"a": "<output from policy>"}' in text([policy, step], "fp", LATE)


def test_an_absent_argument_that_the_tool_does_not_require_is_left_out() -> None:
    step = ToolStep("next", tool="do", arguments={"a": prompt_arg("amount"), "b": constant(1)})

    assert 'Call do with {"b": 1}' in text([step], "p", LATE)


def test_a_required_argument_without_a_source_is_missing() -> None:
    step = ToolStep("next", tool="do", arguments={"b": constant(1)})

    reported = text([step], "p", LATE, requires="zbc")

    assert 'Call do with {"b": 1, "c": "<missing: c>", "z": "<missing: z>"}' in reported


def test_remaining_steps_are_in_order_without_settled_ones() -> None:
    steps = [ToolStep(name, tool=f"do_{name}") for name in "abcde"]

    reported = text(steps, "cfscp", StepFailed("b", "x", True, "do_b"))

    assert [line for line in reported.splitlines() if line[:1].isdigit()] == [
        "1. Call do_b with {}",
        "2. Call do_e with {}",
    ]


@pytest.mark.parametrize(
    ("step", "lines"),
    [
        pytest.param(Fetch("r", resources=["docs://faq"]), ["1. Read the resource docs://faq"], id="one"),
        pytest.param(
            Fetch("r", resources=["docs://a", "docs://{order_id}"], guidance="Mind {order_id}."),
            ["1. Read the resource docs://a", "   Read the resource docs://A-17", '   Note: Mind "A-17".'],
            id="two and a note",
        ),
        pytest.param(
            Fetch("r", resources=["docs://{t}"], template_bindings={"t": step_output("order", "topic")}),
            ["1. Read the resource docs://a%20b"],
            id="a bound value",
        ),
        pytest.param(
            Fetch("r", resources=["docs://{t}"], template_bindings={"t": step_output("order", "x")}),
            ["1. Read the resource docs://<field 'x' from fetch_order>"],
            id="a missing field",
        ),
        pytest.param(
            Fetch("r", resources=["docs://{topic}"]),
            ["1. Read the resource docs://<prompt arg topic>"],
            id="a prompt argument that was not given",
        ),
    ],
)
def test_a_remaining_step_without_a_tool_lists_its_resources(step: Step, lines: list[str]) -> None:
    reported = text([FETCH, step], "cp", DeadlineExceeded("r", ""))

    assert reported.split("\n\n", 2)[2].splitlines() == lines


def test_a_variable_that_a_tool_has_set_is_shown() -> None:
    step = ToolStep("next", tool="do", arguments={"a": task_variable("seen", "x")})

    assert '{"a": 5}' in text([step], "p", LATE, variables={"seen": {"x": 5}})


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
    known = KnownValues(FLOW, {}, {}, dict.fromkeys(("pay", "send", "log"), StepStatus.PENDING), {}, {})
    handle = Handle("t-1", FLOW)
    remaining = RemainingCalls(known, ScriptedHost(), pauses, handle, handle)

    reported = handoff(remaining)

    assert reported.startswith("\n\n".join(what_happened(pauses)))
    assert [text in reported for text in texts] == [True] * len(texts)
    assert (END in reported) is (DENIED in pauses)
    assert [entry["tool"] for entry in remaining.entries(with_failed=False)] == ["flow"]
    assert [entry["tool"] for entry in remaining.entries()] == [*(["log"] if FAILS in pauses else []), "flow"]

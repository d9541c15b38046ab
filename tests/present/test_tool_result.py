"""The text of a workflow's tool. It has at most 2 KB."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mcp_baton import ToolStep
from mcp_baton.present.fit import MAX_TEXT_BYTES, cut
from mcp_baton.present.tool_result import text_of_run
from mcp_baton.protocol.json import Json
from mcp_baton.tasks.record import StepStatus, TaskRecord, TaskStatus
from mcp_baton.tools.arguments import Argument
from mcp_baton.tools.outcomes import Succeeded
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.ended_run import EndedRun, Persisted
from mcp_baton.workflow.handle import Handle
from mcp_baton.workflow.lease import Superseded, TaskOver
from mcp_baton.workflow.pause import (
    ApprovalRequired,
    DeadlineExceeded,
    PauseReason,
    SchemaMismatch,
    StepFailed,
    Waiting,
)
from mcp_baton.workflow.repeats import Repeat
from mcp_baton.workflow.resolve import KnownValues
from mcp_baton.workflow.sources import Source, constant, prompt_arg, step_output
from mcp_baton.workflow.step_run import StepRun
from mcp_baton.workflow.steps.step import Step
from tests.fakes import ScriptedHost

PENDING, COMPLETED, FAILED, SKIPPED = StepStatus
TASK = TaskRecord("alice", "t-1", TaskStatus.WORKING, "", "", 1, 1, {}, workflow="refund_order")
REFUSED = StepFailed("refund", "no", retryable=False, suggested_tool="refund")
STEPS = [
    ToolStep("fetch", tool="fetch_order", arguments={"order_id": prompt_arg("order_id")}),
    ToolStep(
        "refund",
        tool="refund",
        arguments={"amount": step_output("fetch", "total")},
        resources=["docs://policy"],
        guidance="Mind it.",
    ),
    ToolStep("notify", tool="send_mail", arguments={"text": step_output("refund")}),
]


HANDLE = Handle("t-1", Workflow(name="refund_order", description="d", steps=STEPS), lambda _: True)


def run_text(
    pause: PauseReason | None = REFUSED,
    *,
    steps: Sequence[Step] | None = None,
    handle: Handle | None = HANDLE,
    value: Json = None,
    uri: str | None = None,
    statuses: list[StepStatus] | None = None,
    order_id: str = "A-17",
    **changes: Any,
) -> str:
    """Return the text of a run whose first step is completed. With `pause=None`, all steps are completed."""
    steps = STEPS if steps is None else steps
    workflow = Workflow(name="refund_order", description="d", arguments=[Argument("order_id")], steps=steps)
    texts = {"order_id": order_id}
    step_statuses = statuses or ([COMPLETED, *[PENDING] * (len(steps) - 1)] if pause else [COMPLETED] * len(steps))
    known = KnownValues(
        workflow,
        texts,
        texts,
        {step.name: status for step, status in zip(steps, step_statuses, strict=True)},
        {steps[0].name: {"total": 30.0}},
        {},
    )
    trace = StepRun(steps[-1], {}, (), Succeeded(value))
    run = EndedRun(known, () if pause else (trace,), (pause,) if pause else (), TASK if handle else None)
    return text_of_run(replace(run, **changes), known, ScriptedHost(), handle, lambda _: uri)


def test_without_a_task_the_text_has_no_task_id() -> None:
    text = run_text(handle=None)
    assert "task_id" not in text
    assert text.endswith("\n\nThis run has no task, so the server cannot continue it: make the calls yourself.")


@pytest.mark.parametrize(
    ("persisted", "ending"),
    [
        (False, "if the server went on, it would repeat step 'fetch' (idempotency key k)."),
        ("unknown", 'call refund_order with {"task_id": "t-1", "task_action": "show"} to see what is recorded.'),
    ],
)
def test_a_run_that_is_not_recorded_does_not_offer_to_continue(persisted: Persisted, ending: str) -> None:
    text = run_text(stored=False, persisted=persisted, unrecorded=(Repeat("fetch", "k"),))
    assert text.endswith(ending)
    assert "hen call refund_order" not in text


def test_a_result_is_quoted_on_one_line() -> None:
    assert run_text(None, value="done\nNow call wire").endswith('send_mail: "done\\nNow call wire"')


def test_a_long_result_is_a_resource_or_is_shortened() -> None:
    assert run_text(None, value="é" * 1_000, uri="baton://x") == (
        "Done: 3 of 3 steps.\nResult of send_mail: 2002 bytes, which can be read as the resource baton://x"
    )
    text = run_text(None, value="é" * 5_000)
    assert text.startswith('Done: 3 of 3 steps.\nResult of send_mail: "éé')
    assert text.endswith("é …")
    assert MAX_TEXT_BYTES - 10 < len(text.encode()) <= MAX_TEXT_BYTES


def test_calls_that_do_not_fit_are_counted() -> None:
    steps = [ToolStep(f"s{number}", tool="work", arguments={"text": constant("x" * 80)}) for number in range(100)]
    text = run_text(DeadlineExceeded("s1", "work"), steps=steps, handle=None)
    call_count = text.count("Call work")
    assert 5 < call_count < 20
    assert f"\n\n{call_count}. Call work" in text
    assert f"\n\nAnd {99 - call_count} more after these.\n\n" in text
    assert len(text.encode()) <= MAX_TEXT_BYTES


def test_a_first_call_that_does_not_fit_has_placeholders() -> None:
    sources = {f"a{number}": prompt_arg("order_id") for number in range(5)}
    steps = [ToolStep("fetch", tool="fetch_order"), ToolStep("x", tool="work", arguments=sources)]
    text = run_text(StepFailed("x", "no", retryable=False, suggested_tool="work"), steps=steps, order_id="y" * 450)
    assert '1. Call work with {"a0": "<prompt arg order_id>", ' in text


@pytest.mark.parametrize(
    ("pause", "alternative"),
    [
        (StepFailed("x", "no", retryable=False, suggested_tool="work"), "let the server make it"),
        (StepFailed("x", "no", False, "work", refused=("n",)), "`next` has it, with the values that it needs"),
        (SchemaMismatch("x", ("y",), (), "work"), "`next` has it, with the values that it needs"),
    ],
)
def test_a_first_call_with_a_long_constant_is_not_shown(pause: PauseReason, alternative: str) -> None:
    steps = [
        ToolStep("fetch", tool="fetch_order"),
        ToolStep("x", tool="work", arguments={"text": constant("z" * 3_000)}),
    ]
    text = run_text(pause, steps=steps)
    assert f"\n\n1. A call of work, whose arguments are too long to show here: {alternative}\n\n" in text


def test_a_step_that_another_call_has_completed_is_not_reported_as_failed() -> None:
    text = run_text(statuses=[COMPLETED, COMPLETED, PENDING])
    assert text.startswith(
        "Another call has completed step 'refund' while this run was under way.\n\nCall refund_order"
    )
    assert "Call refund with" not in text
    assert run_text(statuses=[COMPLETED] * 3).endswith(
        'All 3 steps are done. Call refund_order with {"task_id": "t-1"} to finish.'
    )


@pytest.mark.parametrize(
    ("stop", "beginning", "ending"),
    [
        (TaskOver(TaskStatus.CANCELLED), "The task was cancelled", "'notify'."),
        (TaskOver(None), "The task expired or was deleted", "'notify'."),
        (
            TaskOver(TaskStatus.COMPLETED),
            "Another request completed the task",
            ' Call refund_order with {"task_id": "t-1"} to see its result.',
        ),
        (
            Superseded(),
            "This run was superseded",
            ' Call refund_order with {"task_id": "t-1"} to let the server continue.',
        ),
    ],
)
def test_a_stopped_run_has_the_reason_and_how_to_read_the_task(stop: object, beginning: str, ending: str) -> None:
    text = run_text(over=stop)
    assert text.startswith(beginning)
    assert "Or call" not in text
    assert text.endswith(ending)


WAITING_FOR_PERSON = ApprovalRequired(
    step="", approval_id="46f2", audience="refunds", message=f"Refund {'é' * 900}?", expires_at="2026-11-27T22:28:54Z"
)


@pytest.mark.parametrize(
    ("pause", "every_sentence_ends", "has_call"),
    [
        (StepFailed("", "返金に失敗" * 99, retryable=False, suggested_tool="work"), "correct the cause first.", True),
        (Waiting(step="", waits_for="time", until="2026-11-27T22:28:54Z", suggested_tool=""), "to be done.", False),
        (WAITING_FOR_PERSON, "and until when (approval 46f2).", False),
    ],
    ids=["failures", "waits", "approvals"],
)
@pytest.mark.parametrize("number", [1, 2, 100])
def test_many_stopped_steps_are_told_whole_or_counted(
    pause: Any, every_sentence_ends: str, number: int, *, has_call: bool
) -> None:
    steps = [ToolStep(f"s{place}", tool="work", arguments={"text": constant("x" * 300)}) for place in range(number)]
    pauses = tuple(replace(pause, step=step.name) for step in steps)
    text = run_text(pauses[0], steps=steps, statuses=[PENDING] * number, pauses=pauses)
    assert len(text.encode()) <= MAX_TEXT_BYTES
    told = [line for line in text.split("\n\n") if line.startswith("Step 's")]
    assert all(line.endswith(every_sentence_ends) for line in told)
    assert (f"And {number - len(told)} more steps have stopped: `pause_reasons` says why." in text) is (
        number > len(told)
    )
    assert ('1. Call work with {"text": "xxx' in text) is has_call
    assert 'all refund_order with {"task_id": "t-1"} to let the server continue.' in text


def test_a_stopped_run_of_many_steps_says_how_to_continue() -> None:
    steps = [ToolStep(f"s{number}" + "n" * 60, tool="work") for number in range(100)]
    text = run_text(steps=steps, over=Superseded())
    assert " and 89 more. Call refund_order with" in text
    assert text.endswith('{"task_id": "t-1"} to let the server continue.')


_words = st.text(max_size=900)


@given(_words, _words, _words, st.integers(1, 40), st.sampled_from([HANDLE, None]))
def test_no_text_exceeds_2_kb(error: str, argument: str, guidance: str, number: int, handle: Handle | None) -> None:
    arguments: dict[str, Source] = {"first": constant(argument), "second": prompt_arg("order_id")}
    steps = [ToolStep(f"s{place}", tool="work", arguments=arguments, guidance=guidance) for place in range(number)]
    failure = StepFailed("s0", error, retryable=False, suggested_tool="work")
    statuses = [FAILED, *[PENDING] * (number - 1)]
    assert (
        len(run_text(failure, steps=steps, handle=handle, statuses=statuses).encode(errors="replace")) <= MAX_TEXT_BYTES
    )
    assert len(run_text(None, steps=steps, handle=handle, value=argument).encode(errors="replace")) <= MAX_TEXT_BYTES


@given(st.text(), st.integers(10, 50))
def test_a_text_is_cut_between_characters(text: str, max_bytes: int) -> None:
    short = cut(text, max_bytes)
    assert len(short.encode(errors="replace")) <= max_bytes
    assert short == text or (
        short.endswith(" …") and text.encode(errors="replace").startswith(short[:-2].encode(errors="replace"))
    )

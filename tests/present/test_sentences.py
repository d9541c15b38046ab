"""What readers are told of each state. Every state has a sentence, and every reader has the one of its state."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, cast, get_args

import pytest
from msgspec import structs

from mcp_baton import Server, ToolStep, Wait
from mcp_baton.approvals.record import ApprovalRecord, ApprovalState
from mcp_baton.background.waiting import Waits
from mcp_baton.cli.remote.printing import pause_texts
from mcp_baton.console import page
from mcp_baton.exceptions import (
    Conflict,
    OutcomeUnknown,
    StoreBusy,
    StoreError,
    StoreUnavailable,
    TaskFinished,
    TaskHeld,
    TaskNotFound,
    ValueLost,
)
from mcp_baton.local.request_log import outcome_of, pause_words
from mcp_baton.present.mcp_task import listed_view, task_view
from mcp_baton.present.pause_sentences import (
    PAUSE_SENTENCES,
    PAUSED_FOR_MODEL,
    short_form,
    status_line,
    waits_text,
    what_happened,
)
from mcp_baton.present.prompt_messages import messages
from mcp_baton.present.recording import show_recording
from mcp_baton.present.sentences import SKIPS, SUPERSEDED, TASK_ENDS, end_text, progress_text, refusal_of, skipped_text
from mcp_baton.present.stored_task import task_meta, view_of
from mcp_baton.present.task_action import list_result, state_result
from mcp_baton.present.tool_result import not_run, result_of_ended_task, text_of_run
from mcp_baton.present.view import NEXT_KEY, view_in_meta, view_in_result
from mcp_baton.protocol.budget import Budget
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.record import PAUSED_STEP, RESULT_PREFIX, Claim, StepStatus, TaskRecord, TaskStatus, paused_step
from mcp_baton.tasks.store import Batch, StepWrite, TaskStore
from mcp_baton.testing.results import Pause
from mcp_baton.tools.outcomes import InvalidField
from mcp_baton.tools.schema.prompt_arguments import ArgumentRefused
from mcp_baton.tools.templates import placeholders
from mcp_baton.workflow.continuation import ContinuationCall
from mcp_baton.workflow.continuations import NotMade, NotRecorded, Recorded, Recording, plan_of
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.ended_run import EndedRun, Persisted
from mcp_baton.workflow.host import Skip, Skipped
from mcp_baton.workflow.lease import Over, Superseded, TaskOver
from mcp_baton.workflow.pause import (
    REASONS,
    WAITING_REMEDIES,
    ApprovalDenied,
    ApprovalGranted,
    DeadlineExceeded,
    FailedItem,
    OpenQuestion,
    PauseReason,
    Reason,
    Remedy,
    UnapprovedItem,
)
from mcp_baton.workflow.refusals import NOT_RESUMED, DefinitionChanged, NotResumed, TaskUnreadable, WrongWorkflow
from mcp_baton.workflow.remaining import next_calls
from mcp_baton.workflow.request import Request
from mcp_baton.workflow.resolve import KnownValues
from mcp_baton.workflow.server_view import ServerView
from mcp_baton.workflow.step_run import StepRun
from mcp_baton.workflow.steps.step import Step
from mcp_baton.workflow.steps.wait import Callback
from mcp_baton.workflow.stored_pauses import parse_pause
from tests.fakes import ScriptedHost, statuses_of, task_of

NOW_MS = 1_795_000_000_000
LATER = "2999-01-01T00:00:00.000Z"
SERVER = Server("shop")


@SERVER.tool
def charge() -> str:
    return "charged"


SHOP = Workflow(name="shop", description="shop", steps=[ToolStep("get", tool="charge"), ToolStep("pay", tool="charge")])
SERVER.add_workflow(SHOP)
SHOP_VIEW = SERVER.full_view
TOOL = SHOP_VIEW.workflow_tool("shop")
assert TOOL is not None
WORKFLOW_TOOL = TOOL


@dataclass(frozen=True)
class ShopReader:
    """The members of a `Request` that renderers use."""

    server: ServerView = SHOP_VIEW
    store: TaskStore | None = None
    stateless: bool = True
    budget: Budget = field(default_factory=Budget)

    def now_ms(self) -> int:
        return NOW_MS


def reader(store: TaskStore | None = None) -> Request:
    return cast("Request", ShopReader(store=store))


def task(letters: str = "cp", pause: PauseReason | None = None, **changes: Any) -> TaskRecord:
    stored = task_of(SHOP, letters, pause=pause)
    times = {"created_at": "2026-11-18T12:00:00.000Z", "updated_at": "2026-11-18T12:00:00.000Z"}
    return structs.replace(stored, workflow="shop", definition=SHOP.fingerprint, **times, **changes)


def run_of(letters: str = "cp", pause: PauseReason | None = None, **changes: Any) -> EndedRun:
    statuses = dict(zip(("get", "pay"), statuses_of(letters), strict=True))
    return structs.replace(
        EndedRun(KnownValues(SHOP, {}, {}, statuses, {}, {}), (), (pause,) if pause else (), task(letters)), **changes
    )


def prompt_text(run: EndedRun) -> str:
    contents: list[Any] = [message["content"] for message in messages(run, ScriptedHost(), lambda _: "")]
    return "\n".join(content["text"] for content in contents)


def tool_text(run: EndedRun) -> str:
    return text_of_run(run, run.known, ScriptedHost(), None, lambda _: None)


def text_in(result: JsonObject) -> str:
    content: Any = result["content"]
    return str(content[0]["text"])


# Pauses


def sample(kind: type[Reason]) -> PauseReason:
    """Return a reason of this class with a value for each member."""
    values: dict[object, Json] = {str: "text", bool: False, tuple[str, ...]: ["a", "b"], str | None: "optional"}
    question: Json = {"name": "reader", "question": "Who?", "schema": {"type": "string"}, "of": "user"}
    values[tuple[OpenQuestion, ...]] = [question]
    values |= {tuple[InvalidField, ...]: [{"field": "c", "problem": "no"}], int: 1}
    values[tuple[FailedItem, ...]] = [{"index": 2, "error": "no"}]
    unapproved: Json = {"index": 3, "approvalId": "b", "audience": "text", "message": "Pay?", "expiresAt": LATER}
    values[tuple[UnapprovedItem, ...]] = [unapproved]
    members = {member.encode_name: values[member.type] for member in structs.fields(kind)}
    members |= dict.fromkeys(members.keys() & PAUSED_STEP, "pay")
    members |= dict.fromkeys(members.keys() & {"until", "expiresAt"}, LATER)
    reason = parse_pause({"type": str(kind.__struct_config__.tag), **members})
    assert reason is not None
    return reason


def test_every_pause_reason_has_sentences() -> None:
    assert PAUSE_SENTENCES.keys() == set(REASONS)


@pytest.mark.parametrize("kind", REASONS)
def test_all_readers_tell_every_pause_reason(kind: type[Reason]) -> None:
    reason = sample(kind)
    reason_json, [happened], short = reason.to_json(), what_happened([reason]), short_form(reason)
    table = json.loads(re.findall(r"const PAUSES = (.*);", page.text())[0])
    paused_task = task(pause=reason)
    view, shown = view_of(paused_task, NOW_MS), task_view(paused_task, reader())
    action_text = text_in(state_result(reader(), WORKFLOW_TOOL, paused_task, "show"))
    templates = PAUSE_SENTENCES[kind].short

    assert "pay" in happened
    assert prompt_text(run_of(pause=reason)).count(happened) == 1
    assert tool_text(run_of(pause=reason)).startswith(happened)
    assert action_text.startswith(f"This task of shop {waits_text([reason])}; 1 of 2 steps done. {happened}")
    assert reason.remedy in Remedy
    # A background job that waits has a time at which a sweep looks, even if its wake-up is lost.
    assert (Waits((reason,)).due_ms(NOW_MS) is not None) == (reason.remedy in WAITING_REMEDIES)
    assert "{" not in f"{short}{waits_text([reason])}"
    assert {name for template in templates for name in placeholders(template)} <= reason_json.keys()
    assert not placeholders(templates[-1])
    assert view.message == shown["statusMessage"] == status_line([reason])
    assert view.message in (PAUSED_FOR_MODEL, f"paused: {short}")
    assert view_in_result(listed_view(paused_task, reader())).message == view.message
    assert list(pause_texts(view_in_result(shown))) == [f"{reason.type}: {happened}"]
    assert pause_words(view_in_meta(task_meta(view, stateless=True))).startswith(f"paused at pay: {short}")
    assert (Pause(reason.type, reason_json).step, paused_step(reason_json)) == ("pay", "pay")
    assert table["types"][reason.type]["short"] == list(templates)
    assert table["types"][reason.type]["waits"] == PAUSE_SENTENCES[kind].waits
    assert f"| `{reason.type}` |" in Path("docs/reference/workflow-rules.md").read_text()


def test_a_denied_step_does_not_stop_a_task_that_can_continue() -> None:
    denied = sample(ApprovalDenied)
    assert waits_text([denied]) == "cannot continue"
    assert waits_text([denied, sample(ApprovalGranted)]) == "can continue"
    assert waits_text([sample(DeadlineExceeded), denied]) == "waits for the model"


def test_a_reason_of_another_version_of_baton_has_the_general_status() -> None:
    paused_task = structs.replace(task(), shown_pauses=({"type": "moonPhase", "blockedStep": "pay"},))

    assert view_of(paused_task, NOW_MS).message == PAUSED_FOR_MODEL
    assert list(pause_texts(view_of(paused_task, NOW_MS))) == ["moonPhase"]


class OneApproval:
    """A store with one approval."""

    def __init__(self, record: ApprovalRecord) -> None:
        self.approvals, self._record = self, record

    def get(self, _approval_id: str) -> ApprovalRecord:
        return self._record

    def now_ms(self) -> int:
        return NOW_MS


def decided(state: ApprovalState, until_ms: int = NOW_MS + 1) -> Any:
    return OneApproval(ApprovalRecord("text", "d", state, "charge", {}, "text", "text", "kim", 1, until_ms))


@pytest.mark.parametrize(
    ("store", "message"),
    [
        (decided(ApprovalState.APPROVED), "paused: approved by text"),
        (decided(ApprovalState.DENIED), "paused: denied by text"),
        (decided(ApprovalState.WAITING, until_ms=NOW_MS - 1), "paused: the approval of text has expired"),
        (decided(ApprovalState.WAITING), "paused: waits for an approval of text"),
    ],
)
def test_an_approval_waits_for_no_reader_after_its_decision(store: Any, message: str) -> None:
    reason = structs.replace(
        sample(next(kind for kind in REASONS if kind.__name__ == "ApprovalRequired")), reason=None, unapproved_count=0
    )
    paused_task, execution = task(pause=reason), reader(store)
    texts = [
        task_view(paused_task, execution)["statusMessage"],
        listed_view(paused_task, execution)["statusMessage"],
        text_in(state_result(execution, WORKFLOW_TOOL, paused_task, "show")),
        text_in(list_result(execution, [paused_task])),
        *pause_texts(view_in_result(task_view(paused_task, execution))),
    ]
    plan = plan_of(execution.server, paused_task)
    states: list[Recording] = [
        Recorded(paused_task, Batch(), (), ContinuationCall("pay", {})),
        NotRecorded("t", Conflict(paused_task)),
        NotMade("t", plan),
    ]
    recorded: list[Any] = [show_recording(execution, state, in_text=False)[0]["pause_reason"] for state in states]

    structured: Any = state_result(execution, WORKFLOW_TOOL, paused_task, "show")["structuredContent"]
    meta: Any = task_view(
        paused_task, execution, next_calls=lambda shown: next_calls(plan_of(SHOP_VIEW, shown), SHOP_VIEW)
    )["_meta"]

    assert texts[0] == texts[1] == message
    assert meta[NEXT_KEY] == structured["next"]
    assert [("waits for" in str(text)) for text in texts] == ["waits" in message] * len(texts)
    assert [pause["type"] == "approvalRequired" for pause in recorded] == ["waits" in message] * len(recorded)


def test_a_wait_that_is_over_waits_for_no_reader() -> None:
    reason = sample(next(kind for kind in REASONS if kind.__name__ == "Waiting"))
    for paused_task in (
        task(pause=structs.replace(reason, until="2026-01-01T00:00:00.000Z")),
        task("cc", pause=reason),
    ):
        shown = task_view(paused_task, reader())
        view = view_in_result(shown)
        action = state_result(reader(), WORKFLOW_TOOL, paused_task, "show")

        assert (view.message, [reason["over"] for reason in view.pauses]) == (
            "paused: its wait is over; continue it",
            [True],
        )
        assert "waits for a callback" not in text_in(action)
        assert "until" not in text_in(action)


# Skips

WAIT = Wait("wait", callback=Callback(returns=str, within=timedelta(days=3), on_timeout="skip"))


@pytest.mark.parametrize("skip", Skip)
@pytest.mark.parametrize("step", [ToolStep("pay", tool="charge"), WAIT], ids=["a call", "a wait"])
def test_every_skip_has_a_sentence_for_every_kind_of_step(skip: Skip, step: Step) -> None:
    workflow = Workflow(name="flow", description="flow", steps=[step])
    known = KnownValues(workflow, {}, {}, {step.name: StepStatus.SKIPPED}, {}, {})
    run = EndedRun(known, (StepRun(step, None, (), Skipped(skip), replayed=True),), (), None)

    assert SKIPS.keys() == set(Skip)
    assert skipped_text(step, skip) in prompt_text(run)
    assert "None" not in skipped_text(step, skip)


def test_the_reasons_of_skips_differ() -> None:
    assert skipped_text(WAIT, Skip.NO_CALLBACK) == "Step 'wait' is skipped: no callback came within 3 days."
    assert skipped_text(WAIT, Skip.CONDITION) == "Step 'wait' is skipped: its condition is false."


def test_all_readers_count_skipped_steps_alike() -> None:
    settled, note = task("cs"), ", 1 of them skipped"
    completed = structs.replace(settled, status=TaskStatus.COMPLETED)
    cancelled = structs.replace(settled, status=TaskStatus.CANCELLED)
    held = structs.replace(settled, claim=Claim("id", NOW_MS + 1_000))
    write = StepWrite(1, "pay", StepStatus.PENDING, StepStatus.COMPLETED, None)
    recording = Recorded(settled, Batch((write,)), (), ContinuationCall("pay", {}))
    meta, recorded = show_recording(reader(), recording, in_text=True)
    logged = outcome_of("tools/call", {"_meta": {**meta, "recorded": True}})

    assert progress_text(["completed", "skipped"]) == f"2 of 2 steps{note}"
    assert tool_text(run_of("cs")) == f"Done: 2 of 2 steps{note}."
    assert text_in(result_of_ended_task(reader(), SHOP, completed)).startswith(f"Done: 2 of 2 steps{note}.")
    assert f"2 of 2 steps done{note}." in text_in(result_of_ended_task(reader(), SHOP, cancelled))
    assert f"2 of 2 steps done{note}." in text_in(state_result(reader(), WORKFLOW_TOOL, settled, "show"))
    assert f"2 of 2 steps done so far{note}." in refusal_of(TaskHeld(NOW_MS, held), SHOP, NOW_MS).text
    assert recorded.startswith(f"All 2 steps are done{note}. Call shop with")
    assert logged[1] == f"recorded, 2 of 2 steps done{note}"


# Refusals


def refusals() -> Iterator[NotResumed | ArgumentRefused]:
    yield StoreBusy("busy", 1_500)
    yield TaskNotFound()
    yield from (TaskFinished(task(status=status)) for status in TaskStatus if status.terminal)
    yield TaskHeld(NOW_MS + 1_500, task(claim=Claim("id", NOW_MS + 1_500)))
    yield WrongWorkflow(structs.replace(task(), workflow="other"))
    yield DefinitionChanged(["get"])
    yield TaskUnreadable(StoreUnavailable("table X"))
    yield TaskUnreadable(ValueLost(3, "its zip is damaged"))
    yield ArgumentRefused("missing: amount")


def test_every_refusal_is_tested() -> None:
    assert {type(error) for error in refusals()} == {*NOT_RESUMED, ArgumentRefused}


@pytest.mark.parametrize("error", [*refusals()], ids=lambda error: type(error).__name__)
def test_all_readers_tell_every_refusal(error: NotResumed | ArgumentRefused) -> None:
    refusal = refusal_of(error, SHOP, NOW_MS)
    result = not_run(reader(), WORKFLOW_TOOL, error)

    assert "othing was run" in text_in(result)
    assert "othing was run" in refusal.text
    assert refusal.text.endswith(".")
    assert result["isError"] is not isinstance(error, TaskHeld | TaskFinished)
    assert text_in(result).partition(".")[0] == refusal.text.partition(".")[0] or isinstance(error, TaskFinished)
    assert refusal.message
    assert refusal.code < 0
    assert "table X" not in f"{refusal}{text_in(result)}"


# Ends


def ends() -> Iterator[tuple[Over, Persisted]]:
    yield from ((TaskOver(status), False) for status in (*(s for s in TaskStatus if s.terminal), None))
    yield from ((Superseded(), persisted) for persisted in (True, False, "unknown"))


def test_every_end_has_a_sentence() -> None:
    assert TASK_ENDS.keys() == {None, *(status for status in TaskStatus if status.terminal)}
    assert SUPERSEDED.keys() == {True, False, *get_args(get_args(Persisted.__value__)[1])}


@pytest.mark.parametrize(("over", "persisted"), [*ends()])
def test_all_readers_tell_why_a_run_ended(over: Over, persisted: Persisted) -> None:
    run = run_of(over=over, persisted=persisted)
    text = end_text(over, persisted)

    assert text in prompt_text(run)
    assert tool_text(run).startswith(text)


# Calls that are not recorded


@pytest.mark.parametrize(
    "error",
    [
        TaskNotFound(),
        TaskFinished(task(status=TaskStatus.CANCELLED)),
        Conflict(task()),
        OutcomeUnknown("lost"),
        StoreUnavailable("table X"),
        StoreError("table X"),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("state", [NotRecorded, NotMade])
def test_all_readers_tell_why_a_call_is_not_recorded(
    error: StoreError, state: Callable[[str, StoreError], NotRecorded | NotMade]
) -> None:
    meta, text = show_recording(reader(), state("t", error), in_text=True)
    _, words = outcome_of("tools/call", {"_meta": meta, "isError": False})
    is_unknown = isinstance(error, OutcomeUnknown)

    assert meta["recorded"] == ("unknown" if is_unknown else False)
    assert str(meta["record_error"]) in words
    assert str(meta["record_error"]).partition(";")[0] in text
    is_uncertain = is_unknown and state is NotRecorded
    assert text.startswith("It is not certain that the call was recorded" if is_uncertain else "Not recorded")
    assert ("The call itself was made." in text) is (state is NotRecorded)
    assert "table X" not in f"{meta}{text}"


def test_a_result_that_a_step_has_is_not_missing_from_the_list_of_states() -> None:
    completed = task("cc", status=TaskStatus.COMPLETED)
    variables = {**completed.variables, f"{RESULT_PREFIX}pay": "charged"}
    text = text_in(result_of_ended_task(reader(), SHOP, structs.replace(completed, variables=variables)))

    assert text == 'Done: 2 of 2 steps. This task is completed; nothing was run.\nResult of charge: "charged"'

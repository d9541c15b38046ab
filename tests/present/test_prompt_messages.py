"""A run as the messages of a prompt."""

import pytest

from mcp_baton import Fetch, ToolStep
from mcp_baton.present.handoff import why_stopped
from mcp_baton.present.prompt_messages import Message, messages, said
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.record import StepStatus, TaskStatus
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.tools.arguments import Argument
from mcp_baton.tools.content import ResourceContent
from mcp_baton.tools.outcomes import Failed, Outcome, Succeeded
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.ended_run import EndedRun, Persisted
from mcp_baton.workflow.lease import Superseded, TaskOver
from mcp_baton.workflow.pause import DeadlineExceeded, PauseReason
from mcp_baton.workflow.resolve import KnownValues
from mcp_baton.workflow.sources import constant, prompt_arg
from mcp_baton.workflow.step_run import StepRun, UnreadResource
from tests.fakes import ScriptedHost

PENDING, COMPLETED, FAILED, SKIPPED = StepStatus
FETCH = ToolStep("fetch", tool="fetch_order", guidance="Look at {order_id} first.")
POLICY = Fetch("policy", resources=["docs://{topic}", "docs://faq"], guidance="Read it all.")
REFUND = ToolStep(
    "refund",
    tool="refund",
    arguments={"why": prompt_arg("topic"), "note": constant("")},
    resources=["docs://limits"],
    guidance="Mind {unknown}.",
)
WORKFLOW = Workflow(
    name="refund_order",
    description="refund an order.",
    arguments=[Argument("order_id"), Argument("topic"), Argument("amount", type=float)],
    steps=[FETCH, POLICY, REFUND],
)
TEXT = ResourceContent("docs://shoes", "All about shoes", "text/plain")
BYTES = ResourceContent("docs://faq", b"\x89PN", "image/png")
BYTES_JSON: JsonObject = {"uri": "docs://faq", "blob": "iVBO", "mimeType": "image/png"}
TOOLS = {"fetch_order": "Fetch one order.", "refund": ""}


def conversation_of(
    *traces: StepRun, pause: PauseReason | None = None, blocked: StepRun | None = None, **texts: str
) -> list[Message]:
    statuses = dict.fromkeys(("fetch", "policy", "refund"), PENDING)
    statuses |= {trace.step.name: FAILED if isinstance(trace.outcome, Failed) else COMPLETED for trace in traces}
    known = KnownValues(WORKFLOW, texts, dict(texts), statuses, {}, {})
    return messages(
        EndedRun(known, traces, (pause,) if pause else (), None, blocked=(blocked,) if blocked else ()),
        ScriptedHost(),
        TOOLS.__getitem__,
    )


def text_of(message: Message) -> str:
    content = message["content"]
    assert isinstance(content, dict)
    return str(content["text"])


def test_resources_after_the_tool_are_in_the_users_messages() -> None:
    unread = UnreadResource("docs://a", "gone")

    conversation = conversation_of(StepRun(FETCH, {}, (unread,), Succeeded(1), after=(TEXT,)))

    assert conversation[3:] == [
        said("user", "The resource docs://a could not be read: gone"),
        said("assistant", "Calling fetch_order with {}"),
        said("user", "Result from fetch_order: 1"),
        said("user", "Resource content from docs://shoes:\nAll about shoes"),
    ]


def test_a_step_without_time_has_only_the_handoff() -> None:
    conversation = conversation_of(pause=DeadlineExceeded("fetch", "fetch_order"))

    assert [message["role"] for message in conversation] == ["user", "assistant", "assistant", "user"]


@pytest.mark.parametrize("value", ["bare text", {"a": 1}, None])
def test_a_replayed_step_shows_its_call_and_stored_result_without_guidance(value: Json) -> None:
    text = "bare text" if value == "bare text" else '{"a":1}' if value else "null"

    conversation = conversation_of(
        StepRun(FETCH, {"order_id": "A-17"}, (), Succeeded(value), replayed=True),
        StepRun(POLICY, None, (TEXT,), Succeeded(None), replayed=True),
        topic="a",
    )

    assert [text_of(message) for message in conversation[2:]] == [
        'Calling fetch_order with {"order_id": "A-17"}',
        f"Result from fetch_order: {text}",
        "Reading docs://a, docs://faq",
        "Resource content from docs://shoes:\nAll about shoes",
    ]


LETTERS = [ToolStep(name, tool="work") for name in ("a", "b", "c", "d")]
LETTERED = Workflow(name="w", description="do it", steps=LETTERS)


def text_of_stop(statuses: list[StepStatus], outcomes: dict[int, Outcome], *, replayed: tuple[int, ...] = ()) -> str:
    """Return the text about a cancelled run with these statuses, without its first sentence."""
    known = KnownValues(LETTERED, {}, {}, dict(zip("abcd", statuses, strict=True)), {}, TaskVariables({}))
    traces = tuple(
        StepRun(LETTERS[place], {}, (), outcomes.get(place, Succeeded(1)), replayed=place in replayed)
        for place in sorted({*outcomes, *replayed})
    )
    stop = TaskOver(TaskStatus.CANCELLED)
    head, tail = why_stopped(EndedRun(known, traces, (), None, stop), stop).split(" under way. ")
    assert head == "The task was cancelled while this run was"
    return tail


@pytest.mark.parametrize(
    ("persisted", "reported"),
    [
        (True, "Its results are recorded"),
        (False, "Some of its results are not recorded, and those steps may have run twice"),
        ("unknown", "It is not known whether its results are recorded"),
    ],
)
def test_a_superseded_run_says_whether_its_results_are_recorded(persisted: Persisted, reported: str) -> None:
    known = KnownValues(LETTERED, {}, {}, dict.fromkeys("abcd", COMPLETED), {}, TaskVariables({}))
    run = EndedRun(known, (), (), None, Superseded(), persisted=persisted)
    assert why_stopped(run, Superseded()) == (
        "This run was superseded: its claim expired, and another run has taken over the task. "
        f"{reported}; read the task for its state. The run ran no step. No step was left to run."
    )


@pytest.mark.parametrize(
    ("statuses", "outcomes", "replayed", "reported"),
    [
        ([COMPLETED, COMPLETED, PENDING, PENDING], {0: Succeeded(1), 1: Succeeded(2)}, (), "'b' ran last|'c', 'd'"),
        ([COMPLETED, FAILED, PENDING, SKIPPED], {1: Failed("no")}, (0,), "'b' ran last|'c'"),
        ([COMPLETED, PENDING, FAILED, PENDING], {}, (0,), "ran no step|'b', 'c', 'd'"),
        ([COMPLETED] * 4, {3: Succeeded(1)}, (0, 1, 2), "'d' ran last|No step was left"),
    ],
    ids=["as planned", "a step failed", "nothing ran", "all had run"],
)
def test_a_stopped_run_names_its_last_step_and_the_open_steps(
    statuses: list[StepStatus], outcomes: dict[int, Outcome], replayed: tuple[int, ...], reported: str
) -> None:
    last_step_text, open_steps_text = reported.split("|")
    text = text_of_stop(statuses, outcomes, replayed=replayed)
    assert last_step_text in text
    assert open_steps_text in text
    assert text.count("'") == reported.count("'")


def test_the_messages_begin_with_the_intent_and_end_with_the_last_result() -> None:
    conversation = conversation_of(
        StepRun(FETCH, {"order_id": "A-17"}, (), Succeeded({"total": 30.0})),
        StepRun(POLICY, None, (TEXT, BYTES), Succeeded(None)),
        StepRun(REFUND, {}, (TEXT,), Succeeded(None)),
        order_id="A-17",
        topic="shoes & socks",
        amount="30.0",
    )

    assert conversation == [
        said(
            "user", "I want to refund an order.\n\nArguments:\n- order_id: A-17\n- topic: shoes & socks\n- amount: 30.0"
        ),
        said(
            "assistant",
            "Here is the plan:\n\n1. fetch_order: Fetch one order.\n2. Read docs://{topic}, docs://faq\n3. refund",
        ),
        said("assistant", 'Look at "A-17" first.'),
        said("assistant", 'Calling fetch_order with {"order_id": "A-17"}'),
        said("user", 'Result from fetch_order: {"total":30.0}'),
        said("assistant", "Read it all."),
        said("assistant", "Reading docs://shoes%20%26%20socks, docs://faq"),
        said("user", "Resource content from docs://shoes:\nAll about shoes"),
        {"role": "user", "content": {"type": "resource", "resource": BYTES_JSON}},
        said("assistant", "Mind {unknown}."),
        said("user", "Resource content from docs://shoes:\nAll about shoes"),
        said("assistant", "Calling refund with {}"),
        said("user", "Result from refund: null"),
    ]

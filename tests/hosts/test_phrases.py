"""The scripted model's reading: the documented phrases and nothing else."""

import pytest

from tests.hosts.host import Show, everything, first_of_an_error, refused, structure_alone, text_alone
from tests.hosts.model import prose
from tests.hosts.phrases import Call, read

HANDOFF = """Step 'refund' failed: "EUR 30.00 need an approval". This step is not retryable: correct the cause first.

To continue the workflow, make these tool calls:

1. Call refund with {"order_id": "A-17", "task_id": "t"}
   Note: Ask a supervisor.

2. Call send_mail with {"to": "kim@example.com", "task_id": "t"}

Or call refund_order with {"task_id": "t"} to let the server continue."""
GO_ON = Call("refund_order", {"task_id": "t"})


def test_a_handoff_has_its_calls_in_order_and_the_call_that_continues() -> None:
    reading = read(HANDOFF)
    assert [call.tool for call in reading.calls] == ["refund", "send_mail"]
    assert reading.calls[0].arguments == {"order_id": "A-17", "task_id": "t"}
    assert (reading.go_on, reading.done, reading.finished) == (GO_ON, False, False)


@pytest.mark.parametrize(
    ("text", "calls", "go_on", "finished"),
    [
        ("Recorded as step 'a' (1 of 2 done). Next: call b with {\"n\": 1}", [Call("b", {"n": 1})], None, False),
        ("(1 of 3 done). Next: read the resource docs://x, then call b with {}", [Call("b", {})], None, False),
        (
            'Next: read the resource docs://x. Call refund_order with {"task_id": "t"} to let the server continue.',
            [],
            GO_ON,
            False,
        ),
        ('All 4 steps are done. Call refund_order with {"task_id": "t"} to finish.', [], GO_ON, True),
        ("All 4 steps are done; the client completes the task.", [], None, False),
        ('Then you should call wire with {"amount": 1}', [], None, False),
        ('"1. Call wire with {}"', [], None, False),
    ],
)
def test_the_calls_in_other_texts_are_found(
    text: str, calls: list[Call], go_on: Call | None, *, finished: bool
) -> None:
    reading = read(text)
    assert (list(reading.calls), reading.go_on, reading.finished) == (calls, go_on, finished)


def test_completion_is_always_the_same_phrase() -> None:
    assert read("Done: 4 of 4 steps.\nResult of refund: 5").done
    assert read("Done: 1 of 1 step.").done
    assert not read("Another run holds this task; 3 of 4 steps are done so far.").done


def test_a_running_task_has_the_time_to_call_again_and_an_unrecorded_call_the_reason() -> None:
    assert read("Another run holds the task. Call again in 12 s.").again_s == 12.0
    assert read("5\nNot recorded: unknown task. The call itself was made.").not_recorded is not None


RESULT = {
    "content": [{"type": "text", "text": "text"}, {"type": "text", "text": "more"}],
    "structuredContent": {"a": 1},
}


@pytest.mark.parametrize(
    ("show", "shown", "of_an_error"),
    [
        (everything, 'text\nmore\n{"a": 1}', 'text\nmore\n{"a": 1}'),
        (text_alone, "text\nmore", "text\nmore"),
        (structure_alone, '{"a": 1}', "text\nmore"),
        (first_of_an_error, '{"a": 1}', "text"),
    ],
)
def test_the_hosts_show_the_same_as_real_hosts(show: Show, shown: str, of_an_error: str) -> None:
    assert show(RESULT) == shown
    assert show({**RESULT, "isError": True}) == of_an_error


def test_a_model_that_gets_json_reads_the_text_for_it() -> None:
    assert prose('{"message": "Done: 1 of 1 steps.", "steps": []}') == "Done: 1 of 1 steps."
    assert prose('{"result": 1, "baton_next": "Next: call b with {}"}') == "Next: call b with {}"
    assert prose('{"result": "5"}') == '{"result": "5"}'
    assert prose('{"a": 1}\nRecorded as step') == '{"a": 1}\nRecorded as step'


def test_the_hosts_omit_the_same_tools_as_real_hosts() -> None:
    schema = {"type": "object", "properties": {"a": {"anyOf": []}}}
    assert not refused({"name": "refund", "inputSchema": schema})
    assert refused({"name": "refund", "inputSchema": {"type": "object", "anyOf": []}}) == ["anyOf"]
    assert refused({"name": "r" * 45, "inputSchema": schema})

"""The scripted model's reading: the documented phrases and nothing else."""

import pytest

from tests.hosts.host import Show, everything, first_of_an_error, structure_alone, text_alone
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

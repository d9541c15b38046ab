"""`make demo` as a user runs it: a process that calls a server process over HTTP."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.site import record

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"
TIMEOUT_S = 120

TEXTS = [
    "Example shop 1.0.0, MCP 2025-11-25",
    "refund_order refund an order according to our policy",
    'prompts/get {"name": "refund_order"',
    "Step 1/4: fetch",
    "Step 3/4: refund",
    "user I want to refund an order according to our policy.",
    "assistant Here is the plan:",
    "Resource content from policy://refunds/electronics:",
    "✓ fetch ✓ policy · refund · notify",
    '"type": "approvalRequired"',
    "Step 'refund' did not run: it waits for an approval: \"Refund EUR 240.0 for order A-17?\".",
    "After the approval, make these tool calls:",
    "1. Call issue_refund with",
    "ada@example.com: GET /approvals",
    "kim@example.com: POST /approvals/… 403 The requester cannot decide an approval",
    "ada@example.com: POST /approvals/… 200 approved",
    'tools/call {"name": "refund_order", "arguments": {"task_id":',
    "Step 4/4: notify",
    "✓ fetch ✓ policy ✓ refund ✓ notify",
    "tasks/get: completed, task variables:",
    "_workflow.progress",
    "_workflow.result.refund",
    'tasks/result {"completed": true, "steps_completed": 4}',
    "mallory@example.com asks for the same task: -32602: Unknown task",
    "3 of 10 rows",
    "10 of 10 rows",
    '"type": "answersRequired"',
    "Question 'summary': \"Summarise 2026-09 in two sentences",
    '"answers": {"summary": "September brought in EUR 11208.69.',
    "Step 5/5: announce",
    "✓ extract ✓ validate ✓ summary ✓ publish ✓ announce",
    "tasks/get: completed, task variables:",
    'tasks/result {"completed": true, "steps_completed": 5}',
    "Both workflows are complete.",
]


def demo_output(*arguments: str) -> tuple[int, str]:
    """Run the demo. Return its exit code and its output."""
    process = subprocess.run(
        [sys.executable, DEMO, *arguments], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert process.stderr == ""
    return process.returncode, process.stdout


def run_demo(*arguments: str) -> tuple[int, str]:
    """Run the demo. Return its exit code and its output with single spaces."""
    code, output = demo_output(*arguments)
    return code, " ".join(output.replace("│", " ").split())


@pytest.fixture(scope="module")
def demo_run() -> tuple[int, str]:
    return demo_output()


def positions(texts: list[str], output: str) -> list[int]:
    """Return the position of each beat after the previous one. From the first missing beat on, the positions are -1."""
    result, start = [], 0
    for text in texts:
        start = output.find(text, start) if start >= 0 else -1
        result.append(start)
    return result


def test_the_demo_completes_both_workflows(demo_run: tuple[int, str]) -> None:
    code, output = demo_run[0], " ".join(demo_run[1].replace("│", " ").split())

    assert code == 0, output
    position_by_text = dict(zip(TEXTS, positions(TEXTS, output), strict=False))
    assert [text for text, position in position_by_text.items() if position < 0] == []
    assert "\x1b[" not in output


def test_the_recording_shows_what_the_demo_prints(demo_run: tuple[int, str]) -> None:
    lines = record.first_workflow(demo_run[1])

    # If this fails, run `make record`.
    assert record.picture_words(record.PICTURE.read_text()) == record.words("\n".join(line.plain for line in lines))


def test_the_demo_reports_an_unexpected_answer(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text(
        'from mcp_baton import Server\n\nserver = Server("other", title="Other")\n\n\n'
        '@server.tool\ndef hello() -> str:\n    """Say hello."""\n    return "hello"\n'
    )

    code, output = run_demo(str(tmp_path / "other.py"))

    assert code == 1
    assert output.endswith("The demo failed: the server lists no prompts")


def test_the_demo_shows_why_its_server_does_not_start(tmp_path: Path) -> None:
    code, output = run_demo(str(tmp_path / "missing.py"))

    assert code == 1
    assert "The demo failed: `baton serve` did not become ready: baton: no such file:" in output


@pytest.fixture
def _ctrl_c_is_heard() -> Iterator[None]:
    """Handle SIGINT. Background jobs of a shell ignore it, and their child processes would inherit that."""
    previous_handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous_handler)


@pytest.mark.usefixtures("_ctrl_c_is_heard")
@pytest.mark.parametrize(("stop_signal", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_the_demo_stops_its_server_when_it_is_stopped(stop_signal: signal.Signals, code: int) -> None:
    with subprocess.Popen([sys.executable, DEMO], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        match = re.search(r"http://127\.0\.0\.1:(\d+)/mcp", demo.stdout.readline())
        assert match is not None
        demo.send_signal(stop_signal)
        _, errors = demo.communicate(timeout=TIMEOUT_S)

    assert (demo.returncode, errors) == (code, "")
    with (
        closing(HTTPConnection("127.0.0.1", int(match[1]), timeout=TIMEOUT_S)) as connection,
        pytest.raises(ConnectionRefusedError),
    ):
        connection.request("GET", "/mcp")

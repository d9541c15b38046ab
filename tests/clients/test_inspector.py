"""The MCP Inspector's command line. Each request is its own session, so the tests pass on what later requests need.

The Inspector cannot send `tasks/*`, complete an argument, or answer questions. It shows no progress and no logs.
"""

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
WITHIN_S = 120.0
TOOL_FAILED = 5
NOT_SUPPORTED = 1
ORDER = "order_id=A-17"

type JsonDict = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one command line: its exit code and output."""

    returncode: int
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True)
class Inspector:
    """The command line for one server and era, in the process of `inspector.mjs`."""

    process: "subprocess.Popen[str]"
    url: str
    era: str

    def run(self, method: str, *options: str) -> Outcome:
        """Send one request. Return its outcome, also if it fails."""
        assert self.process.stdin
        assert self.process.stdout
        target = [self.url, "--transport", "http", "--protocol-era", self.era]
        line = [*target, "--format", "json", "--quiet", "--method", method, *options]
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()
        timer = threading.Timer(WITHIN_S, self.process.kill)
        timer.start()
        reply = self.process.stdout.readline()
        timer.cancel()
        assert reply, "the Inspector ended, or took too long"
        return Outcome(**json.loads(reply))

    def result(self, method: str, *options: str) -> JsonDict:
        """Send one request that must succeed. Return its result."""
        outcome = self.run(method, *options)
        assert outcome.returncode == 0, outcome.stdout + outcome.stderr
        result: JsonDict = json.loads(outcome.stdout)["result"]
        return result

    def call(self, tool: str, *options: str) -> JsonDict:
        """Call a tool that must succeed. Return its result."""
        return self.result("tools/call", "--tool-name", tool, *options)


@pytest.fixture(scope="module")
def process(node: Path, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[subprocess.Popen[str]]":
    """The process, with its own folder for the Inspector's settings."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path_factory.mktemp("home"))}
    command = [node, HERE / "inspector.mjs"]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.terminate()


@pytest.fixture(params=["legacy", "modern"])
def inspector(request: pytest.FixtureRequest, process: "subprocess.Popen[str]", url: str) -> Inspector:
    return Inspector(process, url, request.param)


def test_the_inspector_lists_the_published_tools(inspector: Inspector) -> None:
    tools = inspector.result("tools/list")["tools"]
    assert {"fetch_order", "refund", "count", "interview"} <= {tool["name"] for tool in tools}
    prompts = inspector.result("prompts/list")["prompts"]
    assert [prompt["name"] for prompt in prompts] == ["apology", "release", "refund_order"]
    templates = inspector.result("resources/templates/list")["resourceTemplates"]
    assert [template["uriTemplate"] for template in templates] == ["orders://{order_id}"]
    assert inspector.result("resources/read", "--uri", "orders://A-17")["contents"][0]["text"] == "Order A-17"


def test_the_inspector_finds_every_schema_portable(inspector: Inspector) -> None:
    assert inspector.result("tools/list", "--strict")["tools"]


def test_the_inspector_continues_a_workflow_to_its_last_step(inspector: Inspector) -> None:
    prompt = inspector.result("prompts/get", "--prompt-name", "refund_order", "--prompt-args", ORDER)
    assert prompt["_meta"]["pause_reason"]["type"] == "toolError"
    arguments = ("--tool-arg", ORDER, "amount=240", "approved_by=Ada")
    task_argument = f"_task_id={prompt['_meta']['task_id']}"
    result = inspector.call("refund", *arguments, "--tool-metadata", task_argument)
    assert result["content"][0]["text"] == "Refunded EUR 240.00 of A-17"
    assert result["_meta"]["recorded"] is True
    assert [step["status"] for step in result["_meta"]["steps"]] == ["completed", "completed"]


def test_the_inspector_finishes_a_paused_workflow_with_tool_calls_only(inspector: Inspector) -> None:
    start = inspector.call("refund_order", "--tool-arg", ORDER)
    task_argument = f"task_id={start['structuredContent']['task_id']}"
    refund = inspector.call("refund", "--tool-arg", ORDER, "amount=240", "approved_by=Ada", task_argument)
    assert refund["content"][-1]["text"].startswith("All 2 steps are done. Call refund_order with")
    end = inspector.call("refund_order", "--tool-arg", task_argument)
    assert end["content"][0]["text"].startswith("Done: 2 of 2 steps.")


def test_the_inspector_reads_a_result_after_a_stream(inspector: Inspector) -> None:
    metadata = ("--metadata", "progressToken=p", "io.modelcontextprotocol/logLevel=info")
    assert inspector.call("count", "--tool-arg", "to=3", *metadata)["structuredContent"] == {"result": 3}


def test_the_inspector_declares_that_it_cannot_answer_questions(inspector: Inspector) -> None:
    """The Inspector declares no capability: -32021 in the 2026 era, a tool's error in the 2025 era."""
    outcome = inspector.run("tools/call", "--tool-name", "interview")
    assert outcome.returncode == (TOOL_FAILED if inspector.era == "legacy" else NOT_SUPPORTED)
    assert ("The client cannot be asked" if inspector.era == "legacy" else "Missing required client capability") in (
        outcome.stdout + outcome.stderr
    )

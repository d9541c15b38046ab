"""The commands that call servers, against `baton serve` in a process of its own, and against a file
(docs/commands.md)."""

import io
import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import Mock

import pytest
from werkzeug.wrappers import Response

from emulators.answering import Answer, Request, answering
from mcp_baton.cli.app import main
from mcp_baton.local.http_server import LOOPBACK, LocalServer, listen
from tests.cli.conftest import APP

KIM = ("--header", "X-Owner: kim")


type Run = Callable[..., tuple[int, Any]]


@pytest.fixture
def baton(
    url: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Run:
    """Runs a command against the server, with an owner for each test. Returns the exit code and the output, by default
    as JSON."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(command: str, *words: str, json_: bool = True) -> tuple[int, Any]:
        options = ["--header", f"X-Owner: {request.node.name}", *(["--json"] if json_ else [])]
        code = main([command, url, *words, *options])
        output = capsys.readouterr().out
        return code, json.loads(output) if json_ else output

    return run


def test_a_workflow_that_completes_is_shown_step_by_step(baton: Run) -> None:
    code, output = baton("run", "done", "order=A-1")
    [step] = output["steps"]
    assert (code, output["status"], output["results"]) == (
        0,
        "completed",
        {"fetch": {"order": "A-1", "email": "A-1@example.com"}},
    )
    assert (step["name"], step["tool"], step["status"]) == ("fetch", "fetch", "completed")
    assert step["bytes"] == len('{"order":"A-1","email":"A-1@example.com"}')
    assert {"at", "ms"} <= step.keys()


def test_a_workflow_is_continued_by_a_call_and_a_resume(baton: Run) -> None:
    code, run = baton("run", "paused", "order=A-1")
    assert (code, run["pause"]["failedStep"]) == (3, "refund")
    assert [entry["tool"] for entry in run["next"]] == ["refund", "paused"]
    assert "make these tool calls" in run["handoff"]
    prefix = run["taskId"][:20]
    code, result = baton("call", "refund", "order=A-1", "approved_by=kim", "--task", prefix)
    assert (code, result["_meta"]["recorded"]) == (0, True)
    code, run = baton("resume", prefix)
    assert (code, run["pause"]["missingFields"]) == (3, ["text"])
    code, result = baton("call", "notify", "email=a@example.com", "text=30", "copies=2", "--task", prefix)
    assert (code, result["content"][0]["text"]) == (0, "a@example.com: 30 (2)")
    assert baton("resume", prefix)[0] == 0
    code, view = baton("show", prefix)
    assert [step["status"] for step in view["steps"]] == ["completed"] * 3
    assert baton("resume", prefix) == (
        1,
        {"error": {"message": f"the task {run['taskId']} is completed and cannot be changed"}},
    )


def test_the_progress_of_a_list_is_shown_beside_its_step(baton: Run) -> None:
    task = baton("run", "pack_all")[1]["taskId"]
    assert baton("show", task)[1]["steps"][0]["elements"] == {"done": 2, "total": 3}
    assert re.search(r"^ +pack +failed .* 2 of 3 elements$", baton("show", task, json_=False)[1], re.MULTILINE)


def test_tasks_are_listed_newest_first_and_ended_once(baton: Run) -> None:
    first, second = (baton("run", "paused", "order=A-1")[1]["taskId"] for _ in range(2))
    code, page = baton("tasks")
    assert (code, [task["taskId"] for task in page["tasks"]]) == (0, [second, first])
    waits_for = page["tasks"][0]["_meta"]["pause_reason"]["type"]
    assert baton("tasks", json_=False)[1].count(f"({waits_for})") == 2
    assert baton("cancel", first)[1]["status"] == "cancelled"
    code, output = baton("complete", second, "--result", '{"refunded": true}')
    assert (code, output["status"], output["result"], output["resultBy"]) == (
        0,
        "completed",
        {"refunded": True},
        "client",
    )
    assert "Result, supplied by a client\n" in baton("show", second, json_=False)[1]
    assert waits_for not in baton("tasks", json_=False)[1]
    for command in (("cancel", second), ("complete", second, "--result", "{}")):
        assert baton(*command) == (1, {"error": {"message": f"the task {second} is completed and cannot be changed"}})
    code, output = baton("show", "0")
    assert (code, output["error"]["message"].split(":")[0]) == (2, "2 tasks begin with '0'")
    code, output = baton("show", "zz")
    assert (code, output["error"]["message"].split(":")[0]) == (2, "no task begins with 'zz'")


def test_output_fits_80_columns_and_texts_are_not_markup(baton: Run) -> None:
    code, output = baton("run", "paused", "order=A-1", json_=False)
    assert code == 3
    assert max(map(len, output.splitlines())) <= 80
    assert "working, paused at refund: waits for the model" in output
    assert "not [bold]approved[/bold]" in output
    # The client makes the first call, and the server then continues.
    assert re.search(
        r"1\. refund order=A-1 --task (\w{37})/refund\n +Ask a supervisor\.\n +2\. paused task_id=\1\n", output
    )
    assert "\x1b" not in output
    list_output = baton("tasks", json_=False)[1]
    assert max(map(len, list_output.splitlines())) <= 80
    assert "refund" in list_output
    assert "working, paused:" in list_output
    task_output = baton("show", list_output.splitlines()[1].split()[0], json_=False)[1]
    assert "\x1b" not in task_output
    assert r"\u001b[31m" in " ".join(task_output.split())
    assert max(map(len, task_output.splitlines())) <= 80


def test_in_40_columns_nothing_is_cut_and_only_calls_are_longer(baton: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    task = baton("run", "paused", "order=A-1")[1]["taskId"]
    words = "working, paused at refund: waits for the model"
    for output, texts in (
        (baton("run", "paused", "order=A-1", json_=False)[1], [words, "result 41 bytes", "[bold]approved[/bold]"]),
        (baton("show", task, json_=False)[1], [words, task, "step notify status pending"]),
        (baton("tasks", json_=False)[1], [f"task {task[:16]}", "what paused", "at refund (toolError)"]),
        (baton("call", "notify", f"email={'a' * 100}", "text=b", json_=False)[1], [f"{'a' * 100}: b (0)"]),
    ):
        lines = [line for line in output.splitlines() if not re.match(r" +\d\. |a{100}", line)]
        assert max(map(len, lines), default=0) <= 40
        assert all(text in " ".join(output.split()) for text in texts), output


def test_each_next_call_is_one_line_that_can_be_pasted(
    baton: Run, url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    task = baton("run", "pay", "account=A 1's", "pin=4711")[1]["taskId"]
    monkeypatch.setenv("COLUMNS", "20")
    printed_lines = [line for line in baton("show", task, json_=False)[1].splitlines() if ". sign " in line]
    command = ["call", url, "sign", "account=A 1's", "kind=now", "--task", f"{task[:30]}/sign"]
    assert main([*command, "--header", "X-Owner: test_each_next_call_is_one_line_that_can_be_pasted"]) == 0
    printed_lines += [line for line in capsys.readouterr().err.splitlines() if line.startswith("Next: ")]

    lines = [re.sub(r"^ *(Next: |\d\. )", "", line) for line in printed_lines]
    script = "; echo; ".join(f"printf '%s\\0' {line}" for line in lines)
    output = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout
    assert output.split("\n") == [
        f"sign\0account=A 1's\0kind=<missing: kind>\0--task\0{task}/sign\0",
        f"pay\0task_id={task}\0pin=<secret pin>\0",
    ]


def test_steps_are_printed_while_they_run(baton: Run, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", url, "paused", "order=A-1", *KIM]) == 3
    *steps, last = capsys.readouterr().err.splitlines()
    assert steps == ["Step 1/3: fetch", "Step 2/3: refund"]
    assert re.fullmatch(rf"To continue here, with the same credentials: baton resume {url} [0-9a-z]{{16}}", last)


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (("run", "dnoe"), 2, "there is no prompt 'dnoe': did you mean 'done'?"),
        (("run", "fetch"), 2, "'fetch' is a tool, and not a prompt: use `baton call`"),
        (("run", "done"), 2, "the server rejected the request"),
        (("call", "fetsh"), 2, "there is no tool 'fetsh': did you mean 'fetch'?"),
        (("call", "notify", "copies=two"), 2, "copies=two: 'two' is not a value of type integer"),
        (("complete", "0", "--result", "[1]"), 2, "--result"),
        (("complete", "0"), 2, "--result is missing"),
        (("show",), 2, "the task is missing"),
        (("show", "0", "--table", "tasks"), 2, "with --table there is no WHERE"),
    ],
)
def test_errors_name_the_remedy(words: tuple[str, ...], code: int, complaint: str, baton: Run) -> None:
    exit_code, output = baton(*words)
    assert exit_code == code
    assert complaint in output["error"]["message"]


def test_a_server_with_prompts_and_without_tools_lacks_a_prompt(capsys: pytest.CaptureFixture[str]) -> None:
    def answer(request: Request) -> Answer:
        message = json.loads(request.body)
        if message["method"] != "prompts/list":
            error = {"code": -32601, "message": "Method not found"}
            return Answer.json({"jsonrpc": "2.0", "id": message["id"], "error": error}, 404)
        return Answer.json({"jsonrpc": "2.0", "id": message["id"], "result": {"prompts": [{"name": "greet"}]}})

    with answering(answer) as address:
        assert main(["run", f"{address}/mcp", "grete"]) == 2
    assert "there is no prompt 'grete': did you mean 'greet'?" in capsys.readouterr().err


def test_a_failed_tool_or_an_unrecorded_call_ends_with_code_1(baton: Run) -> None:
    code, output = baton("call", "refund", "order=A-1")
    assert (code, output["isError"]) == (1, True)
    task = baton("run", "done", "order=A-1")[1]["taskId"]
    code, output = baton("call", "fetch", "order=A-1", "--task", task)
    assert (code, output["_meta"]["recorded"]) == (1, False)


def test_a_plain_prompt_is_shown_and_parameters_are_sent_in_headers(baton: Run) -> None:
    code, output = baton("run", "greeting", "name=Kim")
    assert (code, output["messages"][0]["content"]["text"]) == (0, "Greet Kim.")
    assert baton("call", "region", "where=nördlich")[1]["content"][0]["text"] == "nördlich"


def test_a_server_that_does_not_answer_ends_with_code_4(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks", "http://127.0.0.1:9/mcp"]) == 4
    assert re.search("cannot be reached.*is `baton serve` running", capsys.readouterr().err)


@pytest.mark.parametrize("words", [("tasks",), ("approvals",), ("approve", "a1", "--yes")], ids=" ".join)
@pytest.mark.parametrize(
    ("status", "body", "complaint"),
    [
        (429, '{"message": "Too Many Requests"}', "answered 429 (Too Many Requests): there are too many requests"),
        (503, "<html>", "answered 503: the server or its gateway failed"),
        (302, "", "is not an MCP endpoint: it answered 302|has no such API: it answered 302"),
        (200, '{"jsonrpc": "2.0", "id": 1, "result": {"tasks": [{}]}}', "gave an answer that cannot be used"),
    ],
)
def test_an_answer_without_a_result_ends_with_code_4_and_its_cause(
    words: tuple[str, ...], status: int, body: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command, *rest = words
    server = LocalServer(LOOPBACK, 0, Response(body, status, content_type="application/json")).start()
    try:
        assert main([command, f"http://{server.address}/mcp", *rest]) == 4
    finally:
        server.close()
    printed = capsys.readouterr().err
    assert any(part in printed for part in complaint.split("|"))


@pytest.mark.parametrize(
    "sent", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nContent-Type: application/json\r\n\r\n{"]
)
def test_a_cut_answer_may_belong_to_a_request_that_has_run(sent: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    def cut_off(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(sent)

    with listen(LOOPBACK, 0) as listener:
        threading.Thread(target=cut_off, args=(listener,), daemon=True).start()
        assert main(["run", f"http://{LOOPBACK}:{listener.getsockname()[1]}/mcp", "done"]) == 4
    assert "did not answer completely" in (printed := capsys.readouterr().err)
    assert "The request may have run: look at its task before you repeat it" in printed


type TypeLines = Callable[..., None]


@pytest.fixture
def type_lines(monkeypatch: pytest.MonkeyPatch) -> TypeLines:
    """Enters these lines at the terminal, and the secrets at the hidden prompts."""

    def enter_lines(*lines: str, secrets: Sequence[str] = ()) -> None:
        monkeypatch.setattr("mcp_baton.cli.remote.connection.at_terminal", lambda: True)
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        monkeypatch.setattr("getpass.getpass", Mock(side_effect=secrets))

    return enter_lines


def test_run_and_resume_ask_for_the_secret_and_do_not_show_it(
    url: str, type_lines: TypeLines, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BANK_KEY", "some key")
    type_lines(secrets=["4711", "4711"])
    assert main(["run", url, "pay", "account=A 1", "--api-key", "env:BANK_KEY", *KIM]) == 3
    last = capsys.readouterr().err.splitlines()[-1]
    command = last.removeprefix("To continue here, with the same credentials: ")
    assert re.fullmatch(f"baton resume {url} [0-9a-z]{{16}}", command)
    task = command.split()[3]
    assert main(["call", url, "sign", "account=A 1", "kind=now", "--task", task, *KIM]) == 0

    assert main([*command.split()[1:], *KIM]) == 0
    captured = capsys.readouterr()
    assert "completed" in captured.out
    assert "4711" not in captured.out + captured.err


def test_a_question_of_the_workflow_is_answered_at_the_terminal(
    url: str, type_lines: TypeLines, capsys: pytest.CaptureFixture[str]
) -> None:
    type_lines("", "many", "2")

    assert main(["run", url, "tell", "order=A-1", *KIM]) == 0
    captured = capsys.readouterr()
    assert captured.err.count("How many copies of A-1?") >= 1
    assert "a@example.com: A-1 (2)" in captured.out


def test_without_a_terminal_a_secret_is_not_asked_for(baton: Run) -> None:
    code, output = baton("run", "pay", "account=A-1")
    assert (code, output["error"]["code"], output["error"]["data"]) == (2, -32602, {"secretArguments": ["pin"]})
    task = baton("run", "pay", "account=A-1", "pin=4711")[1]["taskId"]
    code, output = baton("resume", task)
    assert (code, output["error"]["data"]) == (2, {"secretArguments": ["pin"]})
    assert baton("resume", task, "pin=4711")[0] == 3


@pytest.mark.parametrize(
    ("lines", "answer"),
    [
        (("y", "", "kim", ""), "accept kim 10.0"),
        (("", "kim", "a lot", "2.5"), "accept kim 2.5"),
        (("n",), "decline"),
        ((), "cancel"),
    ],
)
def test_a_question_of_the_server_is_asked_at_the_terminal(
    url: str, type_lines: TypeLines, capsys: pytest.CaptureFixture[str], lines: tuple[str, ...], answer: str
) -> None:
    type_lines(*lines)
    assert main(["call", url, "approve", *KIM]) == 0
    assert capsys.readouterr().out.strip() == answer


def test_without_a_terminal_a_question_is_declined(baton: Run) -> None:
    code, output = baton("call", "approve")
    assert (code, output["content"][0]["text"]) == (0, "decline")


def test_a_file_is_served_in_this_process_with_its_background_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["call", str(APP), "count", "to=4"]) == 0
    assert capsys.readouterr().out.strip() == "counted to 4"

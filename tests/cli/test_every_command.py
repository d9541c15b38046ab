"""Each command works in a pipe, with `--json`, without a terminal, and in 40 columns."""

import io
import json
import re
import sys
from typing import Any

import pytest
import typer.main

from mcp_baton.cli.app import COMMANDS, app, main
from mcp_baton.local.http_server import listen
from tests.cli.conftest import Shop

KIM = ("--header", "X-Owner: kim")

CASES: dict[str, tuple[str, int]] = {
    # The words after the command, and the exit code.
    "new": ("{folder} --name shop-2 --no-lock", 0),
    "serve": ("{shop} --port {port}", 2),
    "check": ("{shop}", 0),
    "graph": ("{shop}", 0),
    "run": ("{url} paused order=A-1 {kim}", 3),
    "call": ("{url} notify email=a@example.com text=b {kim}", 0),
    "tasks": ("{url} {kim}", 0),
    "show": ("{url} {task} {kim}", 0),
    "resume": ("{url} {task} {kim}", 3),
    "complete": ("{url} {task} --result {{}} {kim}", 0),
    "cancel": ("{url} {task} {kim}", 0),
    "approvals": ("{url} {kim}", 0),
    "approve": ("{url} {task} --yes {kim}", 1),
    "deny": ("{url} {task} --yes {kim}", 1),
    "callback": ("{url} token {{}} {kim}", 1),
    "export": ("--owner kim --table {table} --dynamodb {dynamodb}", 0),
    "forget": ("--owner kim --yes --table {table} --dynamodb {dynamodb}", 0),
    "dynamodb": ("--port {port}", 2),
    "redrive": ("--queue http://localhost:4566/1/dead --function worker:live", 2),
}
UNWRAPPED = ("new", "check", "graph", "export", "forget")
"""Commands whose output is not wrapped: it is for programs, or has lines that are copied."""


def test_all_commands_are_tested_here() -> None:
    assert {command.__name__ for command in COMMANDS} == CASES.keys()


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
@pytest.mark.parametrize("command", CASES)
def test_a_command_works_without_a_terminal_and_in_40_columns(
    command: str,
    as_json: bool,
    url: str,
    shop: Shop,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys, "stdin", io.StringIO())  # neither a terminal nor an answer
    shop.paused_task()
    main(["run", url, "paused", "order=A-1", "--json", *KIM])
    task = json.loads(capsys.readouterr().out)["taskId"]
    words, code = CASES[command]
    with listen("127.0.0.1", 0) as taken:
        places: dict[str, Any] = {"url": url, "task": task, "shop": shop.version(), "folder": shop.folder / "new"}
        places |= {"table": shop.table, "dynamodb": shop.url, "port": taken.getsockname()[1], "kim": "\0".join(KIM)}
        arguments = [word for part in words.split(" ") for word in part.format(**places).split("\0")]

        is_known = has_json_option(command)
        exit_code = main([command, *arguments, *(["--json"] if as_json and is_known else [])])

    captured = capsys.readouterr()
    assert exit_code == code, captured.err
    assert "\x1b" not in captured.out + captured.err
    assert bool(captured.out or captured.err)
    if as_json and is_known and command != "serve":
        document = json.loads(captured.out)
        assert ("error" in document) == (code not in (0, 3))
    elif command not in UNWRAPPED:
        # A call of a tool is one line, so that it can be copied.
        assert [line for line in captured.out.splitlines() if len(line) > 40 and not re.match(r" +\d\. ", line)] == []


def has_json_option(command: str) -> bool:
    options = typer.main.get_command(app).commands[command].params  # type: ignore[attr-defined]
    return any("--json" in option.opts for option in options)

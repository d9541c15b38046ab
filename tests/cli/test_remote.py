"""The commands that use a server: how they read its replies, end its tasks and print calls."""

import json
import subprocess
import sys
from typing import Any, override

import pytest

from mcp_baton import Server
from mcp_baton.cli.app import main
from mcp_baton.cli.remote.arguments import for_tool, parse_arguments
from mcp_baton.cli.remote.client import Remote
from mcp_baton.cli.remote.errors import CommandFailure
from mcp_baton.cli.remote.printing import age, call_line, duration
from mcp_baton.local.clean_text import cleaned
from mcp_baton.testing import Client, connect

URL = "https://api.example.com/mcp"


def test_without_httpx_the_command_names_the_package(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    monkeypatch.delitem(sys.modules, "mcp_baton.cli.remote.http", raising=False)
    assert main(["tasks", URL]) == 2
    assert "install mcp-baton[local]" in capsys.readouterr().err


@pytest.mark.parametrize("option", [["--token", "schlüssel"], ["--header", "x-team: ümlaut"], ["--api-key", "a\nb"]])
def test_credentials_that_no_header_can_have_are_refused(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks", URL, *option]) == 2
    assert "not printable ASCII" in capsys.readouterr().err


class LocalRemote(Remote):
    """Sends the commands' requests to a server in this process."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @override
    def result(self, method: str, params: Any = None, meta: Any = None, **_: Any) -> dict[str, Any]:
        return dict(self._client.request(method, params, meta))


def test_a_client_completes_a_tools_task_once() -> None:
    server = Server("s")

    @server.tool(task="required")
    def count() -> str:
        return "counted"

    with connect(server, era="2026") as client:
        client.dispatch_fails()  # so that the worker does not complete the task first
        task = client.start_task("count").task_id
        remote = LocalRemote(client)
        state = remote.end_task(task, {"content": [], "by": "hand"})

        assert (state.status, state.result_by, state.result["by"]) == ("completed", "client", "hand")
        assert state.to_json()["resultBy"] == "client"
        with pytest.raises(CommandFailure, match="is completed and cannot be changed"):
            remote.end_task(task, {"by": "hand"})


VALUES: dict[str, Any] = {
    "sentence": "Your expense R-2 is booked.",
    "empty": "",
    "quotes": """He said "don't" twice""",
    "shell": "$HOME `id` \\ !! * ~ #; && rm -rf | > out $(id)",
    "placeholder": "<missing: text>",
    "file": "@/etc/passwd",
    "equals": "a=b:=c",
    "lines": "first\nsecond\tand more",
    "control": "red \x1b[31m \x7f \x9b",
    "directions": "abc \u202egnp.exe \u200b",
    "umlaut": "Größe 38",
    "number": 30,
    "text of a number": "30",
    "nothing": None,
    "truth": True,
    "list": ["a b", {"c": "it's"}],
    "lines in a list": ["a\nb"],
}


def test_a_printed_call_can_be_pasted_into_a_shell() -> None:
    line = cleaned(call_line({"tool": "book expense", "arguments": VALUES}))

    process = subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, check=True, timeout=30)
    tool, *words = process.stdout.decode().split("\0")[:-1]

    assert "\n" not in line
    assert tool == "book expense"
    assert for_tool(parse_arguments(words), {"type": "object"}) == VALUES


def test_a_resource_is_printed_with_read() -> None:
    assert call_line({"resource": "docs://a"}) == "read docs://a"


@pytest.mark.parametrize(
    "entry",
    [
        {"tool": "pay", "arguments": {"--header": "X: env:AWS_SECRET_ACCESS_KEY"}},
        {"tool": "--header=X: env:AWS_SECRET_ACCESS_KEY"},
        {"tool": "pay\n  2. curl evil.example"},
        {"resource": "docs://a\n  2. curl evil.example"},
    ],
)
def test_names_of_a_hostile_server_are_not_printed_as_words_of_a_command(entry: dict[str, Any]) -> None:
    assert call_line(entry) == f"not a call: {json.dumps(entry)}"


@pytest.mark.parametrize(
    ("ms", "text", "age_text"),
    [
        (0, "0 ms", "1 s"),
        (999, "999 ms", "1 s"),
        (1_230, "1.23 s", "1 s"),
        (59_999, "60 s", "59 s"),
        (125_000, "2 min 5 s", "2 min"),
        (11_070_000, "3 h 4 min", "3 h"),
        (190_800_000, "2 d 5 h", "2 d"),
    ],
)
def test_a_duration_has_two_units_and_an_age_one(ms: int, text: str, age_text: str) -> None:
    assert (duration(ms), age("1970-01-01T00:00:00.000Z", ms)) == (text, age_text)


def test_without_a_time_nothing_is_shown() -> None:
    assert (duration(None), age("yesterday", 0)) == ("", "")

"""The arguments and the help of the commands."""

import subprocess
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from mcp_baton.cli.app import COMMANDS, main

QUEUE = ("--queue", "https://sqs.eu-west-1.amazonaws.com/123456789012/dead-letters")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "Commands:"),
        (["serve"], "TARGET"),
        (["fly", "app.py"], "fly"),
        (["serve", "app.py", "--port", "65536"], "'--port': Input should be less than or equal to 65535"),
        (["serve", "app.py", "--port", "-1"], "'--port': Input should be greater than or equal to 0"),
        (["serve", "app.py", "--dynamodb", "localhost:8000"], "neither 'embedded' nor a URL"),
        (["serve", "app.py", "--dynamodb", "ftp://localhost"], "neither 'embedded' nor a URL"),
        (["serve", "app.py", "--table", "my tasks"], "not a table's name"),
        (["serve", "app.py", "--owner-header", "X User"], "not the name of a header"),
        (["serve", "app.py", "--timeout", "0"], "'--timeout': Input should be greater"),
        (["serve", "app.py", "--timeout", "inf"], "'--timeout': Input should be less"),
        (["serve", "app.py", "--timeout", "soon"], "'--timeout': Input should be a valid number"),
        (["dynamodb", "--table", "my tasks"], "not a table's name"),
        (["redrive", "--function", "baton-worker:live"], "--queue"),
        (["redrive", *QUEUE, "--function", "baton-worker"], "'baton-worker' is not a function's alias"),
        (["redrive", "--queue", "dead-letters", "--function", "w:live"], "'dead-letters' is not a queue's URL"),
        (["dynamodb", "app.py"], "unexpected extra argument"),
        (["run", "127.0.0.1:8000/mcp", "borrow"], "write http://127.0.0.1:8000/mcp"),
        (["tasks", "localhost:8000"], "write http://localhost:8000"),
        (["callback", "http://example.com/mcp", "token", "{}"], "without encryption"),
        (["tasks", "http://example.com/mcp", "--header", "X-User:kim"], "without encryption"),
        (["approve", "http://example.com/mcp", "a", "--token", "t"], "without encryption"),
        (["tasks", "app.py"], "name the URL of its `baton serve`"),
        (["show", "app.py:server", "01"], "name the URL of its `baton serve`"),
        (["cancel", "shop.mcp:server", "01"], "name the URL of its `baton serve`"),
        (["resume", "app.py", "01"], "name the URL of its `baton serve`"),
    ],
)
def test_invalid_arguments_end_with_code_2_and_the_reason(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(arguments)

    captured = capsys.readouterr()
    assert code == 2
    assert complaint in captured.err
    assert captured.out == ""


def test_the_list_of_commands_fits_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    assert main(["--help"]) == 0

    command_lines = capsys.readouterr().out.split("Commands:\n")[1].splitlines()
    assert [line.split()[0] for line in command_lines] == [command.__name__ for command in COMMANDS]
    assert [line for line in command_lines if not line.endswith(".") or line.endswith("...")] == []


def test_characters_that_the_output_cannot_encode_are_escaped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = tmp_path / "greeting_app.py"
    app.write_text(
        "from mcp_baton import Server\n\nserver = Server('s')\nserver.add_tool(lambda: 'Größe 日本', name='greet')\n"
    )
    output = BytesIO()
    monkeypatch.setattr("sys.stdout", TextIOWrapper(output, encoding="latin-1", write_through=True))

    assert main(["call", str(app), "greet"]) == 0
    assert output.getvalue().decode("latin-1") == "Größe \\u65e5\\u672c\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a file without room")
@pytest.mark.parametrize("words", [["--version"], ["check", "absent.py", "--json"]], ids=" ".join)
def test_a_full_disk_is_named_without_a_traceback(words: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        process = subprocess.run(
            [Path(sys.executable).parent / "baton", *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert process.returncode == 1
    assert process.stderr.splitlines()[-1].startswith("baton: the output cannot be written: ")
    assert "Traceback" not in process.stderr

"""`baton install` adds a server to the configuration file of each host and keeps the rest of the file."""

import json
import re
import sys
from pathlib import Path, PurePath
from typing import Any

import pytest

from mcp_baton.cli.app import main
from mcp_baton.cli.install import MCP_REMOTE, HostName, user_file

ROOT = Path(__file__).parents[3]
URL = "https://example.com/mcp"
KEY = "x-api-key: not-to-be-written"
FILES = {
    "claude-code": ".mcp.json",
    "claude-desktop": ".config/Claude/claude_desktop_config.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".config/Code/User/mcp.json",
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder of a user on Linux, without configuration of any host."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def install(home: Path, host: str, *options: str) -> Any:
    """Install the server and return the host's configuration."""
    assert main(["install", host, URL, "--name", "shop", *options]) == 0
    return json.loads((home / FILES[host]).read_text())


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("claude-code", {"mcpServers": {"shop": {"type": "http", "url": URL}}}),
        ("claude-desktop", {"mcpServers": {"shop": {"command": "npx", "args": ["-y", MCP_REMOTE, URL]}}}),
        ("cursor", {"mcpServers": {"shop": {"url": URL}}}),
        ("vscode", {"servers": {"shop": {"type": "http", "url": URL}}}),
    ],
)
def test_each_host_gets_the_configuration_that_it_reads(home: Path, host: str, expected: Any) -> None:
    assert install(home, host) == expected


@pytest.mark.parametrize(
    ("host", "headers"),
    [
        ("claude-code", {"x-api-key": "${SHOP_X_API_KEY}"}),
        ("cursor", {"x-api-key": "${env:SHOP_X_API_KEY}"}),
        ("vscode", {"x-api-key": "${input:shop-x-api-key}"}),
    ],
)
def test_a_secret_is_not_written_to_the_file(
    home: Path, host: str, headers: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    config = install(home, host, "--header", KEY)

    [servers] = [config[name] for name in ("mcpServers", "servers") if name in config]
    assert servers["shop"]["headers"] == headers
    assert "not-to-be-written" not in (home / FILES[host]).read_text()
    assert "x-api-key" in capsys.readouterr().out


def test_vs_code_asks_for_the_secret_once(home: Path) -> None:
    config = install(home, "vscode", "--header", KEY, "--header", "Authorization: Bearer $TOKEN")

    assert [question["id"] for question in config["inputs"]] == ["shop-x-api-key", "shop-authorization"]
    assert all(question["type"] == "promptString" and question["password"] for question in config["inputs"])
    assert config["servers"]["shop"]["headers"]["Authorization"] == "Bearer ${input:shop-authorization}"


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("Authorization: Bearer $TOKEN", "Bearer ${env:TOKEN}"),
        ("Authorization: Bearer abc", "Bearer ${env:SHOP_AUTHORIZATION}"),
        ("x-api-key: ${KEY}", "${env:KEY}"),
        ("x-api-key", "${env:SHOP_X_API_KEY}"),
        ("x-team: blue", "blue"),
    ],
)
def test_a_header_is_a_reference_to_a_variable_or_not_secret(home: Path, header: str, value: str) -> None:
    config = install(home, "cursor", "--header", header)

    assert config["mcpServers"]["shop"]["headers"] == {header.split(":", maxsplit=1)[0]: value}


def test_claude_desktop_gets_the_secret_in_a_file_that_only_its_user_may_read(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "t-1")
    config = install(home, "claude-desktop", "--header", "Authorization: Bearer $TOKEN", "--header", "x-team: blue")

    shop = config["mcpServers"]["shop"]
    assert shop["args"] == ["-y", MCP_REMOTE, URL, "--header", "Authorization:${TOKEN}", "--header", "x-team:blue"]
    assert shop["env"] == {"TOKEN": "Bearer t-1"}
    assert (home / FILES["claude-desktop"]).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", ["{}", None])
def test_a_readable_file_becomes_private_when_it_gets_a_secret(home: Path, content: str | None) -> None:
    file = home / FILES["claude-desktop"]
    file.parent.mkdir(parents=True)
    if content is None:
        install(home, "claude-desktop", "--header", KEY)
    else:
        file.write_text(content)
    file.chmod(0o644)

    install(home, "claude-desktop", "--header", KEY)

    assert "not-to-be-written" in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600


def test_mcp_remote_has_a_fixed_version() -> None:
    assert re.fullmatch(r"mcp-remote@\d+\.\d+\.\d+", MCP_REMOTE)
    assert MCP_REMOTE in (ROOT / "docs" / "hosts.md").read_text()


@pytest.mark.parametrize("host", list(FILES))
def test_a_second_install_changes_nothing(home: Path, host: str, capsys: pytest.CaptureFixture[str]) -> None:
    install(home, host, "--header", KEY)
    file = home / FILES[host]
    state_before = (file.read_bytes(), file.stat().st_ino)

    install(home, host, "--header", KEY)

    assert (file.read_bytes(), file.stat().st_ino) == state_before
    assert "nothing changed" in capsys.readouterr().out


def test_other_servers_the_indentation_and_permissions_are_kept(home: Path) -> None:
    file = home / ".vscode" / "mcp.json"
    file.parent.mkdir()
    file.write_text('\ufeff{\n\t"é": [1],\n\t"servers": {"other": {"command": "x"}}\n}\n')
    file.chmod(0o640)

    assert main(["install", "vscode", URL, "--name", "shop", "--project"]) == 0

    assert file.read_text() == (
        '{\n\t"é": [\n\t\t1\n\t],\n\t"servers": {\n\t\t"other": {\n\t\t\t"command": "x"\n\t\t},\n'
        f'\t\t"shop": {{\n\t\t\t"type": "http",\n\t\t\t"url": "{URL}"\n\t\t}}\n\t}}\n}}\n'
    )
    assert file.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in file.parent.iterdir()] == ["mcp.json"]


def test_other_settings_of_the_server_are_kept(home: Path) -> None:
    (home / ".mcp.json").write_text(json.dumps({"mcpServers": {"shop": {"url": URL, "timeout": 5}}, "other": 1}))

    config = install(home, "claude-code", "--header", "x-team: blue")

    assert config == {
        "mcpServers": {"shop": {"url": URL, "timeout": 5, "type": "http", "headers": {"x-team": "blue"}}},
        "other": 1,
    }


def test_another_server_of_the_name_is_replaced_only_with_replace(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / ".mcp.json").write_text('{"mcpServers": {"shop": {"command": "other"}}}')

    assert main(["install", "claude-code", URL, "--name", "shop"]) == 2
    assert "use another --name, or --replace" in capsys.readouterr().err
    assert install(home, "claude-code", "--replace")["mcpServers"] == {"shop": {"type": "http", "url": URL}}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"mcpServers": oops}', "it has comments or is not JSON"),
        ('{"mcpServers": {}} // ours', "it has comments or is not JSON"),
        ('{"mcpServers": {}, /* ours */ "a": 1}', "it has comments or is not JSON"),
        ('{"mcpServers": {},}', "it has comments or is not JSON"),
        ('{"a": 1, "a": 2}', "the same key twice"),
        ("[" * 100_000, "it has comments or is not JSON"),
        ("[1]", "it does not contain a JSON object"),
        ('{"mcpServers": []}', "'mcpServers' has an unexpected type"),
    ],
)
def test_a_file_that_cannot_be_edited_safely_stays_and_the_lines_to_add_are_printed(
    home: Path, text: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / ".mcp.json").write_text(text)

    assert main(["install", "claude-code", URL, "--name", "shop"]) == 2

    captured = capsys.readouterr()
    assert json.loads(captured.out) == {"mcpServers": {"shop": {"type": "http", "url": URL}}}
    assert f"{home / '.mcp.json'} was not changed: " in captured.err
    assert reason in captured.err
    assert (home / ".mcp.json").read_text() == text


def test_with_print_nothing_is_written(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "cursor", URL, "--print"]) == 0

    captured = capsys.readouterr()
    assert json.loads(captured.out) == {"mcpServers": {"baton": {"url": URL}}}
    assert f"Add this to {home}/.cursor/mcp.json." in captured.err
    assert list(home.iterdir()) == []


def test_a_linked_file_stays_a_link(home: Path) -> None:
    (home / "dotfiles.json").write_text("{}\n")
    (home / ".cursor").mkdir()
    (home / ".cursor" / "mcp.json").symlink_to(home / "dotfiles.json")

    install(home, "cursor")

    assert (home / ".cursor" / "mcp.json").is_symlink()
    assert "shop" in (home / "dotfiles.json").read_text()


@pytest.mark.parametrize("dangling", [False, True])
@pytest.mark.parametrize(
    ("host", "path"), [("claude-code", ".mcp.json"), ("cursor", ".cursor"), ("vscode", ".vscode/mcp.json")]
)
def test_in_a_project_the_command_does_not_follow_links(
    home: Path,
    host: str,
    path: str,
    dangling: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    project, outside = home / "project", home / "outside"
    (project / path).parent.mkdir(parents=True)
    if not dangling:
        outside.mkdir() if path == ".cursor" else outside.write_text("{}")
    (project / path).symlink_to(outside)
    monkeypatch.chdir(project)

    assert main(["install", host, URL, "--project"]) == 2

    assert f"{project / path} is a symbolic link" in capsys.readouterr().err
    assert not outside.exists() or outside.is_dir() or outside.read_text() == "{}"
    assert not (outside / "mcp.json").exists()


def test_a_failed_write_leaves_the_old_file_and_no_temporary_file(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / ".mcp.json").write_text("{}")

    def fail_to_write(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail_to_write)

    assert main(["install", "claude-code", URL]) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert [(path.name, path.read_text()) for path in home.iterdir()] == [(".mcp.json", "{}")]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["emacs", URL], "'emacs'"),
        (["cursor", "example.com/mcp"], "is not a server's URL"),
        (["cursor", "https://user:secret@example.com/mcp"], "is not a server's URL"),
        (["cursor", "https://example.com"], "answers at https://example.com/mcp"),
        (["cursor", URL, "--name", "my shop"], "is not a server's name"),
        (["cursor", URL, "--header", "a b: c"], "write 'x-api-key: VALUE'"),
        (["claude-desktop", URL, "--project"], "omit --project"),
        (["claude-desktop", URL, "--header", "x-api-key"], "set BATON_X_API_KEY to it"),
    ],
)
def test_invalid_arguments_are_refused_and_nothing_is_written(
    home: Path, arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["install", *arguments]) == 2

    assert complaint in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    ("host", "platform", "environment", "expected"),
    [
        ("vscode", "darwin", {}, "h/Library/Application Support/Code/User/mcp.json"),
        ("vscode", "win32", {"APPDATA": "r"}, "r/Code/User/mcp.json"),
        ("vscode", "linux", {"XDG_CONFIG_HOME": "c"}, "c/Code/User/mcp.json"),
        ("claude-desktop", "darwin", {}, "h/Library/Application Support/Claude/claude_desktop_config.json"),
        ("claude-desktop", "win32", {}, "h/AppData/Roaming/Claude/claude_desktop_config.json"),
        ("cursor", "win32", {}, "h/.cursor/mcp.json"),
    ],
)
def test_the_file_depends_on_the_platform(
    host: HostName, platform: str, environment: dict[str, str], expected: str
) -> None:
    assert user_file(host, platform, Path("h"), environment) == PurePath(expected)

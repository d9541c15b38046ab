"""Where each host has its configuration (docs/hosts.md, Configuration)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from mcp_baton.cli.projects.record import place
from mcp_baton.exceptions import BatonError

type Host = Literal["claude-code", "claude-desktop", "cursor", "vscode"]

NAMES: Final[dict[Host, str]] = {
    "claude-code": "Claude Code",
    "claude-desktop": "Claude Desktop",
    "cursor": "Cursor",
    "vscode": "VS Code",
}
_IN_PROJECT: Final[dict[Host, str]] = {
    "claude-code": ".mcp.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".vscode/mcp.json",
}


def project_file(host: Host, folder: Path) -> Path:
    """The file that configures a host for one project.

    Raises:
        BatonError: it has none, or a part of its path in the folder is a symbolic link.
    """
    if host not in _IN_PROJECT:
        raise BatonError(f"{NAMES[host]} has no configuration for a project: leave out --project")
    return place(folder, _IN_PROJECT[host])


def user_file(host: Host, platform: str, home: Path, environment: Mapping[str, str]) -> Path | None:
    """The file that configures a host for its user; `None` where it has none that others may write.

    Args:
        host: The host.
        platform: As `sys.platform` says it.
        home: The user's folder.
        environment: Where `APPDATA` and `XDG_CONFIG_HOME` are.
    """
    match host:
        case "claude-code":
            return None
        case "cursor":
            return home / ".cursor" / "mcp.json"
        case "vscode":
            return _applications(platform, home, environment) / "Code" / "User" / "mcp.json"
        case _:
            return _applications(platform, home, environment) / "Claude" / "claude_desktop_config.json"


def _applications(platform: str, home: Path, environment: Mapping[str, str]) -> Path:
    """Where applications keep their settings."""
    if platform == "darwin":
        return home / "Library" / "Application Support"
    if platform == "win32":
        return Path(environment.get("APPDATA") or home / "AppData" / "Roaming")
    return Path(environment.get("XDG_CONFIG_HOME") or home / ".config")

"""The projects that this user made on this machine. A clone of somebody else's project is not among them.

`make lock` runs the project's Makefile. So `baton upgrade` locks by default only in a project of the user's own.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path


def list_file(environment: Mapping[str, str] = os.environ) -> Path:
    """The file with the projects' folders, one JSON string a line: `baton/projects` in the user's state
    (https://specifications.freedesktop.org/basedir-spec/latest/)."""
    home = environment.get("XDG_STATE_HOME", "")
    base = Path(home) if Path(home).is_absolute() else Path.home() / ".local" / "state"
    return base / "baton" / "projects"


def remember(project: Path) -> None:
    """Note that the user made this project.

    Raises:
        OSError: the list cannot be written.
    """
    file = list_file()
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with file.open("a", encoding="utf-8") as lines:
        lines.write(f"{_line(project)}\n")


def is_own(project: Path) -> bool:
    """Whether the user made this project on this machine, and still owns its folder."""
    if hasattr(os, "getuid") and project.stat().st_uid != os.getuid():
        return False
    try:
        return _line(project) in list_file().read_text(encoding="utf-8").splitlines()
    except OSError:
        return False


def _line(project: Path) -> str:
    return json.dumps(str(project.resolve()))

"""A new project: its files, its record, its lock."""

import shlex
import shutil
from pathlib import Path
from typing import Final

from mcp_baton.cli.projects import locking, record
from mcp_baton.cli.projects.answers import Answers
from mcp_baton.cli.projects.template import generated, kept_up
from mcp_baton.exceptions import BatonError

WHEELS: Final = "layers/baton"


def check_folder(project: Path) -> None:
    """See that a project can be made in this folder: there is none, or it is empty but for version control.

    Raises:
        BatonError: there is something in it.
    """
    if record.is_project(project):
        raise BatonError(
            f"{project} is a project already: `baton upgrade {shlex.quote(str(project))}` brings it up to date"
        )
    if project.exists() and not project.is_dir():
        raise BatonError(f"{project} is a file: name a folder for the project")
    if project.is_dir() and any(path.name != ".git" for path in project.iterdir()):
        raise BatonError(f"{project} is not empty: name a new folder, or an empty one")


def make(project: Path, answers: Answers, version: str, wheel: Path | None = None) -> None:
    """Write a new project.

    Args:
        project: Its folder, which need not exist.
        answers: What its maker chose.
        version: The version of Baton that makes it.
        wheel: The wheel that Baton comes from, instead of the package index.

    Raises:
        BatonError: the folder is not empty, or cannot be written.
    """
    check_folder(project)
    files = generated(answers, version)
    try:
        for path, content in files.items():
            record.write_file(project, path, content)
        record.write(project, record.Record(version, answers, kept_up(files)))
        if wheel:
            shutil.copyfile(wheel, record.place(project, f"{WHEELS}/{wheel.name}"))
    except OSError as error:
        raise BatonError(f"the project cannot be written: {error}") from error


def lock(project: Path) -> None:
    """Lock a new project.

    Raises:
        NotLocked: it cannot be; the files stay.
    """
    try:
        locking.lock(project)
    except locking.NotLocked as error:
        if "mcp-baton" not in str(error):
            raise
        raise locking.NotLocked(
            f"{error}. Where mcp-baton is not in the package index, make the project with --wheel FILE"
        ) from error

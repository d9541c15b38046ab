"""What a project remembers of its making, in its folder `.baton`: the answers, the version, and each file as generated.

By the latter an upgrade tells the template's changes from the user's.
"""

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from mcp_baton.cli.projects.answers import Answers, checked_auth, checked_name, checked_region
from mcp_baton.exceptions import BatonError

FOLDER: Final = ".baton"
ABOUT: Final = "project.json"
BASE: Final = "generated"
ENDING: Final = ".base"
"""What is appended to the names of the files in there, so that no tool takes them for the project's own."""


@dataclass(frozen=True, slots=True)
class Record:
    """How a project was made, or last upgraded.

    Attributes:
        version: The version of Baton whose template it has.
        answers: What its maker chose.
        base: The files that upgrades bring up to date, as they were generated, by path with `/` between its parts.
    """

    version: str
    answers: Answers
    base: Mapping[str, bytes]


def is_project(project: Path) -> bool:
    """Whether this folder holds a project that `baton new` made."""
    return (project / FOLDER / ABOUT).is_file()


def read(project: Path) -> Record:
    """The record of a project.

    Raises:
        BatonError: there is none, or it cannot be read.
    """
    about = project / FOLDER / ABOUT
    if not is_project(project):
        raise BatonError(
            f"{project} is not a project that `baton new` made: there is no {about}. Name the project's folder, and if "
            f"{FOLDER}/ was deleted, take it from version control"
        )
    try:
        version, answers = _about(json.loads(about.read_bytes()))
    except (ValueError, KeyError, TypeError) as error:
        raise BatonError(f"{about} cannot be read ({error}): take it from version control") from error
    folder = project / FOLDER / BASE
    files = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob(f"*{ENDING}"))}
    return Record(version, answers, {path.removesuffix(ENDING): file.read_bytes() for path, file in files.items()})


def write(project: Path, record: Record) -> None:
    """Put the record into the project, in the place of the one that is there. The version is written last."""
    folder = project / FOLDER
    about = {"version": record.version, **asdict(record.answers)}
    shutil.rmtree(folder / BASE, ignore_errors=True)
    for path, content in record.base.items():
        write_file(folder / BASE, path + ENDING, content)
    write_file(folder, ABOUT, (json.dumps(about, indent=2) + "\n").encode())


def write_file(root: Path, path: str, content: bytes) -> None:
    """Write one file under `root`, and the folders that it needs."""
    file = root.joinpath(*PurePosixPath(path).parts)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


def _about(about: Mapping[str, Any]) -> tuple[str, Answers]:
    version, wheel = str(about["version"]), about["wheel"]
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)*\S*", version):
        raise ValueError(f"{version!r} is not a version")
    if wheel is not None and not re.fullmatch(r"mcp_baton-[A-Za-z0-9_.+-]+\.whl", wheel):
        raise ValueError(f"{wheel!r} is not the name of a wheel")
    name, region, auth = about["name"], about["region"], about["auth"]
    return version, Answers(checked_name(name), checked_region(region), checked_auth(auth), wheel)

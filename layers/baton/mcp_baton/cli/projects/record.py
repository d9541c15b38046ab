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
    return place(project, f"{FOLDER}/{ABOUT}").is_file()


def place(project: Path, path: str) -> Path:
    """Where a file of the project is.

    Args:
        project: The project's folder.
        path: The file's path in it, with `/` between its parts.

    Raises:
        BatonError: a part of the path is a symbolic link, or leads out of the project.
    """
    file = project
    for part in PurePosixPath(path).parts:
        file /= part
        if part in {"..", "/"}:
            raise BatonError(f"{path} is not a path inside the project")
        if file.is_symlink():
            raise BatonError(
                f"{file} is a symbolic link. Nothing in a project is read, written or removed through a link: replace "
                "it by the file that it leads to, or delete it"
            )
    return file


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
    folder = place(project, f"{FOLDER}/{BASE}")
    paths = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob(f"*{ENDING}"))]
    base = {path.removesuffix(ENDING): place(folder, path).read_bytes() for path in paths}
    return Record(version, answers, base)


def write(project: Path, record: Record) -> None:
    """Put the record into the project, in the place of the one that is there. The version is written last."""
    about = {"version": record.version, **asdict(record.answers)}
    shutil.rmtree(place(project, f"{FOLDER}/{BASE}"), ignore_errors=True)
    for path, content in record.base.items():
        write_file(project, f"{FOLDER}/{BASE}/{path}{ENDING}", content)
    write_file(project, f"{FOLDER}/{ABOUT}", (json.dumps(about, indent=2) + "\n").encode())


def write_file(project: Path, path: str, content: bytes) -> None:
    """Write one file of the project, and the folders that it needs.

    Raises:
        BatonError: as `place`.
    """
    file = place(project, path)
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

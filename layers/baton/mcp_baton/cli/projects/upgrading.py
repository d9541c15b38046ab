"""A newer template for a project that its user has changed: what becomes of each file, and the writing of it."""

import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from mcp_baton.cli.projects import record
from mcp_baton.cli.projects.answers import Answers
from mcp_baton.cli.projects.making import generated, kept_up
from mcp_baton.exceptions import BatonError

BESIDE: Final = ".new"
"""The ending of a file that holds what an upgrade could not put into its place."""


class Fate(Enum):
    """What becomes of a file; the value says so."""

    KEPT = "kept"
    ADDED = "added"
    REPLACED = "replaced"
    REMOVED = "removed"
    MERGED = "merged with your changes"
    LEFT_OUT = "not brought back: you deleted it"
    ORPHANED = "kept with your changes: the template no longer has it"
    CONFLICT = "kept: it does not go together with the template's changes"


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of one file.

    Attributes:
        path: Its path in the project, with `/` between its parts.
        fate: What becomes of it.
        content: What is written: to the file, or beside it where the two conflict. None where nothing is.
    """

    path: str
    fate: Fate
    content: bytes | None = None


def upgrade(project: Path, was: record.Record, answers: Answers, version: str) -> list[Change]:
    """Bring a project the files of another template.

    Args:
        project: Its folder.
        was: Its record.
        answers: What it is made of from now on.
        version: The version of Baton whose template this is.

    Returns:
        What became of each file that is not as it was, by path.

    Raises:
        BatonError: the project is of a newer version, or holds what an earlier upgrade left to be settled.
    """
    if _release(was.version) > _release(version):
        raise BatonError(f"the project is of Baton {was.version}, and this is {version}: use a newer one to upgrade it")
    files = kept_up(generated(answers, version))
    paths = sorted({*files, *was.base})
    _check_settled(project, paths)
    changes = [_change(path, was.base.get(path), _content(project, path), files.get(path)) for path in paths]
    for change in changes:
        _apply(project, change)
    # Last: an upgrade that is broken off is made again from its beginning, and finds what it has done already.
    record.write(project, record.Record(version, answers, files))
    return [change for change in changes if change.fate is not Fate.KEPT]


def decide(base: bytes | None, mine: bytes | None, theirs: bytes | None) -> Fate:
    """What becomes of a file, a merge being a conflict until it is tried.

    Args:
        base: The file as it was generated; None if it was not.
        mine: The file as it is; None if there is none.
        theirs: The file as the newer template has it; None if it has none.
    """
    if theirs in (base, mine):
        return Fate.KEPT
    if mine == base:
        return Fate.ADDED if mine is None else Fate.REMOVED if theirs is None else Fate.REPLACED
    if mine is None:
        return Fate.LEFT_OUT
    return Fate.ORPHANED if theirs is None else Fate.CONFLICT


def merged(base: bytes, mine: bytes, theirs: bytes) -> tuple[bytes, bool]:
    """Three versions of a file as one by `git merge-file`, and whether all changes go together.

    Where they do not, or there is no git, the text has both, or is the template's.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for label, content in (("yours", mine), ("generated", base), ("template", theirs)):
            (folder / label).write_bytes(content)
        command = ["git", "merge-file", "--stdout", "--diff3", "yours", "generated", "template"]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, check=False)  # noqa: S603 - fixed words
        except FileNotFoundError:
            return theirs, False
    # git exits with the number of conflicts, and above 127 with an error of its own, as with files that are no text.
    return (done.stdout, done.returncode == 0) if done.returncode < 128 else (theirs, False)


def _change(path: str, base: bytes | None, mine: bytes | None, theirs: bytes | None) -> Change:
    fate = decide(base, mine, theirs)
    if fate is Fate.CONFLICT and mine is not None and theirs is not None and base is not None:
        text, together = merged(base, mine, theirs)
        return Change(path, Fate.MERGED if together else Fate.CONFLICT, text)
    return Change(path, fate, theirs if fate in {Fate.ADDED, Fate.REPLACED, Fate.CONFLICT} else None)


def _apply(project: Path, change: Change) -> None:
    if change.fate is Fate.REMOVED:
        record.place(project, change.path).unlink(missing_ok=True)
    elif change.content is not None:
        path = change.path + BESIDE if change.fate is Fate.CONFLICT else change.path
        record.write_file(project, path, change.content)


def _check_settled(project: Path, paths: list[str]) -> None:
    left = [path + BESIDE for path in paths if record.place(project, path + BESIDE).exists()]
    if left:
        raise BatonError(
            f"an earlier upgrade is not settled: take what you need from {', '.join(left)} and delete what is left"
        )


def _content(project: Path, path: str) -> bytes | None:
    file = record.place(project, path)
    return file.read_bytes() if file.exists() else None


def _release(version: str) -> tuple[int, ...]:
    """The numbers that a version begins with."""
    found = re.match(r"[0-9]+(?:\.[0-9]+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def summary(changes: list[Change]) -> Mapping[Fate, list[str]]:
    """The paths of the changes, by what became of them."""
    return {fate: found for fate in Fate if (found := [change.path for change in changes if change.fate is fate])}

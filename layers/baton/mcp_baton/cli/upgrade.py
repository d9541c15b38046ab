"""`baton upgrade`: update the files of a project that `baton new` made to a newer template (docs/projects.md)."""

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Annotated, Final

import typer

from mcp_baton.cli import project as projects
from mcp_baton.cli.new import WHEELS, generated, is_own, upgradable
from mcp_baton.cli.project import Answers, Record, place, write_file
from mcp_baton.exceptions import BatonError

FROM_INDEX: Final = "none"
CONFLICTS: Final = 1
NOT_OWN: Final = """
Not locked: you did not make this project with `baton new` on this machine, and locking runs its Makefile.
Read the Makefile, then run `make lock ARGS="--upgrade-package mcp-baton"`, or use --lock."""


def upgrade(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The project's folder.")] = Path(),
    wheel: Annotated[
        str | None,
        typer.Option(metavar="FILE|none", help="Baton's wheel; 'none' for the package index."),
    ] = None,
    lock: Annotated[
        bool | None,
        typer.Option(
            "--lock/--no-lock",
            help="Lock this version with `make lock`, which runs the project's Makefile. Default: only for projects "
            "that you made with `baton new` on this machine.",
            show_default=False,
        ),
    ] = None,
) -> int:
    """Update a project to this version and keep your changes.

    Files that you have not changed are replaced. In other files, git merges your changes with those of the template.
    In a conflict, your file stays, FILE.new contains both versions, and the exit code is 1.
    """
    from importlib.metadata import version

    from mcp_baton.local.clean_text import echo

    installed = version("mcp-baton")
    was = projects.read_record(folder)
    package = projects.checked_wheel(Path(wheel), installed) if wheel not in {None, FROM_INDEX} else None
    now = _answers(was.answers, was.version, installed, wheel, package)
    # All checks are made before the first write.
    wheels = [place(folder, f"{WHEELS}/{name}") for name in (was.answers.wheel, now.wheel) if name]
    about = place(folder, "pyproject.toml")
    locks = is_own(folder) if lock is None else lock
    if locks:
        projects.check_tools()
    changes = apply_template(folder, was, now, installed)
    if package:
        shutil.copyfile(package, wheels[-1])
    # In a conflict, pyproject.toml may still name the wheel.
    if was.answers.wheel and was.answers.wheel not in about.read_text():
        wheels[0].unlink(missing_ok=True)
    conflicts = any(change.fate is Fate.CONFLICT for change in changes)
    _print(changes, was.version, installed)
    if locks and not conflicts:
        projects.lock(folder, "--upgrade-package", "mcp-baton")
    elif lock is None and not conflicts:
        echo(NOT_OWN)
    return CONFLICTS if conflicts else 0


def _answers(was: Answers, before: str, own: str, wheel: str | None, package: Path | None) -> Answers:
    """Return the new settings of the project."""
    if was.wheel and wheel is None and own != before:
        raise BatonError(
            f"the project uses Baton from the wheel {was.wheel}: name the wheel of {own} with --wheel FILE, "
            f"or use the package index with --wheel {FROM_INDEX}"
        )
    return was if wheel is None else replace(was, wheel=package.name if package else None)


def _print(changes: "list[Change]", before: str, own: str) -> None:
    """Print the changes and the remaining work."""
    from mcp_baton.local.clean_text import echo

    found = {fate: paths for fate in Fate if (paths := [change.path for change in changes if change.fate is fate])}
    echo(f"from {before} to {own}" + ("" if found else ": no file changed"))
    for fate, paths in found.items():
        echo(f"\n{fate.value}:")
        for path in paths:
            echo(f"  {path}" + (f"  (see {path}{BESIDE})" if fate is Fate.CONFLICT else ""))
    if Fate.CONFLICT in found:
        echo(
            f"\nCopy what you need from each {BESIDE} file into the file beside it, delete it, and run `make lock "
            'ARGS="--upgrade-package mcp-baton"`.'
        )


BESIDE: Final = ".new"
"""The suffix of a file whose changes an upgrade could not merge."""


class Fate(Enum):
    """What an upgrade does with a file; the value is the text for the user."""

    KEPT = "kept"
    ADDED = "added"
    REPLACED = "replaced"
    REMOVED = "removed"
    MERGED = "merged with your changes"
    LEFT_OUT = "not restored: you deleted it"
    ORPHANED = "kept with your changes: the template no longer has it"
    CONFLICT = "kept: your changes conflict with those of the template"


@dataclass(frozen=True, slots=True)
class Change:
    """What an upgrade does with one file.

    Attributes:
        path: Its path in the project, with `/`.
        fate: What the upgrade does with it.
        content: The content that is written, in a conflict to a file beside it; `None` if nothing is written.
    """

    path: str
    fate: Fate
    content: bytes | None = None


def apply_template(project: Path, was: Record, answers: Answers, version: str) -> list[Change]:
    """Update the files of a project to this template.

    Args:
        project: Its folder.
        was: Its record.
        answers: Its new settings.
        version: The version of the template.

    Returns:
        The changes, by path.

    Raises:
        BatonError: the project has a newer version, or an earlier upgrade has unresolved conflicts.
    """
    if _release(was.version) > _release(version):
        raise BatonError(f"the project was made by Baton {was.version}, and this is {version}: use a newer version")
    files = upgradable(generated(answers, version))
    paths = sorted({*files, *was.base})
    _check_settled(project, paths)
    changes = [_change(path, was.base.get(path), _content(project, path), files.get(path)) for path in paths]
    for change in changes:
        _apply(project, change)
    # Last: an interrupted upgrade starts again and finds the files that it has already written.
    projects.write_record(project, Record(version, answers, files))
    return [change for change in changes if change.fate is not Fate.KEPT]


def decide(base: bytes | None, mine: bytes | None, theirs: bytes | None) -> Fate:
    """Return what to do with a file. A conflict may still be merged.

    Args:
        base: The file as it was generated; `None` if it was not.
        mine: The file in the project; `None` if it does not exist.
        theirs: The file of the newer template; `None` if it has none.
    """
    if theirs in (base, mine):
        return Fate.KEPT
    if mine == base:
        return Fate.ADDED if mine is None else Fate.REMOVED if theirs is None else Fate.REPLACED
    if mine is None:
        return Fate.LEFT_OUT
    return Fate.ORPHANED if theirs is None else Fate.CONFLICT


def merged(base: bytes, mine: bytes, theirs: bytes) -> tuple[bytes, bool]:
    """Merge three versions of a file with `git merge-file`. Return the text and whether the merge succeeded.

    In a conflict, the text has both versions. Without git, it is the template's.
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
    # git exits with the number of conflicts. Codes above 127 are errors, for example for binary files.
    return (done.stdout, done.returncode == 0) if done.returncode < 128 else (theirs, False)


def _change(path: str, base: bytes | None, mine: bytes | None, theirs: bytes | None) -> Change:
    fate = decide(base, mine, theirs)
    if fate is Fate.CONFLICT and mine is not None and theirs is not None and base is not None:
        text, together = merged(base, mine, theirs)
        return Change(path, Fate.MERGED if together else Fate.CONFLICT, text)
    return Change(path, fate, theirs if fate in {Fate.ADDED, Fate.REPLACED, Fate.CONFLICT} else None)


def _apply(project: Path, change: Change) -> None:
    if change.fate is Fate.REMOVED:
        place(project, change.path).unlink(missing_ok=True)
    elif change.content is not None:
        path = change.path + BESIDE if change.fate is Fate.CONFLICT else change.path
        write_file(project, path, change.content)


def _check_settled(project: Path, paths: list[str]) -> None:
    left = [path + BESIDE for path in paths if place(project, path + BESIDE).exists()]
    if left:
        raise BatonError(
            f"an earlier upgrade has unresolved conflicts: copy what you need from {', '.join(left)} "
            "and delete these files"
        )


def _content(project: Path, path: str) -> bytes | None:
    file = place(project, path)
    return file.read_bytes() if file.exists() else None


def _release(version: str) -> tuple[int, ...]:
    """Return the numbers at the beginning of a version."""
    found = re.match(r"[0-9]+(?:\.[0-9]+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()

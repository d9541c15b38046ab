"""`baton upgrade`: update the files of a project that `baton new` made to a newer template (docs/projects.md)."""

import re
import shutil
import subprocess
import tempfile
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from mcp_baton.cli import project as projects
from mcp_baton.cli.new import WHEELS, generate_files, upgradable
from mcp_baton.cli.project import Answers, Record, path_in_project, write_file
from mcp_baton.exceptions import BatonError

FROM_INDEX: Final = "none"
CONFLICTS: Final = 1
CONFLICT_SUFFIX: Final = ".new"
"""The suffix of a file whose changes an upgrade could not merge."""
LOCK_COMMAND: Final = '`make lock ARGS="--upgrade-package mcp-baton"`'


def upgrade(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The project's folder.")] = Path(),
    wheel: Annotated[
        str | None,
        typer.Option(metavar="FILE|none", help="Baton's wheel; 'none' for the package index."),
    ] = None,
    lock: Annotated[
        bool, typer.Option("--lock/--no-lock", help="Run the project's `make lock`. Read its Makefile first.")
    ] = False,
) -> int:
    """Update a project to this version and keep your changes.

    Files that you have not changed are replaced. In other files, git merges your changes with those of the template.
    In a conflict, your file stays, FILE.new contains both versions, and the exit code is 1.
    """
    from importlib.metadata import version

    from mcp_baton.local.clean_text import echo

    installed = version("mcp-baton")
    record = projects.read_record(folder)
    package = projects.checked_wheel(Path(wheel), installed) if wheel not in {None, FROM_INDEX} else None
    if record.answers.wheel and wheel is None and installed != record.version:
        raise BatonError(
            f"the project uses Baton from the wheel {record.answers.wheel}: name the wheel of {installed} with "
            f"--wheel FILE, or use the package index with --wheel {FROM_INDEX}"
        )
    answers = record.answers if wheel is None else replace(record.answers, wheel=package.name if package else None)
    # All checks are made before the first write.
    wheels = [path_in_project(folder, f"{WHEELS}/{name}") for name in (record.answers.wheel, answers.wheel) if name]
    pyproject = path_in_project(folder, "pyproject.toml")
    if lock:
        projects.check_tools()
    changes = apply_template(folder, record, answers, installed)
    if package:
        shutil.copyfile(package, wheels[-1])
    # In a conflict, pyproject.toml may still name the wheel.
    if record.answers.wheel and record.answers.wheel not in pyproject.read_text():
        wheels[0].unlink(missing_ok=True)
    echo(f"from {record.version} to {installed}" + ("" if changes else ": no file changed"))
    for action in FileAction:
        paths = [change.path for change in changes if change.action is action]
        if paths:
            echo(f"\n{action.value}:")
        for path in paths:
            echo(f"  {path}" + (f"  (see {path}{CONFLICT_SUFFIX})" if action is FileAction.CONFLICT else ""))
    if any(change.action is FileAction.CONFLICT for change in changes):
        echo(
            f"\nCopy what you need from each {CONFLICT_SUFFIX} file into the file beside it, delete it, "
            f"and run {LOCK_COMMAND}."
        )
        return CONFLICTS
    if lock:
        projects.lock(folder, "--upgrade-package", "mcp-baton")
    else:
        echo(f"\nRun {LOCK_COMMAND} to lock this version.")
    return 0


class FileAction(Enum):
    """What an upgrade does with a file; the value is the text for the user."""

    KEPT = "kept"
    ADDED = "added"
    REPLACED = "replaced"
    REMOVED = "removed"
    MERGED = "merged with your changes"
    LEFT_OUT = "not restored: you deleted it"
    ORPHANED = "kept with your changes: the template no longer has it"
    CONFLICT = "kept: your changes conflict with those of the template"


class Change(NamedTuple):
    """What an upgrade does with one file. In a conflict, `content` is written to `FILE.new`."""

    path: str
    action: FileAction
    content: bytes | None = None


def apply_template(project: Path, record: Record, answers: Answers, version: str) -> list[Change]:
    """Update the files of a project to the template of this version. Return the changes, by path.

    Raises:
        BatonError: the project has a newer version, or an earlier upgrade has unresolved conflicts.
    """
    if _release(record.version) > _release(version):
        raise BatonError(f"the project was made by Baton {record.version}, and this is {version}: use a newer version")
    files = upgradable(generate_files(answers, version))
    paths = sorted({*files, *record.base})
    names = [path + CONFLICT_SUFFIX for path in paths]
    if conflicts := [name for name in names if path_in_project(project, name).exists()]:
        raise BatonError(
            f"an earlier upgrade has unresolved conflicts: copy what you need from {', '.join(conflicts)} "
            "and delete these files"
        )
    changes = []
    for path in paths:
        file = path_in_project(project, path)
        mine = file.read_bytes() if file.exists() else None
        changes.append(_change(path, record.base.get(path), mine, files.get(path)))
    for change in changes:
        if change.action is FileAction.REMOVED:
            path_in_project(project, change.path).unlink(missing_ok=True)
        elif change.content is not None:
            suffix = CONFLICT_SUFFIX if change.action is FileAction.CONFLICT else ""
            write_file(project, change.path + suffix, change.content)
    # Last: an interrupted upgrade starts again and finds the files that it has already written.
    projects.write_record(project, Record(version, answers, files))
    return [change for change in changes if change.action is not FileAction.KEPT]


def _change(path: str, base: bytes | None, mine: bytes | None, theirs: bytes | None) -> Change:
    action = decide(base, mine, theirs)
    if action is FileAction.CONFLICT and mine is not None and theirs is not None and base is not None:
        text, is_merged = merge_versions(base, mine, theirs)
        return Change(path, FileAction.MERGED if is_merged else FileAction.CONFLICT, text)
    return Change(
        path, action, theirs if action in {FileAction.ADDED, FileAction.REPLACED, FileAction.CONFLICT} else None
    )


def decide(base: bytes | None, mine: bytes | None, theirs: bytes | None) -> FileAction:
    """Return what to do with a file. A conflict may still be merged.

    `base` is the file as it was generated, `mine` the file in the project, `theirs` that of the newer template; each is
    `None` if there is no such file.
    """
    if theirs in (base, mine):
        return FileAction.KEPT
    if mine == base:
        return FileAction.ADDED if mine is None else FileAction.REMOVED if theirs is None else FileAction.REPLACED
    if mine is None:
        return FileAction.LEFT_OUT
    return FileAction.ORPHANED if theirs is None else FileAction.CONFLICT


def merge_versions(base: bytes, mine: bytes, theirs: bytes) -> tuple[bytes, bool]:
    """Merge three versions of a file with `git merge-file`. Return the text and whether the merge succeeded.

    In a conflict, the text has both versions. Without git, it is the template's.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for label, content in (("yours", mine), ("generated", base), ("template", theirs)):
            (folder / label).write_bytes(content)
        command = ["git", "merge-file", "--stdout", "--diff3", "yours", "generated", "template"]
        try:
            process = subprocess.run(command, cwd=folder, capture_output=True, check=False)  # noqa: S603 - fixed words
        except FileNotFoundError:
            return theirs, False
    # git exits with the number of conflicts. Codes above 127 are errors, for example for binary files.
    return (process.stdout, process.returncode == 0) if process.returncode < 128 else (theirs, False)


def _release(version: str) -> tuple[int, ...]:
    """Return the numbers at the beginning of a version, which the record has checked."""
    return tuple(map(int, re.split(r"[^0-9.]", version)[0].strip(".").split(".")))

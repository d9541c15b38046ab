"""`baton upgrade`: the files of a newer template for a project that `baton new` made (docs/projects.md)."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from mcp_baton.cli.projects.answers import Answers
    from mcp_baton.cli.projects.upgrading import Change

FROM_INDEX: Final = "none"
CONFLICTS: Final = 1
NOT_OWN: Final = """
Not locked: `baton new` did not make this project on this machine for you, and locking runs its Makefile.
Read the Makefile, then run `make lock ARGS="--upgrade-package mcp-baton"`; --lock does so at once."""


def upgrade(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The project's folder.")] = Path(),
    wheel: Annotated[
        str | None,
        typer.Option(metavar="FILE|none", help="The wheel to take Baton from; 'none' for the package index."),
    ] = None,
    lock: Annotated[
        bool | None,
        typer.Option(
            "--lock/--no-lock",
            help="Lock this version with `make lock`, which runs the project's Makefile. Without the option, only a "
            "project is locked that you made with `baton new` on this machine.",
            show_default=False,
        ),
    ] = None,
) -> int:
    """Bring a project up to this version, and keep your changes.

    Files that you have not changed are replaced. Changes of yours and of the template go together as git merges them;
    where they do not, your file stays, and FILE.new beside it has both. The exit code is 1 then.
    """
    import shutil
    from importlib.metadata import version

    from mcp_baton.cli.projects import answers, locking, making, record, upgrading
    from mcp_baton.cli.projects import making as own
    from mcp_baton.local.clean_text import echo

    installed = version("mcp-baton")
    was = record.read(folder)
    package = answers.checked_wheel(Path(wheel), installed) if wheel not in {None, FROM_INDEX} else None
    now = _answers(was.answers, was.version, installed, wheel, package)
    # Checked before anything is written.
    wheels = [record.place(folder, f"{making.WHEELS}/{name}") for name in (was.answers.wheel, now.wheel) if name]
    about = record.place(folder, "pyproject.toml")
    locks = own.is_own(folder) if lock is None else lock
    if locks:
        locking.check_tools()
    changes = upgrading.upgrade(folder, was, now, installed)
    if package:
        shutil.copyfile(package, wheels[-1])
    # Where pyproject.toml is in conflict, it may still name the wheel.
    if was.answers.wheel and was.answers.wheel not in about.read_text():
        wheels[0].unlink(missing_ok=True)
    conflicts = any(change.fate is upgrading.Fate.CONFLICT for change in changes)
    _tell(changes, was.version, installed)
    if locks and not conflicts:
        locking.lock(folder, "--upgrade-package", "mcp-baton")
    elif lock is None and not conflicts:
        echo(NOT_OWN)
    return CONFLICTS if conflicts else 0


def _answers(was: "Answers", before: str, own: str, wheel: str | None, package: Path | None) -> "Answers":
    """What the project is made of from now on."""
    from dataclasses import replace

    from mcp_baton.exceptions import BatonError

    if was.wheel and wheel is None and own != before:
        raise BatonError(
            f"the project has Baton from a wheel, {was.wheel}: name the one of {own} with --wheel FILE, "
            f"or take it from the package index with --wheel {FROM_INDEX}"
        )
    return was if wheel is None else replace(was, wheel=package.name if package else None)


def _tell(changes: "list[Change]", before: str, own: str) -> None:
    """Say what became of the files, and what is left to do."""
    from mcp_baton.cli.projects.upgrading import BESIDE, Fate, summary
    from mcp_baton.local.clean_text import echo

    found = summary(changes)
    echo(f"from {before} to {own}" + ("" if found else ": no file changed"))
    for fate, paths in found.items():
        echo(f"\n{fate.value}:")
        for path in paths:
            echo(f"  {path}" + (f"  (see {path}{BESIDE})" if fate is Fate.CONFLICT else ""))
    if Fate.CONFLICT in found:
        echo(
            f"\nTake what you need from each {BESIDE} file into the file beside it, delete it, and run `make lock "
            'ARGS="--upgrade-package mcp-baton"`.'
        )

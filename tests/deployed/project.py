"""A project as `baton new` makes it out of the wheel alone, built by `sam build`."""

import os
import subprocess
from pathlib import Path

from tests.deployed.deployment import sam
from tests.deployed.machine import REGION, ROOT, environment

WITHIN_S = 300
PATH = os.pathsep.join([str(ROOT / ".tools" / "uv" / "bin"), os.environ["PATH"]])


def built_project(folder: Path) -> Path:
    """Make a new project in this folder, with the command that a wheel of this checkout brings, and build it.

    Raises:
        SamFailed: it is not to be built.
    """
    _run("uv", "build", "--quiet", "--wheel", "--out-dir", folder)
    [wheel] = folder.glob("*.whl")
    begin = ("uv", "tool", "run", "--python", "3.13", "--from", str(wheel), "baton", "new")
    _run(*begin, folder / "bookshop", "--yes", "--region", REGION, "--wheel", wheel)
    sam(["build"], folder / "bookshop", PATH=PATH)
    return folder / "bookshop"


def _run(*command: str | Path) -> None:
    """Run a command to its end."""
    done = subprocess.run(
        command, cwd=ROOT, env=environment(PATH=PATH), capture_output=True, text=True, check=False, timeout=WITHIN_S
    )
    assert done.returncode == 0, done.stderr

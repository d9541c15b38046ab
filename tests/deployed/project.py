"""A project as `baton new` makes it out of the wheel alone, built by `sam build`."""

import os
from pathlib import Path

from tests.deployed.deployment import run, sam
from tests.deployed.machine import REGION, ROOT

PATH = os.pathsep.join([str(ROOT / ".tools" / "uv" / "bin"), os.environ["PATH"]])


def built_project(folder: Path) -> Path:
    """Make a new project in this folder, with the command that a wheel of this checkout brings, and build it.

    Raises:
        CommandFailed: it is not to be built.
    """
    run(["uv", "build", "--quiet", "--wheel", "--out-dir", folder], variables={"PATH": PATH})
    [wheel] = folder.glob("*.whl")
    begin = ("uv", "tool", "run", "--python", "3.13", "--from", str(wheel), "baton", "new")
    run([*begin, folder / "bookshop", "--yes", "--region", REGION, "--wheel", wheel], variables={"PATH": PATH})
    sam(["build"], folder / "bookshop", PATH=PATH)
    return folder / "bookshop"

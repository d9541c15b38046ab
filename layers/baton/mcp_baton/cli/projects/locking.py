"""The lock of a project and the packages of its layer, made by the project's own `make lock`."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from mcp_baton.exceptions import BatonError

UV_HELP: Final = "https://docs.astral.sh/uv/getting-started/installation/"
OF_OTHERS: Final = ("MAKE", "MFLAGS", "ARGS", "VIRTUAL_ENV")
"""Variables that say something of the process that calls, and would be taken for the project's."""


class NotLocked(BatonError):
    """A project's packages could not be locked; says why, and how to lock them later."""


def check_tools() -> None:
    """See that there is what locking needs.

    Raises:
        NotLocked: uv or make is missing; says how to get it.
    """
    if not shutil.which(_uv()):
        raise NotLocked(
            f"uv is not there, which locks the project's packages: install it ({UV_HELP}), or use --no-lock"
        )
    if not shutil.which("make"):
        raise NotLocked("make is not there, which locks and builds the project: install it, or use --no-lock")


def lock(project: Path, *options: str) -> None:
    """Lock what the project depends on, and write the layer's `requirements.txt`.

    Args:
        project: Its folder.
        options: Further options of `uv lock`.

    Raises:
        NotLocked: a tool is missing, or the packages cannot be resolved.
    """
    check_tools()
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(OF_OTHERS)}
    done = subprocess.run(  # noqa: S603 - a fixed list of words; no shell
        ["make", "--silent", "lock", f"ARGS={' '.join(options)}"],  # noqa: S607 - the user's own make
        cwd=project,
        env={**inherited, "UV": _uv()},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise NotLocked(
            f"the files are written, but their packages are not locked. uv says:\n{done.stderr.strip()}\n"
            f"Once that is mended, run `make lock` in {project}"
        )


def _uv() -> str:
    """uv's command: the one that runs this process, if one does."""
    return os.environ.get("UV") or "uv"

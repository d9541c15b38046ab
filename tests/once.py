"""What is made once in a whole run of tests, whichever of pytest-xdist's workers comes first."""

import fcntl
import os
from collections.abc import Callable

import pytest


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[], str]) -> str:
    """What `make` returns, made under this name by the first worker that wants it; the others wait, and read it.

    Raises what `make` raises, and the next that wants it tries again.
    """
    folder = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        # A worker's own folder is in that of the run.
        folder = folder.parent
    made = folder / f"once-{name}"
    with (folder / f"once-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            text = make()
            made.write_text(text)
    return made.read_text()

"""Values that one pytest-xdist worker creates and all workers use."""

import fcntl
import os
from collections.abc import Callable

import pytest


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[], str]) -> str:
    """Return what `make` returns. The first worker calls it and stores the result under this name; the others wait and
    read it.

    If `make` raises an error, the next worker that needs the value tries again.
    """
    folder = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        # The folder of a worker is in the folder of the whole run.
        folder = folder.parent
    file = folder / f"once-{name}"
    with (folder / f"once-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            text = make()
            file.write_text(text)
    return file.read_text()

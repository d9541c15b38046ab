"""The commands of docs/local.md, Under `sam local`, as they stand there."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.deployed.deployment import SAM, run
from tests.deployed.machine import ROOT, environment

PATH = os.pathsep.join([str(SAM.parent), str(ROOT / ".tools" / "uv" / "bin"), os.environ["PATH"]])
BUILT = ROOT / ".aws-sam" / "build"
"""Where the page's `sam build` leaves what it built."""
BUILT_WITHIN_S = 600


@dataclass(frozen=True, slots=True)
class Served:
    """The page's commands on their way: the shell that runs them, and the files of its output and its errors."""

    process: subprocess.Popen[bytes]
    printed: Path
    log: Path


@dataclass(frozen=True, slots=True)
class Page:
    """What the page has a reader type.

    Attributes:
        sets: The lines that set variables.
        builds: The one that builds.
        serves: The others of the first block, of which the last serves until it is stopped.
        asks: The command for another terminal.
    """

    sets: str
    builds: str
    serves: str
    asks: str

    @classmethod
    def read(cls) -> "Page":
        section = (ROOT / "docs" / "local.md").read_text().partition("\n## Under `sam local`\n")[2]
        first, asks = re.findall(r"^```sh\n(.*?)^```", section.partition("\n## ")[0], re.MULTILINE | re.DOTALL)
        lines = first.splitlines()
        sets = [line for line in lines if line.startswith("export ")]
        [builds] = [line for line in lines if line.startswith("sam build ")]
        serves = [line for line in lines if line not in (*sets, builds)]
        return cls("\n".join(sets), builds, "\n".join(serves), asks)

    def build(self) -> Path:
        """Run what builds; where that is.

        Raises:
            CommandFailed: it failed.
        """
        run(["bash", "-euc", f"{self.sets}\n{self.builds}"], variables={"PATH": PATH}, within_s=BUILT_WITHIN_S)
        return BUILT

    @contextmanager
    def serving(self, folder: Path) -> Iterator[Served]:
        """Run what serves, with files for what it prints in this folder, until it is no longer wanted."""
        # The runtime's image is this machine's: see the fixture `image`.
        variables = environment(PATH=PATH, SAM_SKIP_PULL_IMAGE="true")
        command = ["bash", "-euc", f"{self.sets}\n{self.serves}"]
        printed, log = folder / "printed", folder / "page.log"
        with printed.open("wb") as output, log.open("wb") as errors:
            process = subprocess.Popen(
                command, cwd=ROOT, env=variables, stdout=output, stderr=errors, start_new_session=True
            )
        try:
            yield Served(process, printed, log)
        finally:
            _end_session(process)


def _end_session(process: subprocess.Popen[bytes]) -> None:
    """End a process and all that it started, which `sam` uses to take its containers away."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    process.wait(60)
    stop = time.monotonic() + 60
    with suppress(ProcessLookupError):
        while time.monotonic() < stop:
            os.killpg(process.pid, 0)
            time.sleep(0.2)

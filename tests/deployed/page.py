"""The commands of docs/local.md, section "Under `sam local`", exactly as the page has them."""

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
"""The folder that the page's `sam build` writes."""
BUILT_WITHIN_S = 600


@dataclass(frozen=True, slots=True)
class Served:
    """The running commands of the page: the shell that runs them, and the files with its output and errors."""

    process: subprocess.Popen[bytes]
    printed: Path
    log: Path


@dataclass(frozen=True, slots=True)
class Page:
    """The commands that the page tells the reader to run.

    Attributes:
        sets: The lines that set variables.
        builds: The line that builds.
        serves: The other lines of the first block. The last one serves until it is stopped.
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
        """Run the build command. Return the build folder.

        Raises:
            CommandFailed: it failed.
        """
        run(["bash", "-euc", f"{self.sets}\n{self.builds}"], variables={"PATH": PATH}, within_s=BUILT_WITHIN_S)
        return BUILT

    @contextmanager
    def serving(self, folder: Path) -> Iterator[Served]:
        """Run the serving commands, with their output in files of this folder. Stop them at the end."""
        # Use the runtime's image of the fixture `image`, and do not pull another.
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
    """End a process and everything that it started. On SIGTERM, `sam` removes its containers."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    process.wait(60)
    stop = time.monotonic() + 60
    with suppress(ProcessLookupError):
        while time.monotonic() < stop:
            os.killpg(process.pid, 0)
            time.sleep(0.2)

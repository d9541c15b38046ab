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
BUILD_FOLDER = ROOT / ".aws-sam" / "build"
"""The folder that the page's `sam build` writes."""
BUILD_LIMIT_S = 600


@dataclass(frozen=True, slots=True)
class PageRun:
    """The running commands of the page: the shell that runs them, and the files with its output and errors."""

    process: subprocess.Popen[bytes]
    output: Path
    log: Path


@dataclass(frozen=True, slots=True)
class Page:
    """The commands that the page tells the reader to run.

    Attributes:
        serve_commands: The other lines of the first block. The last one serves until it is stopped.
    """

    exports: str
    build_command: str
    serve_commands: str
    request: str

    @classmethod
    def read(cls) -> "Page":
        section = (ROOT / "docs" / "local.md").read_text().partition("\n## Under `sam local`\n")[2]
        first_block, request = re.findall(r"^```sh\n(.*?)^```", section.partition("\n## ")[0], re.MULTILINE | re.DOTALL)
        lines = first_block.splitlines()
        exports = [line for line in lines if line.startswith("export ")]
        [build_command] = [line for line in lines if line.startswith("sam build ")]
        serve_commands = [line for line in lines if line not in (*exports, build_command)]
        return cls("\n".join(exports), build_command, "\n".join(serve_commands), request)

    def build(self) -> Path:
        """Run the build command. Return the build folder."""
        run(["bash", "-euc", f"{self.exports}\n{self.build_command}"], variables={"PATH": PATH}, within_s=BUILD_LIMIT_S)
        return BUILD_FOLDER

    @contextmanager
    def serving(self, folder: Path) -> Iterator[PageRun]:
        """Run the serving commands, with their output in files of this folder. Stop them at the end."""
        # Use the runtime's image of the fixture `image`, and do not pull another.
        variables = environment(PATH=PATH, SAM_SKIP_PULL_IMAGE="true")
        command = ["bash", "-euc", f"{self.exports}\n{self.serve_commands}"]
        output, log = folder / "output", folder / "page.log"
        with output.open("wb") as stdout, log.open("wb") as stderr:
            process = subprocess.Popen(
                command, cwd=ROOT, env=variables, stdout=stdout, stderr=stderr, start_new_session=True
            )
        try:
            yield PageRun(process, output, log)
        finally:
            _end_session(process)


def _end_session(process: subprocess.Popen[bytes]) -> None:
    """End a process and everything that it started. On SIGTERM, `sam` removes its containers."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    process.wait(60)
    end_s = time.monotonic() + 60
    with suppress(ProcessLookupError):
        while time.monotonic() < end_s:
            os.killpg(process.pid, 0)
            time.sleep(0.2)

"""Processes that answer one event each and can be killed at a chosen point. Each test supplies the module that they
run."""

import gc
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.memory_dynamodb import MemoryDynamoDB, loopback_server, memory_client
from tests.support.background import Time
from tests.support.client import JsonDict, Table

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


class Killed(Exception):
    """The process was killed before it answered."""


@dataclass
class Processes:
    """A server that handles each event in a new process.

    Attributes:
        kill: The number of points that the next process passes before it kills itself. `None` means no kill.
    """

    table: Table
    folder: Path
    process: "subprocess.Popen[str]"
    time: Time = field(default_factory=Time)
    kill: int | None = None
    killed: int = 0

    def handle(self, event: JsonDict, _context: Any) -> JsonDict:
        kill, self.kill = self.kill, None
        order = {"event": event, "kill": kill, "time_s": self.time.s}
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        status = int(self.process.stdout.readline())
        if status == -signal.SIGKILL:
            self.killed += 1
            raise Killed
        assert status == 0, status
        answer: JsonDict = json.loads((self.folder / "answer").read_text())
        return answer

    def lines(self, name: str) -> list[str]:
        """Return the lines that the processes have written to a file."""
        file = self.folder / name
        return file.read_text().splitlines() if file.exists() else []


@contextmanager
def run_module[P: Processes](module: str, folder: Path, kind: type[P]) -> Iterator[P]:
    """Run a module that forks a process for each event."""
    memory = MemoryDynamoDB()
    memory.create("tasks")
    with closing(memory_client(memory)) as client, closing(loopback_server(memory)) as server:
        command = [sys.executable, "-m", module, f"http://{server.address}", str(folder)]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
            yield kind(Table(client, "tasks"), folder, process)
            assert process.stdin
            process.stdin.close()


class Killer:
    """Kills its process at a point: before or after a request to DynamoDB, before or after the effect."""

    def __init__(self) -> None:
        self.points: int | None = None

    def point(self, **_: object) -> None:
        if self.points is None:
            return
        self.points -= 1
        if self.points < 0:
            os.kill(os.getpid(), signal.SIGKILL)


def answer_in_forks(
    client: "DynamoDBClient", folder: Path, killer: Killer, answer: Callable[[JsonDict, Time], object]
) -> None:
    """Answer each event on standard input in a fork. This process has one thread."""
    # Without collections, the forks share the memory of this process.
    gc.disable()
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            killer.points = order["kill"]
            client.meta.events.register("before-send.dynamodb", killer.point)
            client.meta.events.register("after-call.dynamodb", killer.point)
            (folder / "answer").write_text(json.dumps(answer(order["event"], Time(order["time_s"]))))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()

"""One request, as the log has it: a line in a terminal, an object as JSON."""

import logging
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

SHORT_TASK: Final = 8
LONGEST: Final = 200


class Status(StrEnum):
    """How a request ended."""

    DONE = "done"
    WAITING = "waiting"
    FAILED = "failed"


LEVELS: Final = {Status.DONE: logging.INFO, Status.WAITING: logging.INFO, Status.FAILED: logging.WARNING}


@dataclass(frozen=True, slots=True)
class Entry:
    """One request and what became of it.

    Attributes:
        method: The MCP method, or `worker` for an invocation in the background.
        name: The tool, prompt or resource.
        task: The id of the task that it is about, or has made; empty for none.
        ms: How long answering it took, milliseconds.
        status: How it ended.
        words: The same in words, one line.
        request_id: The id that error messages to clients quote.
    """

    method: str
    name: str
    task: str
    ms: float
    status: Status
    words: str
    request_id: str

    def log(self, logger: logging.Logger) -> None:
        """Log it. Formatters that know nothing of entries write it as text."""
        logger.log(LEVELS[self.status], "%s", self, extra={"entry": self})

    def as_json(self) -> dict[str, Any]:
        """Its fields, without those that are empty."""
        fields = asdict(self) | {"ms": round(self.ms, 1)}
        return {name: value for name, value in fields.items() if value != ""}

    def __str__(self) -> str:
        """Its fields in a line."""
        task = f"task {self.short_task}" if self.task else ""
        return " ".join(filter(None, (self.method, self.name, task, self.time, self.words)))

    @property
    def short_task(self) -> str:
        """The end of the task's id: ids begin with the time, which tasks of one day share."""
        return f"…{self.task[-SHORT_TASK:]}" if len(self.task) > SHORT_TASK else self.task

    @property
    def time(self) -> str:
        """How long it took, for people."""
        return f"{self.ms:.0f} ms" if self.ms >= 1 else "<1 ms"


def one_line(text: str, longest: int = LONGEST) -> str:
    """A text from outside as a part of a line: without line breaks, not too long. Handlers clean it."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[:longest]} …"

"""One request, as the log has it: a line in a terminal, an object as JSON."""

import json
import logging
import sys
import sysconfig
import time
import traceback
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import IO, Any, Final, override

from rich.text import Text

from mcp_baton.local.clean_text import CleanConsole, escaped

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


PACKAGE: Final = Path(__file__).resolve().parents[1]
NOTE: Final = "({} of Baton, of packages and of Python left out{})"
DEBUG: Final = "; --log-level debug shows all"
INSTALLED: Final = ("site-packages", "dist-packages")
STANDARD: Final = tuple(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib"))


def is_own(file: str) -> bool:
    """Whether a file is the user's: none of Baton's, of a package's or of Python's."""
    if file.startswith("<"):
        return False
    path = Path(file).resolve()
    if path.is_relative_to(PACKAGE) or any(part in INSTALLED for part in path.parts):
        return False
    return not any(path.is_relative_to(standard) for standard in STANDARD)


def own_frames(error: BaseException, remedy: str = DEBUG) -> str:
    """An exception and those that led to it, each with the user's frames; of one that has none, with its last frame.

    The last line says how many were left out, if any were.

    Args:
        error: The exception.
        remedy: What that line says of how to see them.
    """
    told = traceback.TracebackException.from_exception(error)
    left_out = sum(map(_cut, _all(told)))
    text = "".join(told.format()).rstrip()
    return f"{text}\n{NOTE.format(_frames(left_out), remedy)}" if left_out else text


def _all(told: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    """An exception, its causes and the members of groups."""
    waiting = [told]
    while waiting:
        one = waiting.pop()
        yield one
        waiting += filter(None, (one.__cause__, one.__context__, *(one.exceptions or ())))


def _cut(told: traceback.TracebackException) -> int:
    """Leave frames out; how many."""
    frames = list(told.stack)
    own = [frame for frame in frames if is_own(frame.filename)] or frames[-1:]
    told.stack = traceback.StackSummary.from_list(own)
    return len(frames) - len(own)


def _frames(count: int) -> str:
    return "1 frame" if count == 1 else f"{count} frames"


class JsonFormatter(logging.Formatter):
    """Formats a record as `{"time", "level", "logger", "message"}`; of a request with its fields, of an error with its
    traceback as `error`.

    Args:
        in_full: Whether tracebacks have every frame.
    """

    def __init__(self, *, in_full: bool) -> None:
        super().__init__()
        self._in_full = in_full

    @override
    def format(self, record: logging.LogRecord) -> str:
        """A line."""
        made: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry = getattr(record, "entry", None)
        if isinstance(entry, Entry):
            made |= entry.as_json()
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            made["error"] = "".join(traceback.format_exception(error)) if self._in_full else own_frames(error)
        return escaped(json.dumps(made))


COLOURS: Final = {Status.DONE: "green", Status.WAITING: "yellow", Status.FAILED: "bold red"}
LEVEL_COLOURS: Final = {"WARNING": "yellow", "ERROR": "bold red", "CRITICAL": "bold red"}
METHOD_WIDTH: Final = 12
TASK_WIDTH: Final = 9
TIME_WIDTH: Final = 8


class TerminalHandler(logging.Handler):
    """Writes records for people.

    Args:
        stream: Where to.
        in_full: Whether to write the loggers' names, and every frame of tracebacks.
        remedy: What is said of how to see all frames, where some are left out.
    """

    def __init__(self, stream: IO[str], *, in_full: bool, remedy: str = DEBUG) -> None:
        super().__init__()
        # The terminal wraps long lines.
        self._console = CleanConsole(file=stream, soft_wrap=True)
        self._in_full = in_full
        self._remedy = remedy

    @override
    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        try:
            self._console.print(self._text(record))
        except Exception:  # noqa: BLE001 - logging's own way with a handler that fails
            self.handleError(record)

    def _text(self, record: logging.LogRecord) -> Text:
        clock = time.strftime("%H:%M:%S ", time.localtime(record.created))
        entry = getattr(record, "entry", None)
        line = _entry_line(clock, entry) if isinstance(entry, Entry) else self._line(clock, record)
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            # A file may have changed since it was imported: its lines are read when an error is shown.
            trace = (
                "".join(traceback.format_exception(error)).rstrip()
                if self._in_full
                else own_frames(error, self._remedy)
            )
            line.append(f"\n{trace}")
        return line

    def _line(self, clock: str, record: logging.LogRecord) -> Text:
        style = LEVEL_COLOURS.get(record.levelname, "")
        line = Text(clock, style="dim").append(f"{record.levelname:<8}", style=style or "dim")
        line = Text.assemble(line)
        name = f"{record.name}: " if self._in_full else ""
        return line.append(f"{name}{record.getMessage()}", style=style)


def _entry_line(clock: str, entry: Entry) -> Text:
    line = Text.assemble((clock, "dim"), f"{entry.method:<{METHOD_WIDTH}} ")
    if entry.name:
        line.append(f"{entry.name} ", style="bold")
    if entry.task:
        line.append(f"{entry.short_task} ", style="cyan")
    line.append(f"{entry.time} ", style="dim")
    return line.append(entry.words, style=COLOURS[entry.status])


@dataclass(frozen=True, slots=True)
class LogStyle:
    """How a command logs.

    Attributes:
        level: From which level on: `debug`, `info`, `warning` or `error`.
        as_json: An object a line in the place of a text.
    """

    level: str = "info"
    as_json: bool = False


PLAIN = LogStyle()


def log_to_stderr(style: LogStyle = PLAIN) -> None:
    """Log as the command does, in this process or in one that it has started."""

    in_full = style.level == "debug"
    handler: logging.Handler
    if style.as_json:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(JsonFormatter(in_full=in_full))
    else:
        handler = TerminalHandler(sys.stderr, in_full=in_full)
    logging.basicConfig(level=style.level.upper(), handlers=[handler])
    for chatty in ("botocore", "boto3", "moto", "urllib3", "watchfiles", "werkzeug"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    # Loggers of the user's own keep what they were set to; asyncio's tells nothing at its debug level that helps.
    logging.getLogger("asyncio").setLevel(logging.WARNING)

"""The log of the local server."""

import logging
import re
import sys
import sysconfig
import time
import traceback
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import IO, Final, Literal, override

from rich.text import Text

from mcp_baton.local.clean_text import CleanConsole
from mcp_baton.protocol.http import APPROVAL_LINKS_PATH, CALLBACKS_PATH

_TOKEN: Final = re.compile(rf"({CALLBACKS_PATH}|{APPROVAL_LINKS_PATH})[^\s?]+")

SHORT_TASK_CHARS: Final = 8
MAX_LINE_CHARS: Final = 200


def without_token(line: str) -> str:
    """Return a request line without the token of a callback or of an approval's link: the token is a credential."""
    return _TOKEN.sub(r"\1…", line)


class Status(StrEnum):
    DONE = "done"
    WAITING = "waiting"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Entry:
    """A request, or an invocation of a worker (`method` is `worker`), and its outcome in one line (`words`)."""

    method: str
    name: str
    task: str
    ms: float
    status: Status
    words: str

    def log(self, logger: logging.Logger) -> None:
        level = logging.WARNING if self.status is Status.FAILED else logging.INFO
        logger.log(level, "%s", self, extra={"entry": self})

    def __str__(self) -> str:
        task = f"task {self.short_task}" if self.task else ""
        return " ".join(filter(None, (self.method, self.name, task, self.time, self.words)))

    @property
    def short_task(self) -> str:
        """The end of the task's id. Ids of one day begin with the same characters."""
        return f"…{self.task[-SHORT_TASK_CHARS:]}" if len(self.task) > SHORT_TASK_CHARS else self.task

    @property
    def time(self) -> str:
        return f"{self.ms:.0f} ms" if self.ms >= 1 else "<1 ms"


def one_line(text: str, longest: int = MAX_LINE_CHARS) -> str:
    """Return a text of a client as a part of a line: without line breaks and shortened. Handlers clean it."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[:longest]} …"


PACKAGE_DIRECTORY: Final = Path(__file__).resolve().parents[1]
DEBUG: Final = "; --log-level debug shows all"
INSTALLED: Final = ("site-packages", "dist-packages")
STANDARD: Final = tuple(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib"))


@cache
def is_user_file(file: str) -> bool:
    """Whether a file is the user's, and not part of Baton, another package or Python."""
    if file.startswith("<"):
        return False
    path = Path(file).resolve()
    if path.is_relative_to(PACKAGE_DIRECTORY) or any(part in INSTALLED for part in path.parts):
        return False
    return not any(path.is_relative_to(standard) for standard in STANDARD)


def user_frames(error: BaseException, remedy: str = DEBUG) -> str:
    """Format an exception and its causes with the user's frames only, or with the last frame if there are none.

    If frames are omitted, the last line has their number and the remedy.
    """
    summary = traceback.TracebackException.from_exception(error)
    hidden_count, errors = 0, [summary]
    while errors:
        current = errors.pop()
        frames = list(current.stack)
        shown = [frame for frame in frames if is_user_file(frame.filename)] or frames[-1:]
        current.stack = traceback.StackSummary.from_list(shown)
        hidden_count += len(frames) - len(shown)
        errors += filter(None, (current.__cause__, current.__context__, *(current.exceptions or ())))
    text = "".join(summary.format()).rstrip()
    if not hidden_count:
        return text
    frames_text = "1 frame" if hidden_count == 1 else f"{hidden_count} frames"
    return f"{text}\n({frames_text} of Baton, of packages and of Python left out{remedy})"


COLOURS: Final = {Status.DONE: "green", Status.WAITING: "yellow", Status.FAILED: "bold red"}
LEVEL_COLOURS: Final = {"WARNING": "yellow", "ERROR": "bold red", "CRITICAL": "bold red"}
METHOD_WIDTH: Final = 12


class TerminalHandler(logging.Handler):
    """Writes records for people. `in_full` adds the loggers' names and every frame of tracebacks."""

    def __init__(self, stream: IO[str], *, in_full: bool, remedy: str = DEBUG) -> None:
        super().__init__()
        # The terminal wraps long lines.
        self._console = CleanConsole(file=stream, soft_wrap=True)
        self._in_full = in_full
        self._remedy = remedy

    @override
    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._console.print(self._text(record))
        except Exception:  # noqa: BLE001 - the handlers of `logging` also report their errors in this way
            self.handleError(record)

    def _text(self, record: logging.LogRecord) -> Text:
        clock = time.strftime("%H:%M:%S ", time.localtime(record.created))
        entry = getattr(record, "entry", None)
        line = _entry_line(clock, entry) if isinstance(entry, Entry) else self._line(clock, record)
        if error := record.exc_info[1] if record.exc_info else None:
            trace = "".join(traceback.format_exception(error)).rstrip()
            line.append(f"\n{trace if self._in_full else user_frames(error, self._remedy)}")
        return line

    def _line(self, clock: str, record: logging.LogRecord) -> Text:
        style = LEVEL_COLOURS.get(record.levelname, "")
        name = f"{record.name}: " if self._in_full else ""
        level = (f"{record.levelname:<8}", style or "dim")
        return Text.assemble((clock, "dim"), level, (f"{name}{record.getMessage()}", style))


def _entry_line(clock: str, entry: Entry) -> Text:
    line = Text.assemble((clock, "dim"), f"{entry.method:<{METHOD_WIDTH}} ")
    if entry.name:
        line.append(f"{entry.name} ", style="bold")
    if entry.task:
        line.append(f"{entry.short_task} ", style="cyan")
    line.append(f"{entry.time} ", style="dim")
    return line.append(entry.words, style=COLOURS[entry.status])


type LogLevel = Literal["debug", "info", "warning", "error"]


def log_to_stderr(level: LogLevel = "info") -> None:
    logging.basicConfig(level=level.upper(), handlers=[TerminalHandler(sys.stderr, in_full=level == "debug")])
    logging.getLogger("watchfiles").setLevel(logging.ERROR)  # it warns of signals
    for logger_name in ("asyncio", "boto3", "botocore", "moto", "urllib3", "werkzeug"):
        logging.getLogger(logger_name).setLevel(logging.WARNING)

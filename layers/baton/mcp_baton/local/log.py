"""The log of the local server: text for a terminal, or JSON."""

import json
import logging
import re
import sys
import sysconfig
import time
import traceback
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import IO, Any, Final, override

from rich.text import Text

from mcp_baton.local.clean_text import CleanConsole, escaped
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
    request_id: str

    def log(self, logger: logging.Logger) -> None:
        level = logging.WARNING if self.status is Status.FAILED else logging.INFO
        logger.log(level, "%s", self, extra={"entry": self})

    def as_json(self) -> dict[str, Any]:
        fields = asdict(self) | {"ms": round(self.ms, 1)}
        return {name: value for name, value in fields.items() if value != ""}

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
    hidden_count = _remove_other_frames(summary)
    text = "".join(summary.format()).rstrip()
    if not hidden_count:
        return text
    frames = "1 frame" if hidden_count == 1 else f"{hidden_count} frames"
    return f"{text}\n({frames} of Baton, of packages and of Python left out{remedy})"


def _remove_other_frames(error: traceback.TracebackException) -> int:
    """Remove the frames that are not the user's from an exception and its causes. Return their number."""
    removed_count, errors = 0, [error]
    while errors:
        current = errors.pop()
        frames = list(current.stack)
        user_frames_only = [frame for frame in frames if is_user_file(frame.filename)] or frames[-1:]
        current.stack = traceback.StackSummary.from_list(user_frames_only)
        removed_count += len(frames) - len(user_frames_only)
        errors += filter(None, (current.__cause__, current.__context__, *(current.exceptions or ())))
    return removed_count


def _trace(record: logging.LogRecord, remedy: str, *, in_full: bool) -> str:
    error = record.exc_info[1] if record.exc_info else None
    if error is None:
        return ""
    return "".join(traceback.format_exception(error)).rstrip() if in_full else user_frames(error, remedy)


class JsonFormatter(logging.Formatter):
    """Formats a record as `{"time", "level", "logger", "message"}`, plus the fields of a request, or the traceback of
    an error as `error`.
    """

    def __init__(self, *, in_full: bool) -> None:
        super().__init__()
        self._in_full = in_full

    @override
    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry = getattr(record, "entry", None)
        if isinstance(entry, Entry):
            fields |= entry.as_json()
        if trace := _trace(record, DEBUG, in_full=self._in_full):
            fields["error"] = trace
        return escaped(json.dumps(fields))


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
        if trace := _trace(record, self._remedy, in_full=self._in_full):
            line.append(f"\n{trace}")
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


@dataclass(frozen=True, slots=True)
class LogStyle:
    level: str = "info"
    as_json: bool = False


PLAIN = LogStyle()


def log_to_stderr(style: LogStyle = PLAIN) -> None:
    in_full = style.level == "debug"
    handler: logging.Handler
    if style.as_json:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(JsonFormatter(in_full=in_full))
    else:
        handler = TerminalHandler(sys.stderr, in_full=in_full)
    logging.basicConfig(level=style.level.upper(), handlers=[handler])
    logging.getLogger("watchfiles").setLevel(logging.ERROR)  # it warns of signals
    for logger_name in ("asyncio", "boto3", "botocore", "moto", "urllib3", "werkzeug"):
        logging.getLogger(logger_name).setLevel(logging.WARNING)

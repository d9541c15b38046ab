"""The log in a terminal: a line a record, in colour where there is one (rich keeps to NO_COLOR, https://no-color.org)."""

import logging
import time
import traceback
from typing import IO, Final, override

from rich.text import Text

from mcp_baton.local.clean_text import CleanConsole
from mcp_baton.local.report.entry import Entry, Status
from mcp_baton.local.report.frames import DEBUG, own_frames

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

"""What the commands print. `CleanConsole` cleans what servers say; it is never read as markup."""

import json
import shlex
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mcp_baton.cli.remote.task import StepState, TaskState
from mcp_baton.local.clean_text import CleanConsole, cleaned, escaped
from mcp_baton.tasks.record import PAUSED, paused_step
from mcp_baton.workflow.pause import parse_pause

if TYPE_CHECKING:
    from rich.status import Status

STYLES: Final = {
    "completed": "green",
    "failed": "red",
    "cancelled": "red",
    "working": "cyan",
    "input_required": "yellow",
    "paused": "yellow",
    "pending": "dim",
    "skipped": "dim",
}
SHOWN: Final = 300
"""Characters of a value in a line."""

PREFIX: Final = 16
"""Characters of a task's id in a list."""


def print_json(value: Any) -> None:
    """Print one JSON document on the standard output. Unsafe characters are escaped."""
    sys.stdout.write(escaped(json.dumps(value, indent=2, ensure_ascii=not _utf8())) + "\n")


def _utf8() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def console(*, errors: bool = False) -> Console:
    """Where people read: the standard output, or the standard error."""
    return CleanConsole(stderr=errors)


def plain(value: object) -> str:
    """A value as cleaned text."""
    return cleaned(str(value))


def short(value: Any, most: int = SHOWN) -> str:
    """A value in one line."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(plain(text).split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def status_text(status: str) -> Text:
    """A status in its colour."""
    return Text(plain(status), style=STYLES.get(status, ""))


def lasted(ms: int | None) -> str:
    """A time: `12 ms`, `1.2 s`, `2 min 5 s`, `3 h 4 min`."""
    if ms is None:
        return ""
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    if ms < 3_600_000:
        return f"{ms // 60_000} min {ms % 60_000 // 1000} s"
    return f"{ms // 3_600_000} h {ms % 3_600_000 // 60_000} min"


def sized(count: int | None) -> str:
    """A length: `120 B`, `2.0 KB`, `1.2 MB`."""
    if count is None:
        return ""
    if count < 1_000:
        return f"{count} B"
    return f"{count / 1000:.1f} KB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"


def epoch_ms(timestamp: str) -> int | None:
    """A timestamp such as `2026-11-22T15:04:33.000Z`, as epoch milliseconds; `None` for another text."""
    try:
        return round(datetime.fromisoformat(timestamp).timestamp() * 1000)
    except ValueError:
        return None


def since(timestamp: str, now_ms: int) -> str:
    """How long ago that was: `12 s`, `3 min`, `2 h`, `5 d`."""
    at = epoch_ms(timestamp)
    seconds = 0 if at is None else max(0, now_ms - at) // 1000
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def clock(at_ms: int | None) -> str:
    """The time of day, UTC."""
    return "" if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%H:%M:%S")


def heading(task: TaskState) -> Iterator[Text]:
    """Two lines: of what it is, and how it stands."""
    yield Text().append(plain(task.workflow or "a tool's task"), style="bold").append(f"  {task.task_id}", style="dim")
    line = status_text(task.status)
    if task.pause and not task.over:
        step = paused_step(task.pause) or task.step
        at = f" at {plain(step)}" if step else ""
        line = status_text(task.status).append(f", paused{at}: waits for the model", style=STYLES["paused"])
    if task.message and task.message != PAUSED:
        line.append(f": {short(task.message)}")
    yield line


def steps_table(steps: tuple[StepState, ...]) -> Padding:
    """The steps: status, when they began (UTC), how long they took, and how long their results are."""
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="dim")
    for name, justify in (
        ("step", "left"),
        ("status", "left"),
        ("began", "left"),
        ("took", "right"),
        ("result", "right"),
    ):
        table.add_column(name, justify="right" if justify == "right" else "left", no_wrap=name != "step")
    for step in steps:
        cells = (clock(step.at_ms), lasted(step.ms), sized(step.bytes))
        table.add_row(Text(plain(step.name)), status_text(step.status), *cells)
    return Padding(table, (0, 0, 0, 2), expand=False)


def why(pause: Mapping[str, Any]) -> str:
    """A pause reason in words (docs/workflows.md, Pausing)."""
    step = paused_step(pause)
    line = f"{pause.get('type', 'paused')} at {step}" if step else str(pause.get("type", "paused"))
    reason = parse_pause(pause)
    line += f": {reason.short_form()}" if reason else ""
    return line if "retryable" not in pause else f"{line} ({'' if pause['retryable'] else 'not '}retryable)"


def call_line(entry: Mapping[str, Any]) -> str:
    """One entry of `next` in a line: the tool and its arguments as words for a shell, or the resource to read."""
    if "resource" in entry:
        return f"read {entry['resource']}"
    words = [_word(str(name), value) for name, value in entry.get("arguments", {}).items()]
    return " ".join([shlex.quote(str(entry.get("tool"))), *words])


def _word(name: str, value: Any) -> str:
    """An argument as a shell's word, in the form that `baton call` reads it from (docs/commands.md)."""
    if isinstance(value, str) and value.isprintable() and not value.startswith("@"):
        return f"{shlex.quote(name)}={shlex.quote(value)}"
    text = json.dumps(value, ensure_ascii=False)
    # As ASCII, what cannot be printed is escaped: line breaks, and whatever changes a terminal.
    return f"{shlex.quote(name)}:={shlex.quote(text if text.isprintable() else json.dumps(value))}"


class Progress:
    """Shows `notifications/progress` while an answer is waited for.

    Args:
        shown: Whether to show anything.
    """

    def __init__(self, *, shown: bool) -> None:
        self._shown = shown
        self._console = console(errors=True)
        self._status: Status | None = None
        self._last = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def told(self, params: Mapping[str, Any]) -> None:
        """Take the params of a notification."""
        message = params.get("message")
        if message is None:
            total = params.get("total")
            message = f"{params.get('progress')}" + ("" if total is None else f"/{total}")
        self.say(short(str(message)))

    def say(self, message: str) -> None:
        """Show what is under way now."""
        if not self._shown or message == self._last:
            return
        self._last = message
        text = Text(plain(message), style="dim")
        if not sys.stderr.isatty():
            self._console.print(text)
        elif self._status is None:
            self._status = self._console.status(text)
            self._status.start()
        else:
            self._status.update(text)

    def stop(self) -> None:
        """Clear the line."""
        if self._status is not None:
            self._status.stop()
            self._status = None

"""The output of the commands. `CleanConsole` cleans the text of servers; text is never read as markup."""

import json
import shlex
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mcp_baton.cli.remote.task import RunResult, StepState, TaskState, text_of
from mcp_baton.local.clean_text import CleanConsole, cleaned
from mcp_baton.tasks.record import PAUSED, WAITED, paused_step
from mcp_baton.workflow.pause import Waiting, parse_pause

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
"""The maximum number of characters of a value in a line."""

PREFIX: Final = 16
"""The number of characters of a task's id in a list."""

LONGEST: Final = 4_000
"""The maximum number of characters of a result."""


def console(*, errors: bool = False) -> Console:
    return CleanConsole(stderr=errors)


def plain(value: object) -> str:
    return cleaned(str(value))


def short(value: Any, most: int = SHOWN) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(plain(text).split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def status_text(status: str) -> Text:
    return Text(plain(status), style=STYLES.get(status, ""))


def duration(ms: int | None) -> str:
    """Return a duration: `12 ms`, `1.2 s`, `2 min 5 s`, `3 h 4 min`."""
    if ms is None:
        return ""
    if ms < 60_000:
        return f"{ms} ms" if ms < 1_000 else f"{ms / 1000:.1f} s"
    if ms < 3_600_000:
        return f"{ms // 60_000} min {ms % 60_000 // 1000} s"
    return f"{ms // 3_600_000} h {ms % 3_600_000 // 60_000} min"


def size(count: int | None) -> str:
    """Return a length: `120 B`, `2.0 KB`, `1.2 MB`."""
    if count is None:
        return ""
    if count < 1_000:
        return f"{count} B"
    return f"{count / 1000:.1f} KB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"


def epoch_ms(timestamp: str) -> int | None:
    """Return a timestamp such as `2026-11-22T15:04:33.000Z` as epoch milliseconds; `None` for another text."""
    try:
        return round(datetime.fromisoformat(timestamp).timestamp() * 1000)
    except ValueError:
        return None


def age(timestamp: str, now_ms: int) -> str:
    """Return the time since a timestamp: `12 s`, `3 min`, `2 h`, `5 d`."""
    at = epoch_ms(timestamp)
    seconds = 0 if at is None else max(0, now_ms - at) // 1000
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def clock(at_ms: int | None) -> str:
    """Return the time of day, UTC."""
    return "" if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%H:%M:%S")


PAUSED_BEGINS = "paused: "
"""How the status messages of paused tasks begin."""


def paused_text(message: str | None) -> str:
    """Return what a paused task waits for, from its status message: `paused: waits for the model`."""
    return short(message) if message and message.startswith(PAUSED_BEGINS) else PAUSED


def steps_table(steps: tuple[StepState, ...]) -> Padding:
    """Return the steps with their status, start (UTC), duration, and length of the result or progress of the list."""
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="dim")
    for name in ("step", "status", "began", "took", "result"):
        table.add_column(name, justify="right" if name in ("took", "result") else "left", no_wrap=name != "step")
    for step in steps:
        result = size(step.bytes)
        if step.elements:
            done, total = step.elements["done"], step.elements["total"]
            result = f"{done} of {total} {'element' if total == 1 else 'elements'}"
        cells = (clock(step.at_ms), duration(step.ms), result)
        table.add_row(Text(plain(step.name)), status_text(step.status), *cells)
    return Padding(table, (0, 0, 0, 2), expand=False)


def why(pause: Mapping[str, Any]) -> str:
    """Return a pause reason in words (docs/workflows.md, Pausing), or its type if this version does not know it."""
    kind, reason = str(pause.get("type", "paused")), parse_pause(pause)
    return f"{kind}: {reason.what_happened()}" if reason else kind


def still_waits(task: TaskState) -> bool:
    """Return whether a task waits for a callback or a time. A resume would pause at the same step again."""
    return isinstance(parse_pause(task.pause), Waiting) and task.message != WAITED


def call_line(entry: Mapping[str, Any], task_id: str | None = None) -> str:
    """Return an entry of `next` in a line: the words after `baton call WHERE`, or the resource to read.

    The words are quoted for a shell. A call whose arguments do not name the task `task_id` gets the option that does.
    """
    if "resource" in entry:
        return f"read {entry['resource']}"
    arguments = entry.get("arguments", {})
    words = [_word(str(name), value) for name, value in arguments.items()]
    option = [] if task_id is None or "task_id" in arguments else ["--task", shlex.quote(task_id)]
    return " ".join([shlex.quote(str(entry.get("tool"))), *words, *option])


def _word(name: str, value: Any) -> str:
    """Return an argument as a word of a shell, in the form that `baton call` reads (docs/commands.md)."""
    if isinstance(value, str) and value.isprintable() and not value.startswith("@"):
        return f"{shlex.quote(name)}={shlex.quote(value)}"
    text = json.dumps(value, ensure_ascii=False)
    # ASCII escapes line breaks and characters that control a terminal.
    return f"{shlex.quote(name)}:={shlex.quote(text if text.isprintable() else json.dumps(value))}"


class Progress:
    """Shows `notifications/progress` while the command waits for an answer."""

    def __init__(self, *, shown: bool) -> None:
        self._shown = shown
        self._console = console(errors=True)
        self._status: Status | None = None
        self._last = ""

    def notify(self, params: Mapping[str, Any]) -> None:
        message = params.get("message")
        if message is None:
            total = params.get("total")
            message = f"{params.get('progress')}" + ("" if total is None else f"/{total}")
        self.say(short(str(message)))

    def say(self, message: str) -> None:
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
        if self._status is not None:
            self._status.stop()
            self._status = None


def print_run(ran: RunResult, to: Console) -> None:
    """Print a run: its steps, and the result or the next calls. A task without suggested calls has only a handoff."""
    if ran.task is None:
        for message in ran.messages:
            to.print(Text(f"{plain(message.get('role', ''))}:", style="bold"))
            _print_indented(to, Text(plain(text_of(message))))
        return
    _print_lines(ran.task, to)
    if ran.persisted is not True:
        whether = "was not stored" if ran.persisted is False else "may not have been stored"
        look = f"`baton show WHERE {plain(ran.task.task_id)}`"
        to.print(Text(f"The result of this run {whether}. Use {look} before you repeat it.", style="yellow"))
    if ran.note:
        to.print(Text(plain(ran.note), style="yellow"))
    if ran.paused and ran.task.following:
        _print_pause(ran.task, to)
    elif ran.handoff:
        to.print()
        to.print(Text(plain(ran.handoff)))
    elif ran.task.status == "completed":
        _print_results(ran.task, to)


def print_task(task: TaskState, to: Console, now_ms: int) -> None:
    """Print a task: its steps, the pause reason, the next calls, its result."""
    _print_lines(task, to)
    if not task.ended:
        _print_pause(task, to)
    if task.error:
        to.print(Text("Failed  ", style="bold red").append(short(task.error.get("message", "")), style="not bold red"))
    if task.ended:
        _print_results(task, to)
    if task.others:
        others = ", ".join(f"{plain(name)} ({size(length)})" for name, length in task.others.items())
        to.print(Text("Variables  ", style="bold").append(others, style="not bold"))
    to.print(Text(_times(task, now_ms), style="dim"))


def _print_pause(task: TaskState, to: Console) -> None:
    if task.pause and task.message != WAITED:
        to.print(Text("Paused  ", style="bold").append(plain(why(task.pause)), style="not bold"))
    for key, question in task.questions.items():
        to.print(Text("Asks  ", style="bold").append(f"{plain(key)}: {_asked(question)}", style="not bold"))
    if task.following:
        to.print(Text("After the wait" if still_waits(task) else "Next", style="bold"))
        for number, entry in enumerate(task.following, 1):
            # In one line: a command that is broken into two lines cannot be copied.
            to.print(Text(f"  {number}. {plain(call_line(entry, task.task_id))}"), soft_wrap=True)
            if entry.get("guidance"):
                _print_indented(to, Text(plain(entry["guidance"]), style="dim"), 5)


def _print_lines(task: TaskState, to: Console) -> None:
    name = Text().append(plain(task.workflow or "a tool's task"), style="bold")
    to.print(name.append(f"  {task.task_id}", style="dim"))
    line = status_text(task.status)
    if task.pause and not task.ended:
        step = paused_step(task.pause) or task.step
        at = f" at {plain(step)}" if step else ""
        line.append(f", paused{at}: {paused_text(task.message).removeprefix(PAUSED_BEGINS)}", style=STYLES["paused"])
    if task.message and not task.message.startswith(PAUSED_BEGINS):
        line.append(f": {short(task.message)}")
    to.print(line)
    if task.steps:
        to.print(steps_table(task.steps))


def _print_results(task: TaskState, to: Console) -> None:
    results = [(step.name, task.results[step.name]) for step in task.steps if step.name in task.results and step.tool]
    for name, value in results[-1:]:
        to.print(Text(f"Result of {plain(name)}", style="bold"))
        _print_indented(to, Text(_pretty(value)))
    if task.result is not None and (task.result_by or not (results and _is_summary(task.result))):
        to.print(Text("Result, supplied by a client" if task.result_by else "Result", style="bold"))
        _print_indented(to, Text(_pretty(task.result)))


def _is_summary(result: Any) -> bool:
    """Whether it is the engine's own result, which says only that all steps are completed."""
    return isinstance(result, dict) and result.keys() == {"completed", "steps_completed"}


def _pretty(value: Any) -> str:
    text = plain(value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False))
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text)} characters; --json has all)"


def _asked(question: Any) -> str:
    params = question.get("params", {}) if isinstance(question, dict) else {}
    return short(params.get("message", question))


def _print_indented(to: Console, text: Text, by: int = 2) -> None:
    for line in text.wrap(to, max(20, to.width - by)):
        to.print(Text(" " * by).append_text(line))


def _times(task: TaskState, now_ms: int) -> str:
    created, updated = epoch_ms(task.created), epoch_ms(task.updated)
    parts = [f"created {task.created[:10]} {clock(created)} UTC"] if created is not None else []
    if updated is not None:
        parts.append(f"changed {duration(max(0, now_ms - updated))} ago")
    if created is not None and task.ttl_ms is not None:
        left = created + task.ttl_ms - now_ms
        parts.append(f"expires in {duration(left)}" if left > 0 else "expired")
    return ", ".join(parts)


def content_lines(content: Iterable[Any]) -> list[str]:
    lines: list[str] = []
    for block in content:
        match block:
            case {"type": "text", "text": str(text)}:
                lines.append(plain(text))
            case {"type": "resource_link", "uri": uri}:
                lines.append(f"[resource {plain(uri)}]")
            case {"type": "resource", "resource": {"text": str(text)}}:
                lines.append(plain(text))
            case {"type": kind, **rest}:
                lines.append(f"[{plain(kind)} {plain(rest.get('mimeType', ''))}]")
            case _:
                lines.append(short(block))
    return lines

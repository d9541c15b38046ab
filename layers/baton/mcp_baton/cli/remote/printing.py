"""What the commands print, by rich. `CleanConsole` cleans the texts of servers, and reads none of them as markup."""

import json
import shlex
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from rich.console import Console, Group, RenderableType
from rich.filesize import decimal
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mcp_baton.cli.remote.errors import EXIT_DONE, EXIT_FAILED, EXIT_PAUSED
from mcp_baton.local.clean_text import CleanConsole
from mcp_baton.present.pause_sentences import PAUSED_FOR_MODEL, what_happened
from mcp_baton.present.prompt_messages import REQUESTS
from mcp_baton.present.view import TaskView
from mcp_baton.tasks.record import epoch_ms
from mcp_baton.testing.results import Run
from mcp_baton.workflow.pause import Remedy, Waiting
from mcp_baton.workflow.stored_pauses import parse_pause

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
MAX_VALUE_CHARS: Final = 300
"""The most characters of a value in a line."""
MAX_RESULT_CHARS: Final = 4_000
TASK_ID_PREFIX_CHARS: Final = 16
"""The characters of a task's id in a list."""
MIN_TABLE_WIDTH: Final = 60
"""The width below which a terminal shows no tables, characters."""

PAUSED_BEGINS: Final = "paused: "
"""How the status messages of paused tasks begin."""
UNITS_MS: Final = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000))


def console(*, errors: bool = False) -> Console:
    return CleanConsole(stderr=errors)


def records(columns: Sequence[str], rows: Sequence[Sequence[RenderableType]], right: Collection[str] = ()) -> Group:
    """Return rows as a table, or in a narrow terminal below each other. Nothing is cut off."""
    # A first column that takes more than half of the width leaves the others too little for a word.
    if console().width < max([MIN_TABLE_WIDTH, *(2 * len(str(row[0])) for row in rows)]):
        pairs = [[(name, cell) for name, cell in zip(columns, row, strict=True) if cell] for row in rows]
        return Group(*(part for row in pairs for part in (details(row), "")))
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in columns:
        # The first column identifies the row, so that it is folded last.
        no_wrap = name == columns[0] or name in right
        table.add_column(name, justify="right" if name in right else "left", overflow="fold", no_wrap=no_wrap)
    for row in rows:
        table.add_row(*row)
    return Group(table)


def details(rows: Iterable[tuple[str, RenderableType]]) -> Table:
    """Return texts with a label before each. Nothing is cut off."""
    grid = Table.grid("", "", padding=(0, 2, 0, 0))
    grid.columns[0].style, grid.columns[0].no_wrap, grid.columns[1].overflow = "bold", True, "fold"
    for label, text in rows:
        grid.add_row(label, text)
    return grid


def short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(text.split())
    return text if len(text) <= MAX_VALUE_CHARS else f"{text[: MAX_VALUE_CHARS - 1]}…"


def status_text(status: str) -> Text:
    return Text(status, style=STYLES.get(status, ""))


def duration(ms: int | None) -> str:
    """Return a duration: `12 ms`, `1.2 s`, `2 min 5 s`, `3 h 4 min`, `2 d 5 h`."""
    if ms is None:
        return ""
    for (unit, unit_ms), (smaller, smaller_ms) in pairwise(UNITS_MS):
        if ms >= unit_ms:
            return f"{ms // unit_ms} {unit} {ms % unit_ms // smaller_ms} {smaller}"
    return f"{ms} ms" if ms < 1_000 else f"{ms / 1_000:.3g} s"


def _time_ms(timestamp: str) -> int | None:
    """Return a timestamp of a server as epoch milliseconds; `None` for another text."""
    try:
        return epoch_ms(timestamp)
    except ValueError:
        return None


def age(timestamp: str, now_ms: int) -> str:
    """Return the time since a timestamp in its largest unit: `12 s`, `3 min`, `2 h`, `5 d`."""
    time_ms = _time_ms(timestamp)
    text = "" if time_ms is None else duration(max(1_000, now_ms - time_ms) // 1_000 * 1_000)
    return " ".join(text.split()[:2])


def clock(at_ms: int | None) -> str:
    """Return the time of day, UTC."""
    return "" if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%H:%M:%S")


def paused_text(message: str | None) -> str:
    """Return what a paused task waits for, from its status message: `paused: waits for the model`."""
    return short(message) if message and message.startswith(PAUSED_BEGINS) else PAUSED_FOR_MODEL


def pause_texts(task: TaskView) -> Iterator[str]:
    """Yield each pause reason in words (docs/workflows.md, Pausing), or its type if this version does not know it."""
    for pause in task.pauses:
        kind, reason = str(pause.get("type", "paused")), parse_pause(pause)
        yield ": ".join([kind, *what_happened([reason])]) if reason else kind


_AWAITED: Final = {Remedy.WAIT: "the wait", Remedy.DECISION: "the decision"}


def waits_for(task: TaskView) -> str | None:
    """Return what must end before a resume continues the task: `the wait`, `the decision`, or one of both. Before, it
    would pause at the same steps again. `None` if a step waits for nothing."""
    if any(isinstance(reason, Waiting) and reason.over for reason in task.reasons):
        return None
    remedies = {reason.remedy for reason in task.reasons}
    names = [name for remedy, name in _AWAITED.items() if remedy in remedies]
    return " or ".join(names) if names and len(names) == len(remedies) else None


def call_line(entry: Mapping[str, Any], task_id: str | None = None) -> str:
    """Return an entry of `next` in a line: the words after `baton call WHERE`, quoted for a shell, or the resource to
    read. `task_id` is the task, for an entry that does not name its step."""
    arguments = entry.get("arguments", {})
    names = [str(entry.get("tool")), str(entry.get("resource")), *map(str, arguments)]
    if not all(name.isprintable() and not name.startswith("-") for name in names):
        # Of a hostile server: a name could be an option that sends a secret, or look like another line.
        return f"not a call: {json.dumps(entry)}"
    if "resource" in entry:
        return f"read {entry['resource']}"
    words = [_word(str(name), value) for name, value in arguments.items()]
    named = entry.get("task_id", task_id)
    option = [] if named is None or "task_id" in arguments else ["--task", shlex.quote(str(named))]
    return " ".join([shlex.quote(str(entry.get("tool"))), *words, *option])


def _word(name: str, value: Any) -> str:
    """Return an argument as a word of a shell, in the form that `baton call` reads (docs/commands.md)."""
    if isinstance(value, str) and value.isprintable() and not value.startswith("@"):
        return f"{shlex.quote(name)}={shlex.quote(value)}"
    text = json.dumps(value, ensure_ascii=False)
    # ASCII escapes line breaks and characters that control a terminal.
    return f"{shlex.quote(name)}:={shlex.quote(text if text.isprintable() else json.dumps(value))}"


class ProgressDisplay:
    """Shows `notifications/progress` while the command waits for an answer."""

    def __init__(self, *, shown: bool) -> None:
        self._shown = shown
        self._console = console(errors=True)
        self._status: Status | None = None
        self._last = ""

    def notify(self, params: Mapping[str, Any]) -> None:
        total = "" if params.get("total") is None else f"/{params['total']}"
        message = params.get("message")
        self.say(short(f"{params.get('progress')}{total}" if message is None else str(message)))

    def say(self, message: str) -> None:
        if not self._shown or message == self._last:
            return
        self._last = message
        if not sys.stderr.isatty():
            self._console.print(message, style="dim")
        elif self._status is None:
            self._status = self._console.status(Text(message, style="dim"))
            self._status.start()
        else:
            self._status.update(Text(message, style="dim"))

    def stop(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None


class RunResult(Struct, frozen=True):
    """The result of `prompts/get`, and the task after the run; `None` if the prompt has none."""

    name: str
    run: Run
    task: TaskView | None

    @property
    def paused(self) -> bool:
        """Whether the client has to continue."""
        return self.task is not None and not self.task.ended

    @property
    def code(self) -> int:
        if self.task is None or self.task.status == "completed":
            return EXIT_DONE
        return EXIT_PAUSED if self.paused else EXIT_FAILED

    @property
    def persisted(self) -> Any:
        """Whether the changes of the run were stored, or `"unknown"`."""
        return self.run.meta.get("persisted", True)

    @property
    def last_text(self) -> str:
        """The server's last message: the handoff of a paused run, or a note, for example about steps that may have run
        twice."""
        messages = [message for message in self.run.messages if message.text not in REQUESTS]
        return messages[-1].text if messages and messages[-1].role == "assistant" else ""

    def to_json(self) -> dict[str, Any]:
        if self.task is None:
            messages = [{"role": message.role, "content": message.content} for message in self.run.messages]
            return {"prompt": self.name, "messages": messages}
        handoff = {"handoff": self.last_text or None if self.paused else None}
        note = {"note": self.last_text} if self.last_text and not self.paused else {}
        persistence = {} if self.persisted is True else {"persisted": self.persisted}
        return {**self.task.to_json(), "workflow": self.name, **handoff, **note, **persistence}


def print_run(result: RunResult, out: Console) -> None:
    """Print a run: its task, and what the server says about the run. A task without suggested calls has a handoff."""
    if result.task is None:
        for message in result.run.messages:
            out.print(f"{message.role}:", style="bold")
            _print_indented(message.text, out)
        return
    print_task(result.task, out)
    if result.persisted is not True:
        state = "was not stored" if result.persisted is False else "may not have been stored"
        command = f"`baton show WHERE {result.task.task_id}`"
        out.print(f"The result of this run {state}. Use {command} before you repeat it.", style="yellow")
    if result.last_text and not (result.paused and result.task.following):
        out.print(result.last_text, style="" if result.paused else "yellow")


def print_task(task: TaskView, out: Console) -> None:
    """Print a task: its steps with their start (UTC), duration and length, why it is paused, next calls, its result."""
    name = task.workflow or task.tool or "a tool's task"
    out.print(Text().append(name, style="bold").append(f"  {task.task_id}", style="dim"))
    line = status_text(task.status)
    if task.pause and not task.ended:
        place = f" at {task.step}" if task.step else ""
        line.append(f", paused{place}: {paused_text(task.message).removeprefix(PAUSED_BEGINS)}", style=STYLES["paused"])
    elif task.message:
        line.append(f": {short(task.message)}")
    out.print(line)
    if task.running_until:
        out.print(f"A run holds this task until {short(task.running_until)} or longer.")
    rows = []
    for step in task.steps:
        size = "" if step.bytes is None else decimal(step.bytes)
        if step.elements:
            ended, total = step.elements["done"], step.elements["total"]
            size = f"{ended} of {total} {'element' if total == 1 else 'elements'}"
        rows.append((step.name, status_text(step.status), clock(step.at_ms), duration(step.ms), size))
    if rows:
        columns = ("step", "status", "began", "took", "result")
        _print_indented(records(columns, rows, right=("took", "result")), out)
    if task.error:
        out.print(details([("Failed", short(task.error.get("message", "")))]))
    if task.ended:
        _print_results(task, out)
    else:
        _print_pause(task, out)
    if task.others:
        others = ", ".join(f"{name} ({decimal(length)})" for name, length in task.others.items())
        out.print(details([("Variables", others)]))
    out.print(_times(task), style="dim")


def _print_pause(task: TaskView, out: Console) -> None:
    rows = [("Paused", text) for text in pause_texts(task)]
    for key, question in task.questions.items():
        params = question.get("params", {}) if isinstance(question, dict) else {}
        rows.append(("Asks", f"{key}: {short(params.get('message', question))}"))
    if rows:
        out.print(details(rows))
    if task.following:
        awaited = waits_for(task)
        out.print(f"After {awaited}" if awaited else "Next", style="bold")
        for number, entry in enumerate(task.following, 1):
            # In one line: a command that is broken into two lines cannot be copied.
            out.print(f"  {number}. {call_line(entry, task.task_id)}", soft_wrap=True)
            if entry.get("guidance"):
                _print_indented(Text(entry["guidance"], style="dim"), out, 5)


def _print_results(task: TaskView, out: Console) -> None:
    results = [(step.name, task.results[step.name]) for step in task.steps if step.name in task.results and step.tool]
    for name, value in results[-1:]:
        out.print(f"Result of {name}", style="bold")
        _print_indented(_pretty(value), out)
    # The engine's own result says only that all steps are completed.
    is_summary = isinstance(task.result, dict) and task.result.keys() == {"completed", "steps_completed"}
    if task.result is not None and (task.result_by or not (results and is_summary)):
        out.print("Result, supplied by a client" if task.result_by else "Result", style="bold")
        _print_indented(_pretty(task.result), out)


def _pretty(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    if len(text) <= MAX_RESULT_CHARS:
        return text
    return f"{text[:MAX_RESULT_CHARS]}… ({len(text)} characters; --json has all)"


def _print_indented(text: RenderableType, out: Console, indent: int = 2) -> None:
    out.print(Padding(text, (0, 0, 0, indent), expand=False))


def _times(task: TaskView) -> str:
    now_ms = time.time_ns() // 1_000_000
    created_ms, updated_ms = _time_ms(task.created), _time_ms(task.updated)
    parts = [f"created {task.created[:10]} {clock(created_ms)} UTC"] if created_ms is not None else []
    if updated_ms is not None:
        parts.append(f"changed {duration(max(0, now_ms - updated_ms))} ago")
    if created_ms is not None and task.ttl_ms is not None:
        remaining_ms = created_ms + task.ttl_ms - now_ms
        parts.append(f"expires in {duration(remaining_ms)}" if remaining_ms > 0 else "expired")
    return ", ".join(parts)


def content_lines(content: Iterable[Any]) -> list[str]:
    lines: list[str] = []
    for block in content:
        match block:
            case {"type": "text", "text": str(text)} | {"type": "resource", "resource": {"text": str(text)}}:
                lines.append(text)
            case {"type": "resource_link", "uri": uri}:
                lines.append(f"[resource {uri}]")
            case {"type": kind, **rest}:
                lines.append(f"[{kind} {rest.get('mimeType', '')}]")
            case _:
                lines.append(short(block))
    return lines

"""What `run`, `resume` and `show` print of a task."""

import json
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.text import Text

from mcp_baton.cli.remote.printing import (
    call_line,
    clock,
    epoch_ms,
    heading,
    lasted,
    plain,
    short,
    sized,
    steps_table,
    why,
)
from mcp_baton.cli.remote.task import TaskState
from mcp_baton.cli.remote.tools import Ran, text_of

LONGEST = 4_000
"""Characters of a result that are printed."""


def print_ran(ran: Ran, to: Console) -> None:
    """A run: the trace, and at a pause the handoff."""
    if ran.task is None:
        for message in ran.messages:
            to.print(Text(f"{plain(message.get('role', ''))}:", style="bold"))
            _print_indented(to, Text(plain(text_of(message))))
        return
    _print_lines(ran.task, to)
    if ran.persisted is not True:
        said = "was not stored" if ran.persisted is False else "may not have been stored"
        look = f"`baton show WHERE {plain(ran.task.task_id)}`"
        to.print(Text(f"What this run did {said}: look with {look} before anything is repeated.", style="yellow"))
    if ran.note:
        to.print(Text(plain(ran.note), style="yellow"))
    if ran.handoff:
        to.print()
        to.print(Text(plain(ran.handoff)))
    elif ran.task.status == "completed":
        _print_results(ran.task, to)


def print_task(task: TaskState, to: Console, now_ms: int) -> None:
    """A task, whole: the timeline of its steps, why it is paused, what comes next, its result."""
    _print_lines(task, to)
    if task.pause and not task.over:
        to.print(Text("Paused  ", style="bold").append(plain(why(task.pause)), style="not bold"))
    for key, question in task.questions.items():
        to.print(Text("Asks  ", style="bold").append(f"{plain(key)}: {_asked(question)}", style="not bold"))
    if task.following and not task.over:
        to.print(Text("Next", style="bold"))
        for number, entry in enumerate(task.following, 1):
            # In one line, however long: a command that is cut in two cannot be copied.
            to.print(Text(f"  {number}. {plain(call_line(entry))}"), soft_wrap=True)
            if entry.get("guidance"):
                _print_indented(to, Text(plain(entry["guidance"]), style="dim"), 5)
    if task.error:
        to.print(Text("Failed  ", style="bold red").append(short(task.error.get("message", "")), style="not bold red"))
    if task.over:
        _print_results(task, to)
    if task.others:
        said = ", ".join(f"{plain(name)} ({sized(size)})" for name, size in task.others.items())
        to.print(Text("Variables  ", style="bold").append(said, style="not bold"))
    to.print(Text(_times(task, now_ms), style="dim"))


def _print_lines(task: TaskState, to: Console) -> None:
    for line in heading(task):
        to.print(line)
    if task.steps:
        to.print(steps_table(task.steps))


def _print_results(task: TaskState, to: Console) -> None:
    results = [(step.name, task.results[step.name]) for step in task.steps if step.name in task.results and step.tool]
    for name, value in results[-1:]:
        to.print(Text(f"Result of {plain(name)}", style="bold"))
        _print_indented(to, Text(_pretty(value)))
    if task.result is not None and (task.result_by or not (results and _is_engines(task.result))):
        to.print(Text("Result, which a client supplied" if task.result_by else "Result", style="bold"))
        _print_indented(to, Text(_pretty(task.result)))


def _is_engines(result: Any) -> bool:
    """Whether it says only that all steps are done, as the engine's own does."""
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
        parts.append(f"changed {lasted(max(0, now_ms - updated))} ago")
    if created is not None and task.ttl_ms is not None:
        left = created + task.ttl_ms - now_ms
        parts.append(f"expires in {lasted(left)}" if left > 0 else "expired")
    return ", ".join(parts)


def content_lines(content: Iterable[Any]) -> list[str]:
    """A tool result's content as texts."""
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

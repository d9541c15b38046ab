"""What the demo prints: colours on a terminal, the same text without them anywhere else."""

import json
import sys
import time
from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

LONGEST = 420
VARIABLE_LONGEST = 120
"""Characters of a text, and of a task variable, that are shown."""

MARKS = {"completed": ("✓", "green"), "failed": ("✗", "red"), "pending": ("·", "dim"), "skipped": ("-", "dim")}


class Screen:
    """A console of at most 100 columns."""

    def __init__(self) -> None:
        console = Console()
        width = min(console.width, 100) if sys.stdout.isatty() else 100
        self._console = Console(width=width, highlight=False)

    def title(self, text: str) -> None:
        """Begin a chapter."""
        self._console.print()
        self._console.print(Rule(Text(f" {text} ", style="bold"), align="left", style="dim"))

    def say(self, text: str, style: str = "") -> None:
        """A line of the narrator's."""
        self._console.print(Text(text, style=style))

    def request(self, method: str, params: Any) -> None:
        """What the client is about to send."""
        self._pair(Text(method, style="bold cyan"), Text(shortened(params)))

    def listing(self, entries: Iterable[tuple[str, str]]) -> None:
        """Names, and a line on each."""
        self._rows((Text(name, style="cyan"), Text(about, style="dim")) for name, about in entries)

    def message(self, role: str, text: str) -> None:
        """One message of a conversation."""
        self._pair(Text(f"{role:>9}", style="magenta" if role == "user" else "blue"), Text(shortened(text)))

    def handoff(self, text: str) -> None:
        """The handoff, whole."""
        self._console.print(Panel(Text(text), title="handoff", title_align="left", border_style="yellow"))

    def variables(self, variables: Mapping[str, Any]) -> None:
        """Task variables, each cut to a line or two."""
        rows = [(f"  {name}", shortened(value, VARIABLE_LONGEST)) for name, value in sorted(variables.items())]
        self.listing(rows)

    def steps(self, steps: Iterable[Mapping[str, str]]) -> None:
        """Every step with its status."""
        line = Text("steps: ")
        for step in steps:
            mark, colour = MARKS[step["status"]]
            line.append(f" {mark} {step['name']} ", style=colour)
        self._console.print(line)

    def stopwatch(self) -> "Stopwatch":
        """Begin to measure."""
        return Stopwatch(self._console)

    def _pair(self, left: Text, right: Text) -> None:
        self._rows([(left, right)])

    def _rows(self, rows: Iterable[tuple[Text, Text]]) -> None:
        grid = Table.grid(padding=(0, 2))
        for row in rows:
            grid.add_row(*row)
        self._console.print(grid)


class Stopwatch:
    """Prints notifications with the time at which they came."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = time.monotonic()
        self.count = 0

    def progress(self, params: Mapping[str, Any]) -> None:
        """Print a progress notification's message, and count it."""
        self.count += 1
        elapsed = time.monotonic() - self._began
        self._console.print(Text(f"  {elapsed:5.2f} s  ", style="dim") + Text(params["message"], style="green"))


def shortened(value: Any, longest: int = LONGEST) -> str:
    """A text, or a value as JSON, cut where it becomes long."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text)} characters)"

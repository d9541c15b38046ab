"""The output of the demo, with colours on a terminal."""

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
"""The maximum lengths of a text and of a task variable."""

MARKS = {"completed": ("✓", "green"), "failed": ("✗", "red"), "pending": ("·", "dim"), "skipped": ("-", "dim")}


class Screen:
    """A console of at most 100 columns."""

    def __init__(self) -> None:
        console = Console()
        width = min(console.width, 100) if sys.stdout.isatty() else 100
        self._console = Console(width=width, highlight=False)

    def title(self, text: str) -> None:
        """Print a heading."""
        self._console.print()
        self._console.print(Rule(Text(f" {text} ", style="bold"), align="left", style="dim"))

    def say(self, text: str, style: str = "") -> None:
        """Print a line."""
        self._console.print(Text(text, style=style))

    def request(self, method: str, params: Any) -> None:
        """Print a request of the client."""
        self._pair(Text(method, style="bold cyan"), Text(shortened(params)))

    def listing(self, entries: Iterable[tuple[str, str]]) -> None:
        """Print names with their descriptions."""
        self._rows((Text(name, style="cyan"), Text(about, style="dim")) for name, about in entries)

    def message(self, role: str, text: str) -> None:
        """Print a message of a conversation."""
        self._pair(Text(f"{role:>9}", style="magenta" if role == "user" else "blue"), Text(shortened(text)))

    def handoff(self, text: str) -> None:
        """Print the whole handoff."""
        self._console.print(Panel(Text(text), title="handoff", title_align="left", border_style="yellow"))

    def variables(self, variables: Mapping[str, Any]) -> None:
        """Print shortened task variables."""
        rows = [(f"  {name}", shortened(value, VARIABLE_LONGEST)) for name, value in sorted(variables.items())]
        self.listing(rows)

    def steps(self, steps: Iterable[Mapping[str, str]]) -> None:
        """Print the steps with their status."""
        line = Text("steps: ")
        for step in steps:
            mark, colour = MARKS[step["status"]]
            line.append(f" {mark} {step['name']} ", style=colour)
        self._console.print(line)

    def stopwatch(self) -> "Stopwatch":
        """Start a stopwatch."""
        return Stopwatch(self._console)

    def _pair(self, left: Text, right: Text) -> None:
        self._rows([(left, right)])

    def _rows(self, rows: Iterable[tuple[Text, Text]]) -> None:
        grid = Table.grid(padding=(0, 2))
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")  # JSON contains long words, which must not be cut off.
        for row in rows:
            grid.add_row(*row)
        self._console.print(grid)


class Stopwatch:
    """Prints notifications with the time of their arrival."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = time.monotonic()
        self.count = 0

    def progress(self, params: Mapping[str, Any]) -> None:
        """Print and count a progress notification."""
        self.count += 1
        elapsed = time.monotonic() - self._began
        self._console.print(Text(f"  {elapsed:5.2f} s  ", style="dim") + Text(params["message"], style="green"))


def shortened(value: Any, longest: int = LONGEST) -> str:
    """Return a text, or a value as JSON, shortened."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text)} characters)"

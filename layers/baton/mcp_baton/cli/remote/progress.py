"""What is under way, on the standard error: a line that changes on a terminal, else a line for each step."""

import sys
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rich.text import Text

from mcp_baton.cli.remote.printing import console, plain, short

if TYPE_CHECKING:
    from rich.status import Status


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

"""Questions to whoever sits at the terminal: the server's own (MCP client/elicitation), and missing arguments."""

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rich.text import Text

from mcp_baton.cli.remote.arguments import ArgumentError, choices_of, from_text, kinds_of, listed
from mcp_baton.cli.remote.ending import Failure
from mcp_baton.cli.remote.printing import console, plain


class Stopped(Exception):
    """The person at the terminal wants to stop (end of file)."""


class Terminal:
    """Asks on the standard error, and reads the standard input.

    Args:
        interactive: Whether there is anybody to ask; without it the server's questions are declined.
        quiet: Called before each question: what moves on the screen has to stand still.
    """

    def __init__(self, *, interactive: bool, quiet: Callable[[], None] = lambda: None) -> None:
        self.interactive = interactive
        self._quiet = quiet
        self._console = console(errors=True)

    def say(self, text: str, style: str = "") -> None:
        """A line that is no answer."""
        self._quiet()
        self._console.print(Text(plain(text), style=style))

    def line(self, prompt: str) -> str:
        """What is typed after a prompt.

        Raises:
            Stopped: nothing more is typed.
        """
        self._quiet()
        self._console.print(Text(plain(prompt), style="bold"), end=" ")
        typed = sys.stdin.readline()
        if not typed:
            raise Stopped
        return typed.rstrip("\r\n")

    def secret(self, name: str) -> str:
        """A secret argument's value, which is not shown while it is typed.

        Raises:
            Stopped: nothing more is typed.
        """
        from getpass import getpass

        self._quiet()
        try:
            # The prompt is written when nothing is shown any more.
            return getpass(f"{plain(name)} (secret): ")
        except EOFError as error:
            raise Stopped from error

    def answer(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """The result for a question of the server's: a form's fields; declined where nobody can be asked.

        Raises:
            Failure: it is none that was declared.
        """
        method, params = question.get("method"), question.get("params", {})
        if method != "elicitation/create":
            raise Failure(f"the server asks for {plain(method)}, which this client has not offered")
        if not self.interactive or params.get("mode", "form") != "form":
            return {"action": "decline"}
        self.say(f"The server asks: {params.get('message', '')}")
        schema = params.get("requestedSchema", {})
        try:
            if self.line("Answer? [Y/n]").strip().lower() in ("n", "no"):
                return {"action": "decline"}
            return {"action": "accept", "content": self.fields(schema, schema.get("properties", {}))}
        except Stopped:
            return {"action": "cancel"}

    def fields(
        self, schema: Mapping[str, Any], names: Iterable[str], present: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Values of an object's fields, asked for one by one; those that are left empty and need not be there are not.

        Args:
            schema: The object's schema.
            names: Which fields.
            present: Values that an empty line leaves as they are.

        Raises:
            Stopped: nothing more is typed.
        """
        made: dict[str, Any] = {}
        for name in names:
            field = schema.get("properties", {}).get(name, {})
            default = present[name] if present and name in present else field.get("default")
            value = self._field(name, field, schema, default, required=name in schema.get("required", ()))
            if value is not None:
                made[name] = value
        return made

    def _field(
        self, name: str, field: Mapping[str, Any], schema: Mapping[str, Any], default: Any, *, required: bool
    ) -> Any:
        label = _label(name, field, schema, default)
        while True:
            typed = self.line(label)
            if not typed.strip():
                if default is not None or not required:
                    return default
                self.say(f"{name} is required.", "red")
                continue
            try:
                return from_text(name, _as_json(typed, field, schema), field, schema)
            except ArgumentError as error:
                self.say(str(error), "red")


def _label(name: str, field: Mapping[str, Any], schema: Mapping[str, Any], default: Any) -> str:
    told = str(field.get("title", name))
    if told.replace(" ", "_").lower() == name.lower():
        told = name
    choices = choices_of(field, schema)
    about = f"one of {listed(choices)}" if choices else " or ".join(kinds_of(field, schema))
    label = f"{told} ({about})" if about else told
    label += f", {field['description']}" if "description" in field else ""
    shown = default if isinstance(default, str) else json.dumps(default, ensure_ascii=False)
    return f"{label}:" if default is None else f"{label} [{shown}]:"


def _as_json(typed: str, field: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """`yes` and `no` for a truth value."""
    if kinds_of(field, schema) == ["boolean"]:
        return {"y": "true", "yes": "true", "n": "false", "no": "false"}.get(typed.strip().lower(), typed.strip())
    return typed


def at_terminal() -> bool:
    """Whether somebody sits at a terminal: reads what is asked, and can type."""
    return sys.stdin.isatty() and sys.stderr.isatty()

"""Questions at the terminal: those of the server (MCP client/elicitation), and for missing arguments."""

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from mcp_baton.cli.remote.arguments import Allowed, ArgumentError
from mcp_baton.cli.remote.errors import CommandFailure
from mcp_baton.cli.remote.printing import console
from mcp_baton.local.clean_text import cleaned


class Stopped(Exception):
    """The user wants to stop (end of file)."""


class Terminal:
    """Asks on the standard error, and reads the standard input. The end of the input raises `Stopped`.

    `interactive` is whether a user can answer; otherwise questions of the server are declined. `quiet` is called before
    each output, to stop the progress display.
    """

    def __init__(self, *, interactive: bool, quiet: Callable[[], None] = lambda: None) -> None:
        self.interactive = interactive
        self._quiet = quiet
        self._console = console(errors=True)

    def say(self, text: str, style: str = "") -> None:
        self._quiet()
        self._console.print(text, style=style)

    def line(self, prompt: str) -> str:
        self._quiet()
        self._console.print(prompt, style="bold", end=" ")
        text = sys.stdin.readline()
        if not text:
            raise Stopped
        return text.rstrip("\r\n")

    def secret(self, name: str) -> str:
        """Ask for the value of a secret argument, which is not shown."""
        from getpass import getpass

        self._quiet()
        try:
            return getpass(f"{cleaned(name)} (secret): ")
        except EOFError as error:
            raise Stopped from error

    def answer(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result for a question of the server: the fields of a form, or a refusal if no user can answer."""
        method, params = question.get("method"), question.get("params", {})
        if method != "elicitation/create":
            raise CommandFailure(f"the server asks for {method}, which this client does not support")
        if not self.interactive or params.get("mode", "form") != "form":
            return {"action": "decline"}
        self.say(f"The server asks: {params.get('message', '')}")
        try:
            if self.line("Answer? [Y/n]").strip().lower() in ("n", "no"):
                return {"action": "decline"}
            return {"action": "accept", "content": self._fields(params.get("requestedSchema", {}))}
        except Stopped:
            return {"action": "cancel"}

    def _fields(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Ask for the values of a schema's fields. Optional ones may stay empty; an empty line means the default."""
        required = schema.get("required", ())
        values = {
            name: self._field(name, field, schema, field.get("default"), required=name in required)
            for name, field in schema.get("properties", {}).items()
        }
        return {name: value for name, value in values.items() if value is not None}

    def _field(
        self, name: str, field: Mapping[str, Any], schema: Mapping[str, Any], default: Any, *, required: bool
    ) -> Any:
        allowed = Allowed(field, schema)
        types = [kind for kind in allowed.types if kind != "null"]
        label = _label(
            name, field, f"one of {allowed.choices_text}" if allowed.choices else " or ".join(types), default
        )
        while True:
            text = self.line(label)
            if not text.strip():
                if default is not None or not required:
                    return default
                self.say(f"{name} is required.", "red")
                continue
            if types == ["boolean"]:
                text = text.strip().lower()
                text = {"y": "true", "yes": "true", "n": "false", "no": "false"}.get(text, text)
            try:
                return allowed.value(name, text)
            except ArgumentError as error:
                self.say(str(error), "red")


def _label(name: str, field: Mapping[str, Any], hint: str, default: Any) -> str:
    title = str(field.get("title", name))
    if title.replace(" ", "_").lower() == name.lower():
        title = name
    label = f"{title} ({hint})" if hint else title
    label += f", {field['description']}" if "description" in field else ""
    default_text = default if isinstance(default, str) else json.dumps(default, ensure_ascii=False)
    return f"{label}:" if default is None else f"{label} [{default_text}]:"


def at_terminal() -> bool:
    """Whether a user can read a question and type an answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()

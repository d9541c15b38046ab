"""`--continue`: asks the user at the terminal for the values that a paused workflow needs."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from mcp_baton.cli.remote.arguments import ArgumentError, from_text
from mcp_baton.cli.remote.client import Remote
from mcp_baton.cli.remote.errors import Rejected
from mcp_baton.cli.remote.printing import call_line, console, content_lines, plain, print_run, short
from mcp_baton.cli.remote.questions import Stopped
from mcp_baton.cli.remote.task import RunResult
from mcp_baton.workflow.definition import ANSWERS

MISSING_VALUE: Final = re.compile(r"<(missing|invalid): .*>")
"""The placeholder for a value that the client has to provide (docs/workflows.md, Placeholders)."""

SECRET: Final = re.compile(r"<secret ([^<>]+)>")
"""The placeholder for a secret argument. It is shown, and replaced when the call is sent."""


class Continuation:
    """A paused run that the user continues: the server runs each step that it can.

    Args:
        remote: The server and the terminal.
        result: The paused run.
        arguments: The workflow's arguments from the command line and the terminal. Each resume sends them, because the
            server does not store secret arguments.
    """

    def __init__(self, remote: Remote, result: RunResult, arguments: dict[str, str]) -> None:
        self._remote = remote
        self._terminal = remote.terminal
        self._last_run = result
        self._arguments = arguments

    def run(self) -> RunResult:
        """Continue until the run ends or the user stops. Return the last run."""
        try:
            while self._last_run.task is not None and not self._last_run.task.ended:
                task_id = self._last_run.task.task_id
                self._remote.progress.stop()
                print_run(self._last_run, console())
                entry = self._next_call()
                if entry is not None and ANSWERS in entry.get("arguments", {}):
                    self._answer(task_id, entry)
                    continue
                if entry is None or entry["tool"] == self._last_run.name:
                    if self._terminal.line("Resume the workflow? [Y/n]").strip().lower() in ("n", "no"):
                        break
                elif not self._call_step(task_id, entry):
                    break
                self._last_run = self._remote.run_with_secrets(self._last_run.name, self._arguments, task_id)
        except Stopped:
            self._terminal.say("")
        return self._last_run

    def _next_call(self) -> Mapping[str, Any] | None:
        """Return the next call. Read and show the resources before it."""
        for entry in self._last_run.task.following if self._last_run.task else ():
            if "tool" in entry:
                return entry
            result = self._remote.request("resources/read", {"uri": entry["resource"]})
            self._terminal.say(f"{entry['resource']}:", "bold")
            for content in result.get("contents", ()):
                self._terminal.say(plain(content.get("text", f"[{content.get('mimeType', 'bytes')}]")))
        return None

    def _answer(self, task_id: str, entry: Mapping[str, Any]) -> None:
        """Ask the workflow's questions in a form, and let the server continue with the answers."""
        arguments = entry["arguments"]
        tool = self._remote.tool(entry["tool"])
        schema = tool.get("inputSchema", {})
        questions: Mapping[str, str] = arguments[ANSWERS]
        answers_schema = schema["properties"][ANSWERS]
        options = (answers_schema, *answers_schema.get("anyOf", ()))
        answer_schemas = next(option["properties"] for option in options if "properties" in option)
        # The listed schema has the question without its values.
        texts = {name: {"description": text.removeprefix("<").removesuffix(">")} for name, text in questions.items()}
        fields = {name: {**answer_schemas[name], **text} for name, text in texts.items()}
        form = {"properties": fields, "required": list(questions), "$defs": schema.get("$defs", {})}
        other_arguments = {name: value for name, value in arguments.items() if name != ANSWERS}
        answers = self._terminal.fields(form, questions)
        result = self._remote.call(tool, {**self._with_secrets(schema, other_arguments), ANSWERS: answers})
        if result.get("isError"):
            self._terminal.say(short("\n".join(content_lines(result.get("content", ())))), "red")
        self._last_run = RunResult(self._last_run.name, (), self._remote.task(task_id))

    def _call_step(self, task_id: str, entry: Mapping[str, Any]) -> bool:
        """Make the call of a step that the server cannot run. Return whether the workflow can be resumed."""
        tool = self._remote.tool(entry["tool"])
        schema, arguments = tool.get("inputSchema", {}), dict(entry.get("arguments", {}))
        missing = [
            name for name, value in arguments.items() if isinstance(value, str) and MISSING_VALUE.fullmatch(value)
        ]
        missing += [name for name in schema.get("required", ()) if name not in arguments]
        arguments = {name: value for name, value in arguments.items() if name not in missing}
        if missing:
            self._terminal.say(f"{entry['tool']} needs more:")
            arguments |= self._terminal.fields(schema, missing)
        has_failed = False
        while True:
            self._terminal.say(f"Next: {call_line({'tool': entry['tool'], 'arguments': arguments})}")
            # An empty line must not repeat a failed call, which would fail again.
            question = "[e]dit it, [y] call it again, [s]top:" if has_failed else "Call it? [y]es, [e]dit, [s]top:"
            choice = self._terminal.line(question).strip().lower() or ("e" if has_failed else "y")
            if choice in ("s", "stop", "n", "no"):
                return False
            if choice in ("e", "edit"):
                # The call asks again for the secrets in the arguments.
                for name in _secrets_in(arguments):
                    self._arguments.pop(name, None)
                names = [
                    name
                    for name in schema.get("properties", {})
                    if name != "task_id" and not _secrets_in(arguments.get(name))
                ]
                arguments |= self._terminal.fields(schema, names, arguments)
            elif choice in ("y", "yes"):
                if self._call(tool, self._with_secrets(schema, arguments), task_id):
                    return True
                has_failed = True

    def _with_secrets(self, schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments with secrets. The user is asked for secrets that are missing or do not fit the tool."""
        while True:
            for name in sorted(_secrets_in(arguments) - self._arguments.keys()):
                self._arguments[name] = self._terminal.secret(name)
            text = json.dumps(arguments, ensure_ascii=False)
            text = SECRET.sub(lambda match: json.dumps(self._arguments[match[1]])[1:-1], text)
            resolved: dict[str, Any] = json.loads(text)
            all_fit = True
            for name, value in arguments.items():
                placeholder = SECRET.fullmatch(value) if isinstance(value, str) else None
                if placeholder is None:
                    continue
                try:
                    # The tool may take a number or a value of an enum.
                    resolved[name] = from_text(name, resolved[name], schema.get("properties", {}).get(name, {}), schema)
                except ArgumentError:
                    self._terminal.say(f"{placeholder[1]} does not fit the argument {name} of the tool.", "red")
                    self._arguments.pop(placeholder[1], None)
                    all_fit = False
            if all_fit:
                return resolved

    def _call(self, tool: Mapping[str, Any], arguments: Mapping[str, Any], task_id: str) -> bool:
        try:
            result = self._remote.call(tool, arguments, task_id)
        except Rejected as error:
            self._terminal.say(str(error), "red")
            return False
        is_error = bool(result.get("isError"))
        lines = content_lines(result.get("content", ()))
        self._terminal.say(short("\n".join(lines[:1])), "red" if is_error else "")
        meta = result.get("_meta", {})
        if not is_error and meta.get("recorded") is not True:
            self._terminal.say(f"The call was not recorded: {meta.get('record_error', '')}", "yellow")
        return not is_error


def _secrets_in(value: Any) -> set[str]:
    """Return the names of the secret arguments whose placeholders a value contains."""
    return set(SECRET.findall(json.dumps(value, ensure_ascii=False)))

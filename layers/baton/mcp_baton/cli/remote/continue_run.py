"""`--continue`: the user makes the remaining calls of a paused workflow at the terminal, one after the other."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from mcp_baton.cli.remote.arguments import ArgumentError, from_text
from mcp_baton.cli.remote.connection import Connection
from mcp_baton.cli.remote.errors import Rejected
from mcp_baton.cli.remote.printing import call_line, console, content_lines, plain, print_ran, short
from mcp_baton.cli.remote.questions import Stopped
from mcp_baton.cli.remote.task import Ran
from mcp_baton.cli.remote.tools import call, get_task, named, run_asking
from mcp_baton.workflow.definition import ANSWERS

LACKING: Final = re.compile(r"<(missing|invalid): .*>")
"""The placeholder for a value that the client has to provide (docs/workflows.md, Placeholders)."""

SECRET: Final = re.compile(r"<secret ([^<>]+)>")
"""The placeholder for a secret argument. It is shown, and replaced when the call is sent."""


def continue_run(connection: Connection, ran: Ran, given: dict[str, str]) -> Ran:
    """Make the remaining calls until the run ends or the user stops.

    After each recorded call the workflow is resumed, so that the server runs the steps that it can.

    Args:
        connection: The server and the terminal.
        ran: The paused run.
        given: The workflow's arguments that the user has given or typed. Each resume sends them, because the server
            does not store secret arguments.
    """
    tools = connection.remote.pages("tools/list", "tools")
    try:
        while ran.task is not None and not ran.task.ended:
            task_id = ran.task.task_id
            connection.progress.stop()
            print_ran(ran, console())
            entry = _next_call(connection, ran)
            if entry is not None and ANSWERS in entry.get("arguments", {}):
                ran = _answer(connection, ran, task_id, tools, entry)
                continue
            if not _make_call(connection, ran, entry, tools, given):
                break
            ran = run_asking(connection, ran.name, given, task_id)
    except Stopped:
        connection.terminal.say("")
    return ran


def _answer(
    connection: Connection, ran: Ran, task_id: str, tools: list[dict[str, Any]], entry: Mapping[str, Any]
) -> Ran:
    """Ask for the answers to the workflow's questions, and let the server continue with them."""
    terminal, arguments = connection.terminal, entry["arguments"]
    tool = named(entry["tool"], tools, "tool")
    schema = tool.get("inputSchema", {})
    questions: Mapping[str, str] = arguments[ANSWERS]
    asked = schema["properties"][ANSWERS]["properties"]
    # The listed schema has the question without its values.
    texts = {name: {"description": text.removeprefix("<").removesuffix(">")} for name, text in questions.items()}
    fields = {name: {**asked[name], **text} for name, text in texts.items()}
    form = {"properties": fields, "required": list(questions), "$defs": schema.get("$defs", {})}
    answers = terminal.fields(form, questions)
    result = call(connection, tool, {**arguments, ANSWERS: answers})
    content: Mapping[str, Any] = next(iter(result.get("content", ())), {})
    if result.get("isError"):
        terminal.say(short("\n".join(content_lines([content]))), "red")
    message = {"role": "assistant", "content": content}
    return replace(ran, task=get_task(connection.remote, task_id), messages=(message,))


def _make_call(
    connection: Connection,
    ran: Ran,
    entry: Mapping[str, Any] | None,
    tools: list[dict[str, Any]],
    given: dict[str, str],
) -> bool:
    """Make the next call. Return whether the workflow can be resumed."""
    if ran.task is None:
        return False
    terminal = connection.terminal
    if entry is None or entry["tool"] == ran.name:
        # All steps are settled, or the server suggests no call.
        return terminal.line("Resume the workflow? [Y/n]").strip().lower() not in ("n", "no")
    tool = named(entry["tool"], tools, "tool")
    schema, arguments = tool.get("inputSchema", {}), dict(entry.get("arguments", {}))
    lacking = [name for name, value in arguments.items() if isinstance(value, str) and LACKING.fullmatch(value)]
    lacking += [name for name in schema.get("required", ()) if name not in arguments]
    arguments = {name: value for name, value in arguments.items() if name not in lacking}
    if lacking:
        terminal.say(f"{entry['tool']} needs more:")
        arguments |= terminal.fields(schema, lacking)
    failed = False
    while True:
        terminal.say(f"Next: {call_line({'tool': entry['tool'], 'arguments': arguments})}")
        # An empty line does not repeat a call that failed: it would fail again.
        question = "[e]dit it, [y] call it again, [s]top:" if failed else "Call it? [y]es, [e]dit, [s]top:"
        chosen = terminal.line(question).strip().lower() or ("e" if failed else "y")
        if chosen in ("s", "stop", "n", "no"):
            return False
        if chosen in ("e", "edit"):
            arguments |= _edited(connection, schema, arguments, given)
        elif chosen in ("y", "yes"):
            if _call(connection, tool, _with_secrets(connection, schema, arguments, given), ran.task.task_id):
                return True
            failed = True


def _edited(
    connection: Connection, schema: Mapping[str, Any], arguments: Mapping[str, Any], given: dict[str, str]
) -> dict[str, Any]:
    """Return the arguments that the user changes. The call asks again for the secrets in them."""
    for name in _secrets_in(arguments):
        given.pop(name, None)
    asked = [
        name for name in schema.get("properties", {}) if name != "task_id" and not _secrets_in(arguments.get(name))
    ]
    return connection.terminal.fields(schema, asked, arguments)


def _secrets_in(value: Any) -> set[str]:
    """Return the names of the secret arguments whose placeholders a value contains."""
    match value:
        case str():
            return set(SECRET.findall(value))
        case Mapping():
            return set().union(*map(_secrets_in, value.values()))
        case list():
            return set().union(*map(_secrets_in, value))
        case _:
            return set()


def _filled(value: Any, secrets: Mapping[str, str]) -> Any:
    """Return a value with secrets in the place of their placeholders."""
    match value:
        case str():
            return SECRET.sub(lambda found: secrets[found[1]], value)
        case Mapping():
            return {name: _filled(part, secrets) for name, part in value.items()}
        case list():
            return [_filled(part, secrets) for part in value]
        case _:
            return value


def _with_secrets(
    connection: Connection, schema: Mapping[str, Any], arguments: Mapping[str, Any], given: dict[str, str]
) -> dict[str, Any]:
    """Return the arguments with secrets. The user is asked for secrets that are missing or do not fit the tool."""
    while True:
        for name in sorted(_secrets_in(arguments) - given.keys()):
            given[name] = connection.terminal.secret(name)
        made: dict[str, Any] = _filled(arguments, given)
        properties = schema.get("properties", {})
        fits = True
        for name, value in arguments.items():
            whole = SECRET.fullmatch(value) if isinstance(value, str) else None
            if whole is None:
                continue
            try:
                # The tool may take a number or a value of an enum.
                made[name] = from_text(name, made[name], properties.get(name, {}), schema)
            except ArgumentError:
                connection.terminal.say(f"{whole[1]} does not fit the argument {name} of the tool.", "red")
                given.pop(whole[1], None)
                fits = False
        if fits:
            return made


def _next_call(connection: Connection, ran: Ran) -> Mapping[str, Any] | None:
    """Return the next call. Read and show the resources before it."""
    for entry in ran.task.following if ran.task else ():
        if "tool" in entry:
            return entry
        result = connection.remote.request("resources/read", {"uri": entry["resource"]})
        connection.terminal.say(f"{entry['resource']}:", "bold")
        for content in result.get("contents", ()):
            connection.terminal.say(plain(content.get("text", f"[{content.get('mimeType', 'bytes')}]")))
    return None


def _call(connection: Connection, tool: Mapping[str, Any], arguments: Mapping[str, Any], task_id: str) -> bool:
    """Make a call and show its result. Return whether it succeeded."""
    try:
        result = call(connection, tool, arguments, task_id)
    except Rejected as refused:
        connection.terminal.say(str(refused), "red")
        return False
    failed = bool(result.get("isError"))
    lines = content_lines(result.get("content", ()))
    connection.terminal.say(short("\n".join(lines[:1])), "red" if failed else "")
    meta = result.get("_meta", {})
    if not failed and meta.get("recorded") is not True:
        connection.terminal.say(f"The call was not recorded: {meta.get('record_error', '')}", "yellow")
    return not failed

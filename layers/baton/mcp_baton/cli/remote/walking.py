"""`--continue`: the calls that a paused workflow leaves to the client, made one by one from a terminal."""

import re
from collections.abc import Mapping
from typing import Any, Final

from mcp_baton.cli.remote.arguments import ArgumentError, from_text
from mcp_baton.cli.remote.ending import Rejected
from mcp_baton.cli.remote.printing import call_line, console, plain, short
from mcp_baton.cli.remote.questions import Stopped
from mcp_baton.cli.remote.reports import content_lines, print_ran
from mcp_baton.cli.remote.tools import Ran, call, named, run_asking
from mcp_baton.cli.remote.where import Connection

LACKING: Final = re.compile(r"<(missing|invalid): .*>")
"""What stands in a call that comes next where a value has to be found (docs/workflows.md, Placeholders)."""

SECRET: Final = re.compile(r"<secret ([^<>]+)>")
"""What stands there for a secret argument. It is shown so here as well, and replaced in what is sent."""


def walk(connection: Connection, ran: Ran, given: dict[str, str]) -> Ran:
    """Go on with a run that is paused until it is done, or the person at the terminal stops.

    After each call that is recorded the workflow is resumed, so that the server does what it can.

    Args:
        connection: The server, and the terminal.
        ran: The run.
        given: The workflow's arguments that this command was given or has asked for. They are sent with each resume,
            since the server does not store secret ones.
    """
    tools = connection.remote.pages("tools/list", "tools")
    try:
        while ran.paused and ran.task is not None:
            connection.progress.stop()
            print_ran(ran, console())
            if not _go_on(connection, ran, tools, given):
                break
            ran = run_asking(connection, ran.name, given, ran.task.task_id)
    except Stopped:
        connection.terminal.say("")
    return ran


def _go_on(connection: Connection, ran: Ran, tools: list[dict[str, Any]], given: dict[str, str]) -> bool:
    """Make the next call; whether it was recorded, so that the workflow can be resumed."""
    if ran.task is None:
        return False
    entry = _next_call(connection, ran)
    if entry is None or entry["tool"] == ran.name:
        # All steps are settled, or the server says nothing of what is left.
        return connection.terminal.line("Resume the workflow? [Y/n]").strip().lower() not in ("n", "no")
    tool = named(entry["tool"], tools, "tool")
    schema, arguments = tool.get("inputSchema", {}), dict(entry.get("arguments", {}))
    lacking = [name for name, value in arguments.items() if _lacks(value)]
    lacking += [name for name in schema.get("required", ()) if name not in arguments]
    arguments = {name: value for name, value in arguments.items() if name not in lacking}
    if lacking:
        connection.terminal.say(f"{entry['tool']} needs more:")
        arguments |= connection.terminal.fields(schema, lacking)
    failed = False
    while True:
        connection.terminal.say(f"Next: {call_line({'tool': entry['tool'], 'arguments': arguments})}")
        # A call that failed would fail again as it is, so an empty line does not repeat it.
        question = "[e]dit it, [y] call it again, [s]top:" if failed else "Call it? [y]es, [e]dit, [s]top:"
        chosen = connection.terminal.line(question).strip().lower() or ("e" if failed else "y")
        if chosen in ("s", "stop", "n", "no"):
            return False
        if chosen in ("e", "edit"):
            arguments |= _edited(connection, schema, arguments, given)
        elif chosen in ("y", "yes"):
            if _called(connection, tool, _with_secrets(connection, schema, arguments, given), ran.task.task_id):
                return True
            failed = True


def _edited(
    connection: Connection, schema: Mapping[str, Any], arguments: Mapping[str, Any], given: dict[str, str]
) -> dict[str, Any]:
    """The arguments as the person changes them. Secrets in them are asked for once more when the call is made."""
    for name in _secrets_in(arguments):
        given.pop(name, None)
    asked = [
        name for name in schema.get("properties", {}) if name != "task_id" and not _secrets_in(arguments.get(name))
    ]
    return connection.terminal.fields(schema, asked, arguments)


def _secrets_in(value: Any) -> set[str]:
    """The names of the secret arguments that a value has placeholders of."""
    match value:
        case str():
            return set(SECRET.findall(value))
        case Mapping():
            return set().union(*map(_secrets_in, value.values()))
        case list():
            return set().union(*map(_secrets_in, value))
        case _:
            return set()


def _with_secrets(
    connection: Connection, schema: Mapping[str, Any], arguments: Mapping[str, Any], given: dict[str, str]
) -> dict[str, Any]:
    """The arguments as they are sent. A secret that this command was not given is asked for."""
    for name in sorted(_secrets_in(arguments) - given.keys()):
        given[name] = connection.terminal.secret(name)

    def filled(value: Any) -> Any:
        match value:
            case str():
                return SECRET.sub(lambda found: given[found[1]], value)
            case Mapping():
                return {name: filled(part) for name, part in value.items()}
            case list():
                return [filled(part) for part in value]
            case _:
                return value

    made = {name: filled(value) for name, value in arguments.items()}
    properties = schema.get("properties", {})
    for name, value in arguments.items():
        whole = SECRET.fullmatch(value) if isinstance(value, str) else None
        if whole is None:
            continue
        try:
            # A number or an enum's value, where the tool takes one.
            made[name] = from_text(name, made[name], properties.get(name, {}), schema)
        except ArgumentError:
            connection.terminal.say(f"{whole[1]} does not fit the argument {name} of the tool.", "red")
            del given[whole[1]]
            return _with_secrets(connection, schema, arguments, given)
    return made


def _next_call(connection: Connection, ran: Ran) -> Mapping[str, Any] | None:
    """The first call that is left; resources that come before it are shown."""
    for entry in ran.task.following if ran.task else ():
        if "tool" in entry:
            return entry
        told = connection.remote.request("resources/read", {"uri": entry["resource"]})
        connection.terminal.say(f"{entry['resource']}:", "bold")
        for content in told.get("contents", ()):
            connection.terminal.say(plain(content.get("text", f"[{content.get('mimeType', 'bytes')}]")))
    return None


def _lacks(value: Any) -> bool:
    return isinstance(value, str) and LACKING.fullmatch(value) is not None


def _called(connection: Connection, tool: Mapping[str, Any], arguments: Mapping[str, Any], task_id: str) -> bool:
    """Make the call and show its result; whether it succeeded."""
    try:
        result = call(connection, tool, arguments, task_id)
    except Rejected as refused:
        connection.terminal.say(str(refused), "red")
        return False
    failed = bool(result.get("isError"))
    lines = content_lines(result.get("content", ()))
    connection.terminal.say(short("\n".join(lines[:1])), "red" if failed else "")
    recorded = result.get("_meta", {}).get("recorded")
    if not failed and recorded is not True:
        connection.terminal.say(
            f"The call was not recorded: {result.get('_meta', {}).get('record_error', '')}", "yellow"
        )
    return not failed

"""`--continue`: the calls that a paused workflow leaves to the client, made one by one from a terminal."""

import re
from collections.abc import Mapping
from typing import Any, Final

from mcp_baton.cli.remote.printing import call_line, console, plain, short
from mcp_baton.cli.remote.questions import Stopped
from mcp_baton.cli.remote.reports import content_lines, print_ran
from mcp_baton.cli.remote.running import Ran, run
from mcp_baton.cli.remote.tools import call, named
from mcp_baton.cli.remote.where import Connection

LACKING: Final = re.compile(r"<(missing|invalid): .*>")
"""What stands in a call that comes next where a value has to be found (docs/workflows.md, Placeholders)."""


def walk(connection: Connection, ran: Ran) -> Ran:
    """Go on with a run that is paused until it is done, or whoever sits at the terminal stops.

    After each call that is recorded the workflow is resumed, so that the server does what it can.
    """
    tools = connection.remote.pages("tools/list", "tools")
    try:
        while ran.paused and ran.task is not None:
            print_ran(ran, console())
            if not _go_on(connection, ran, tools):
                break
            ran = run(connection.remote, ran.name, {}, ran.task.task_id)
    except Stopped:
        connection.terminal.say("")
    return ran


def _go_on(connection: Connection, ran: Ran, tools: list[dict[str, Any]]) -> bool:
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
    while True:
        connection.terminal.say(f"Next: {call_line({'tool': entry['tool'], 'arguments': arguments})}")
        chosen = connection.terminal.line("Call it? [y]es, [e]dit, [s]top:").strip().lower()
        if chosen in ("s", "stop", "n", "no"):
            return False
        if chosen in ("e", "edit"):
            names = [name for name in schema.get("properties", {}) if name != "task_id"]
            arguments |= connection.terminal.fields(schema, names, arguments)
        elif chosen in ("", "y", "yes") and _called(connection, tool, arguments, ran.task.task_id):
            return True


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
    result = call(connection, tool, arguments, task_id)
    failed = bool(result.get("isError"))
    lines = content_lines(result.get("content", ()))
    connection.terminal.say(short("\n".join(lines[:1])), "red" if failed else "")
    recorded = result.get("_meta", {}).get("recorded")
    if not failed and recorded is not True:
        connection.terminal.say(
            f"The call was not recorded: {result.get('_meta', {}).get('record_error', '')}", "yellow"
        )
    return not failed

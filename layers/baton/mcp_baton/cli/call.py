"""`baton call`: call a tool (docs/commands.md)."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from mcp_baton.cli import options
from mcp_baton.cli.remote.errors import EXIT_DONE, EXIT_FAILED


@options.uses_server(options.Where)
def call(
    connection: options.ConnectionOptions,
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="The tool's name.")],
    arguments: options.Arguments = None,
    task: Annotated[
        str | None,
        typer.Option("--task", metavar="TASK", help="The step to which the call belongs, TASK/STEP, or only its task."),
    ] = None,
    *,
    as_json: bool,
) -> int:
    """Call a tool and print its result.

    If the call becomes a task, the command waits for it. With --task, the call is recorded as a step of that workflow.

    Exit code 0: done; 1: the tool failed, or a call with --task was not recorded; 4: the server does not answer or
    rejects you.
    """
    from mcp_baton.cli.remote.arguments import for_tool, parse_arguments
    from mcp_baton.cli.remote.connection import open_connection
    from mcp_baton.local.clean_text import print_json
    from mcp_baton.tasks.step_ids import StepId, parse_step_id

    parsed_arguments = parse_arguments(arguments or ())
    with open_connection(connection, as_json=as_json) as remote:
        listed_tool = remote.tool(tool)
        task_id = None if task is None else StepId(remote.find_task(task), parse_step_id(task).path).text
        result = remote.call(tool, for_tool(parsed_arguments, listed_tool.get("inputSchema", {})), task_id)
    if as_json:
        print_json({name: value for name, value in result.items() if name != "resultType"})
    else:
        _print(result, task_id)
    is_recorded = task_id is None or result.get("_meta", {}).get("recorded") is True
    return EXIT_FAILED if result.get("isError") or not is_recorded else EXIT_DONE


def _print(result: Mapping[str, Any], task_id: str | None) -> None:
    from mcp_baton.cli.remote.printing import call_line, console, content_lines

    meta, out = result.get("_meta", {}), console()
    for line in content_lines(result.get("content", ())):
        out.print(line, style="red" if result.get("isError") else "", soft_wrap=True)
    if "recorded" not in meta:
        return
    errors = console(errors=True)
    if meta["recorded"] is not True:
        errors.print(f"Not recorded: {meta.get('record_error', '')}", style="yellow")
    for index, entry in enumerate(meta.get("next", ())):
        line = f"{'Next: ' if index == 0 else '      '}{call_line(entry, task_id)}"
        errors.print(line, style="dim", soft_wrap=True)

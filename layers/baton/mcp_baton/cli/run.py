"""`baton run` and `resume`: workflows; `baton call`: tools (docs/commands.md)."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from mcp_baton.cli import options
from mcp_baton.cli.remote.arguments import for_prompt, for_tool, parse_arguments
from mcp_baton.cli.remote.client import ends_with_command
from mcp_baton.cli.remote.connection import open_connection
from mcp_baton.cli.remote.errors import EXIT_DONE, EXIT_FAILED
from mcp_baton.cli.remote.printing import (
    TASK_ID_PREFIX_CHARS,
    RunResult,
    call_line,
    console,
    content_lines,
    print_run,
    waits_for,
)
from mcp_baton.local.clean_text import print_json
from mcp_baton.tasks.record import TaskStatus
from mcp_baton.tasks.step_ids import StepId, parse_step_id


@options.uses_server(options.Where)
def run(
    connection: options.ConnectionOptions,
    workflow: Annotated[str, typer.Argument(metavar="WORKFLOW", help="The name of a workflow or another prompt.")],
    arguments: options.Arguments = None,
    *,
    as_json: bool,
) -> int:
    """Run a workflow and show its steps and result.

    If it pauses, the command prints how to continue.

    Exit code 0: completed; 1: failed; 3: paused; 4: the server does not answer or rejects you.
    """
    return _run(connection, workflow, None, arguments or (), as_json=as_json)


@options.uses_server(options.Served)
def resume(
    connection: options.ConnectionOptions,
    task: options.Task,
    arguments: options.Arguments = None,
    *,
    as_json: bool,
) -> int:
    """Resume a paused task.

    The server runs the remaining steps. At a terminal, the command asks for missing secret arguments.

    Exit code 0: completed; 1: failed, or already ended; 3: paused; 4: the server does not answer or rejects you.
    """
    return _run(connection, None, task, arguments or (), as_json=as_json)


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
    parsed_arguments = parse_arguments(arguments or ())
    with open_connection(connection, as_json=as_json) as remote:
        schema = remote.tool(tool).get("inputSchema", {})
        task_id = None if task is None else StepId(remote.find_task(task), parse_step_id(task).path).text
        result = remote.call(tool, for_tool(parsed_arguments, schema), task_id)
    if as_json:
        print_json({name: value for name, value in result.items() if name != "resultType"})
    else:
        _print_result(result, task_id)
        if connection.is_target and result.get("_meta", {}).get("task_status") == TaskStatus.WORKING:
            console(errors=True).print(ends_with_command(connection.where or ""), style="dim", soft_wrap=True)
    is_recorded = task_id is None or result.get("_meta", {}).get("recorded") is True
    return EXIT_FAILED if result.get("isError") or not is_recorded else EXIT_DONE


def _print_result(result: Mapping[str, Any], task_id: str | None) -> None:
    meta, errors = result.get("_meta", {}), console(errors=True)
    for line in content_lines(result.get("content", ())):
        console().print(line, style="red" if result.get("isError") else "", soft_wrap=True)
    if "recorded" not in meta:
        return
    if meta["recorded"] is not True:
        errors.print(f"Not recorded: {meta.get('record_error', '')}", style="yellow")
    for index, entry in enumerate(meta.get("next", ())):
        line = f"{'Next: ' if index == 0 else '      '}{call_line(entry, task_id)}"
        errors.print(line, style="dim", soft_wrap=True)


def _run(
    connection: options.ConnectionOptions,
    workflow: str | None,
    task: str | None,
    arguments: Sequence[str],
    *,
    as_json: bool,
) -> int:
    parsed_arguments = parse_arguments(arguments)
    with open_connection(connection, for_tasks=task is not None, as_json=as_json) as remote:
        task_id = None
        if workflow is None:
            task_id, workflow = remote.workflow_of(task or "")
        prompt_arguments = for_prompt(parsed_arguments, remote.prompt(workflow).get("arguments", ()))
        result = remote.run_with_secrets(workflow, prompt_arguments, task_id)
        remote.progress.stop()
        if as_json:
            print_json(result.to_json())
        else:
            print_run(result, console())
            _print_next_command(result, connection)
        return result.code


def _print_next_command(result: RunResult, connection: options.ConnectionOptions) -> None:
    if result.task is None or result.task.ended:
        return
    calls = [entry.get("arguments", {}) for entry in result.task.following]
    is_stuck = bool(calls) and all(arguments.get("task_action") == "cancel" for arguments in calls)
    verb, purpose = ("cancel", "end it") if is_stuck else ("resume", "continue here")
    command = shlex.join(["baton", verb, connection.where or "", result.task.task_id[:TASK_ID_PREFIX_CHARS]])
    awaited = waits_for(result.task)
    condition = f" after {awaited}" if awaited else ""
    hint = ", with the same credentials" if connection.has_credentials else ""
    text = f"To {purpose}{condition}{hint}: {command}"
    if connection.is_target:
        text = ends_with_command(connection.where or "")
    # One line: a command that is broken into two lines cannot be copied.
    console(errors=True).print(text, style="dim", soft_wrap=True)

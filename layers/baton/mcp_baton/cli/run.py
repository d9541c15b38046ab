"""`baton run` and `baton resume`: workflows from a terminal (docs/commands.md)."""

from typing import TYPE_CHECKING, Annotated

import typer

from mcp_baton.cli import options

if TYPE_CHECKING:
    from mcp_baton.cli.remote.task import RunResult


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
    return _run(connection, workflow, None, arguments, as_json=as_json)


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
    connection.check_where(may_be_target=False)
    return _run(connection, None, task, arguments, as_json=as_json)


def _run(
    connection: options.ConnectionOptions,
    workflow: str | None,
    task: str | None,
    arguments: list[str] | None,
    *,
    as_json: bool,
) -> int:
    from mcp_baton.cli.remote.arguments import for_prompt, parse_arguments
    from mcp_baton.cli.remote.connection import open_connection
    from mcp_baton.cli.remote.printing import console, print_run
    from mcp_baton.local.clean_text import print_json

    parsed_arguments = parse_arguments(arguments or ())
    with open_connection(connection, as_json=as_json) as remote:
        task_id = None
        if workflow is None:
            task_id, workflow = remote.workflow_of(task or "")
        prompt = remote.prompt(workflow)
        prompt_arguments = for_prompt(parsed_arguments, prompt.get("arguments", ()))
        result = remote.run_with_secrets(workflow, prompt_arguments, task_id)
        remote.progress.stop()
        if as_json:
            print_json(result.to_json())
            return result.code
        print_run(result, console())
        if result.paused:
            _print_next_command(result, connection)
        return result.code


def _print_next_command(result: "RunResult", connection: options.ConnectionOptions) -> None:
    import shlex

    from mcp_baton.cli.remote.printing import TASK_ID_PREFIX_CHARS, console, still_waits

    if result.task is None:
        return
    command = shlex.join(["baton", "resume", connection.where or "", result.task.task_id[:TASK_ID_PREFIX_CHARS]])
    condition = " after the wait" if still_waits(result.task) else ""
    hint = ", with the same credentials" if connection.has_credentials else ""
    text = f"To continue here{condition}{hint}: {command}"
    if connection.is_target:
        text = f"The task ends with this command: serve {connection.where} with `baton serve`, and run it there"
    # One line: a command that is broken into two lines cannot be copied.
    console(errors=True).print(text, style="dim", soft_wrap=True)

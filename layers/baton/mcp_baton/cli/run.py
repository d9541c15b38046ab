"""`baton run` and `baton resume`: workflows from a terminal (docs/commands.md)."""

from typing import TYPE_CHECKING, Annotated

import typer

from mcp_baton.cli import options
from mcp_baton.exceptions import BatonError

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


@options.uses_server(options.ServedOrTarget, table=True)
def resume(
    connection: options.ConnectionOptions,
    task: options.Task = None,
    arguments: options.Arguments = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Resume many tasks of --table here, with the Server of a file.")
    ] = False,
    workflow: Annotated[str | None, typer.Option("--workflow", metavar="NAME", help="With --all: its tasks.")] = None,
    pause: Annotated[
        str | None, typer.Option("--pause", metavar="TYPE", help="With --all: with this pause reason, as toolError.")
    ] = None,
    step: Annotated[str | None, typer.Option("--step", metavar="NAME", help="With --all: paused at this step.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --all: tell which tasks would continue, and run nothing.")
    ] = False,
    rate: Annotated[float, typer.Option("--rate", min=0.01, metavar="N", help="The most resumes a second.")] = 5,
    after: options.After = None,
    read_units: options.ReadUnits = 1000,
    *,
    as_json: bool,
) -> int:
    """Resume a paused task, or with --all many tasks.

    The server runs the remaining steps. At a terminal, the command asks for missing secret arguments. With --all, the
    steps run in this process.

    Exit code 0: completed; 1: failed, or already ended; 3: paused; 4: the server does not answer or rejects you.
    """
    if everything:
        return _resume_all(
            connection,
            workflow,
            pause,
            step,
            task,
            dry_run=dry_run,
            rate=rate,
            after=after,
            units=read_units,
            as_json=as_json,
        )
    if connection.table or connection.owner or connection.dynamodb or workflow or pause or step or dry_run or after:
        raise BatonError("--table, --workflow, --pause, --step, --dry-run and --after are for many tasks: add --all")
    if task is None:
        raise BatonError("the task is missing: name WHERE, and then the task's id")
    connection.check_where(may_be_target=False)
    return _run(connection, None, task, arguments, as_json=as_json)


def _resume_all(
    connection: options.ConnectionOptions,
    workflow: str | None,
    pause: str | None,
    step: str | None,
    task: str | None,
    *,
    dry_run: bool,
    rate: float,
    after: str | None,
    units: float,
    as_json: bool,
) -> int:
    import os

    from msgspec.structs import replace

    from mcp_baton.aws import services_of
    from mcp_baton.cli.remote.table import table_store
    from mcp_baton.cli.stored_tasks import Resumes, Selection, Verdicts
    from mcp_baton.local.checking import load_checked
    from mcp_baton.local.clean_text import echo, print_json
    from mcp_baton.local.log import log_to_stderr
    from mcp_baton.present.sentences import reasons_by_type
    from mcp_baton.settings import Settings

    if connection.table is None or workflow is None or pause is None or task is not None:
        raise BatonError("--all resumes the tasks that --table, --workflow and --pause select: name all three, no task")
    if pause not in reasons_by_type():
        raise BatonError(f"--pause {pause!r} is no pause reason: use one of {', '.join(reasons_by_type())}")
    log_to_stderr()
    server = load_checked(connection.where or "")
    if workflow not in server.workflows:
        raise BatonError(
            f"--workflow {workflow!r} is not in {connection.where}: it has {', '.join(server.workflows) or 'none'}"
        )
    server.close()
    selection = Selection(workflow, pause, step, connection.owner)
    settings = replace(Settings.from_environment(os.environ), table=connection.table)
    with table_store(connection.table, connection.dynamodb) as store:
        if dry_run:
            verdicts = Verdicts(server.full_view, selection)
        else:
            services, definition = services_of(server, settings, store), server.workflows[workflow]
            verdicts = Resumes(server.full_view, selection, services=services, workflow=definition, interval_s=1 / rate)
        try:
            verdicts.read(store, after, units)
        finally:
            if as_json:
                print_json(verdicts.to_json())
            else:
                echo(str(verdicts))
    return verdicts.code


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

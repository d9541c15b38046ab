"""`baton run` and `baton resume`: workflows from a terminal (docs/commands.md)."""

from typing import TYPE_CHECKING, Annotated

import typer

from mcp_baton.cli import options
from mcp_baton.cli.remote.errors import reports_errors

if TYPE_CHECKING:
    from mcp_baton.cli.remote.connection import Connection
    from mcp_baton.cli.remote.task import Ran


@reports_errors
def run(
    where: options.Where,
    workflow: Annotated[str, typer.Argument(metavar="WORKFLOW", help="The name of a workflow or another prompt.")],
    arguments: options.Arguments = None,
    go_on: options.GoOn = False,
    api_key: options.ApiKey = None,
    token: options.Token = None,
    aws: options.Aws = False,
    header: options.Header = None,
    as_json: options.AsJson = False,
) -> int:
    """Run a workflow and show its steps and result.

    If it pauses, the command prints the remaining calls; --continue makes them.

    Exit code 0: completed; 1: failed; 3: paused; 4: the server does not answer or rejects you.
    """
    from mcp_baton.cli.remote.arguments import for_prompt, given
    from mcp_baton.cli.remote.connection import connection
    from mcp_baton.cli.remote.tools import named, run_asking

    way, words = options.Way(where, api_key, token, aws, header), given(arguments or ())
    with connection(way, as_json=as_json) as connected:
        _check_terminal(connected, go_on)
        prompt = named(workflow, connected.remote.pages("prompts/list", "prompts"), "prompt")
        sent = for_prompt(words, prompt.get("arguments", ()))
        ran = run_asking(connected, workflow, sent)
        return _ended(connected, ran, way, sent, go_on=go_on, as_json=as_json)


@reports_errors
def resume(
    where: options.Served,
    task: options.Task,
    arguments: options.Arguments = None,
    go_on: options.GoOn = False,
    api_key: options.ApiKey = None,
    token: options.Token = None,
    aws: options.Aws = False,
    header: options.Header = None,
    as_json: options.AsJson = False,
) -> int:
    """Resume a paused task.

    The server runs the remaining steps. At a terminal, the command asks for missing secret arguments.

    Exit code 0: completed; 1: failed, or already ended; 3: paused; 4: the server does not answer or rejects you.
    """
    from mcp_baton.cli.remote.arguments import for_prompt, given
    from mcp_baton.cli.remote.connection import connection
    from mcp_baton.cli.remote.errors import Failure, ended_message
    from mcp_baton.cli.remote.tools import get_task, named, run_asking

    way, words = options.Way(where, api_key, token, aws, header), given(arguments or ())
    way.refuse_target()
    with connection(way, as_json=as_json) as connected:
        _check_terminal(connected, go_on)
        state = get_task(connected.remote, connected.remote.find_task(task or ""))
        if state.ended:
            raise Failure(ended_message(f"the task {state.task_id}", state.status))
        if state.workflow is None:
            raise Failure(f"the task {state.task_id} belongs to a tool and needs no resume")
        prompt = named(state.workflow, connected.remote.pages("prompts/list", "prompts"), "prompt")
        sent = for_prompt(words, prompt.get("arguments", ()))
        ran = run_asking(connected, state.workflow, sent, state.task_id)
        return _ended(connected, ran, way, sent, go_on=go_on, as_json=as_json)


def _check_terminal(connected: "Connection", go_on: bool) -> None:
    if go_on and not connected.terminal.interactive:
        raise options.WhereError("--continue asks questions: it needs a terminal and cannot be used with --json")


def _ended(
    connected: "Connection", ran: "Ran", way: options.Way, sent: dict[str, str], *, go_on: bool, as_json: bool
) -> int:
    """Make the remaining calls if the user wants to, and print the run. Return the exit code."""
    from mcp_baton.cli.remote.printing import console, print_ran
    from mcp_baton.local.clean_text import print_json

    connected.progress.stop()
    if go_on and ran.paused:
        from mcp_baton.cli.remote.continue_run import continue_run

        ran = continue_run(connected, ran, sent)
        connected.progress.stop()
        if ran.paused:  # its state is already printed
            _print_next_command(ran, way)
            return ran.code
    if as_json:
        print_json(ran.to_json())
    else:
        print_ran(ran, console())
        if ran.paused:
            _print_next_command(ran, way)
    return ran.code


def _print_next_command(ran: "Ran", way: options.Way) -> None:
    """Print the command that continues a paused task on the standard error."""
    import shlex

    from rich.text import Text

    from mcp_baton.cli.remote.printing import PREFIX, console, plain

    if ran.task is None:
        return
    shown, hidden = way.shown_options()
    command = shlex.join(["baton", "resume", way.where, ran.task.task_id[:PREFIX], *shown, "--continue"])
    same = f", with the same {' and '.join(hidden)}" if hidden else ""
    text = f"To continue here{same}: {command}"
    if way.is_target:
        text = f"The task ends with this command: serve {way.where} with `baton serve`, or run it with --continue"
    # One line: a command that is broken into two lines cannot be copied.
    console(errors=True).print(Text(plain(text), style="dim"), soft_wrap=True)

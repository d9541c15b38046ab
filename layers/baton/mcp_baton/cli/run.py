"""`baton run` and `baton resume`: workflows from a terminal (docs/commands.md)."""

from typing import TYPE_CHECKING, Annotated

import typer

from mcp_baton.cli import options
from mcp_baton.exceptions import BatonError

if TYPE_CHECKING:
    from mcp_baton.cli.remote.task import Ran


@options.uses_server(options.Where)
def run(
    way: options.Way,
    workflow: Annotated[str, typer.Argument(metavar="WORKFLOW", help="The name of a workflow or another prompt.")],
    arguments: options.Arguments = None,
    go_on: options.GoOn = False,
    *,
    as_json: bool,
) -> int:
    """Run a workflow and show its steps and result.

    If it pauses, the command prints how to continue; --continue asks for what the server needs.

    Exit code 0: completed; 1: failed; 3: paused; 4: the server does not answer or rejects you.
    """
    return _run(way, workflow, None, arguments, go_on=go_on, as_json=as_json)


@options.uses_server(options.Served)
def resume(
    way: options.Way,
    task: options.Task,
    arguments: options.Arguments = None,
    go_on: options.GoOn = False,
    *,
    as_json: bool,
) -> int:
    """Resume a paused task.

    The server runs the remaining steps. At a terminal, the command asks for missing secret arguments.

    Exit code 0: completed; 1: failed, or already ended; 3: paused; 4: the server does not answer or rejects you.
    """
    way.refuse_target()
    return _run(way, None, task, arguments, go_on=go_on, as_json=as_json)


def _run(
    way: options.Way,
    workflow: str | None,
    task: str | None,
    arguments: list[str] | None,
    *,
    go_on: bool,
    as_json: bool,
) -> int:
    from mcp_baton.cli.remote.arguments import for_prompt, given
    from mcp_baton.cli.remote.connection import connection
    from mcp_baton.cli.remote.printing import console, print_ran
    from mcp_baton.local.clean_text import print_json

    words = given(arguments or ())
    with connection(way, as_json=as_json) as remote:
        if go_on and not remote.terminal.interactive:
            raise BatonError("--continue asks questions: it needs a terminal and cannot be used with --json")
        task_id = None
        if workflow is None:
            task_id, workflow = remote.workflow_of(task or "")
        prompt = remote.prompt(workflow)
        sent = for_prompt(words, prompt.get("arguments", ()))
        ran = remote.run_asking(workflow, sent, task_id)
        remote.progress.stop()
        continued = go_on and ran.paused
        if continued:
            from mcp_baton.cli.remote.continue_run import Continuation

            ran = Continuation(remote, ran, sent).run()
            remote.progress.stop()
        if as_json:
            print_json(ran.to_json())
            return ran.code
        if not (continued and ran.paused):  # its state is already printed
            print_ran(ran, console())
        if ran.paused:
            _print_next_command(ran, way)
        return ran.code


def _print_next_command(ran: "Ran", way: options.Way) -> None:
    import shlex

    from rich.text import Text

    from mcp_baton.cli.remote.printing import PREFIX, console, plain, still_waits

    if ran.task is None:
        return
    shown, hidden = way.shown_options()
    command = shlex.join(["baton", "resume", way.where or "", ran.task.task_id[:PREFIX], *shown, "--continue"])
    same = f", with the same {' and '.join(hidden)}" if hidden else ""
    after = " after the wait" if still_waits(ran.task) else ""
    text = f"To continue here{after}{same}: {command}"
    if way.is_target:
        text = f"The task ends with this command: serve {way.where} with `baton serve`, or run it with --continue"
    # One line: a command that is broken into two lines cannot be copied.
    console(errors=True).print(Text(plain(text), style="dim"), soft_wrap=True)

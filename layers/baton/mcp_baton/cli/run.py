"""`baton run` and `baton resume`: workflows from a terminal (docs/commands.md)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from mcp_baton.cli.remote import where as options
from mcp_baton.cli.remote.ending import ends

if TYPE_CHECKING:
    from mcp_baton.cli.remote.tools import Ran
    from mcp_baton.cli.remote.where import Connection, Way


@ends
def run(
    where: options.Where,
    workflow: Annotated[str, typer.Argument(metavar="WORKFLOW", help="The workflow's name, or another prompt's.")],
    arguments: options.Arguments = None,
    go_on: options.GoOn = False,
    api_key: options.ApiKey = None,
    token: options.Token = None,
    aws: options.Aws = False,
    header: options.Header = None,
    as_json: options.AsJson = False,
) -> int:
    """Run a workflow, and show its steps and result.

    Steps are named as they begin. Where it pauses, what comes next is printed; --continue does it.

    Exit code 0: completed; 1: failed; 3: paused; 4: the server is not reachable, or does not let you in.
    """
    from mcp_baton.cli.remote.arguments import for_prompt, given
    from mcp_baton.cli.remote.tools import named, run_asking
    from mcp_baton.cli.remote.where import Way, connection

    way, words = Way(where, api_key, token, aws, header), given(arguments or ())
    with connection(way, as_json=as_json) as reached:
        _check_terminal(reached, go_on)
        prompt = named(workflow, reached.remote.pages("prompts/list", "prompts"), "prompt")
        sent = for_prompt(words, prompt.get("arguments", ()))
        ran = run_asking(reached, workflow, sent)
        return _ended(reached, ran, way, sent, go_on=go_on, as_json=as_json)


@ends
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
    """Go on with a paused task.

    The server runs the steps that are left. Secret arguments that are not given again are asked for at a terminal.

    Exit code 0: completed; 1: failed, or over already; 3: paused; 4: not reachable or not allowed.
    """
    from mcp_baton.cli.remote.where import Way

    return _resume(Way(where, api_key, token, aws, header), task or "", arguments or (), go_on=go_on, as_json=as_json)


def _resume(way: "Way", task: str, words: Sequence[str], *, go_on: bool, as_json: bool) -> int:
    from mcp_baton.cli.remote.arguments import for_prompt, given
    from mcp_baton.cli.remote.client import find
    from mcp_baton.cli.remote.ending import Failure
    from mcp_baton.cli.remote.tools import look, named, run_asking
    from mcp_baton.cli.remote.where import connection, refuse_target

    arguments = given(words)
    refuse_target(way)
    with connection(way, as_json=as_json) as reached:
        _check_terminal(reached, go_on)
        state = look(reached.remote, find(reached.remote, task))
        if state.over:
            raise Failure(f"the task {state.task_id} is {state.status}: nothing changes it")
        if state.workflow is None:
            raise Failure(f"the task {state.task_id} is a tool's: it goes on by itself")
        prompt = named(state.workflow, reached.remote.pages("prompts/list", "prompts"), "prompt")
        sent = for_prompt(arguments, prompt.get("arguments", ()))
        ran = run_asking(reached, state.workflow, sent, state.task_id)
        return _ended(reached, ran, way, sent, go_on=go_on, as_json=as_json)


def _check_terminal(reached: "Connection", go_on: bool) -> None:
    from mcp_baton.cli.remote.where import WhereError

    if go_on and not reached.terminal.interactive:
        raise WhereError("--continue asks, so it needs a terminal, and goes without --json")


def _ended(reached: "Connection", ran: "Ran", where: "Way", sent: dict[str, str], *, go_on: bool, as_json: bool) -> int:
    from mcp_baton.cli.remote.printing import console, print_json
    from mcp_baton.cli.remote.reports import print_ran

    reached.progress.stop()
    if go_on and ran.paused:
        from mcp_baton.cli.remote.walking import walk

        ran = walk(reached, ran, sent)
        reached.progress.stop()
        if ran.paused:
            _tell_how_to_go_on(ran, where)
            return ran.code
    if as_json:
        print_json(ran.to_json())
    else:
        print_ran(ran, console())
        if ran.paused:
            _tell_how_to_go_on(ran, where)
    return ran.code


def _tell_how_to_go_on(ran: "Ran", way: "Way") -> None:
    """Say on the standard error which command goes on with a paused task."""
    import shlex

    from rich.text import Text

    from mcp_baton.cli.remote.printing import PREFIX, console, plain

    if ran.task is None:
        return
    options, unsaid = way.shown_options()
    command = shlex.join(["baton", "resume", way.where, ran.task.task_id[:PREFIX], *options, "--continue"])
    gone = f"The task is gone with this command: serve {way.where} with `baton serve`, or run it with --continue"
    same = f", with the same {' and '.join(unsaid)}" if unsaid else ""
    told = gone if way.is_target else f"To go on here{same}: {command}"
    # One line, however long: a command that is cut in two cannot be copied.
    console(errors=True).print(Text(plain(told), style="dim"), soft_wrap=True)

"""`baton new`: a project that depends on Baton as a package (docs/projects.md)."""

import os
import shlex
from pathlib import Path
from typing import Annotated, Final

import typer

REGION: Final = "us-east-1"
"""Suggested where the environment names no region."""


def new(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The project's folder: a new one, or an empty one.")],
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="The project's name; the folder's without the option.")
    ] = None,
    region: Annotated[str | None, typer.Option(metavar="REGION", help="The AWS region to deploy to.")] = None,
    auth: Annotated[
        str | None,
        typer.Option(metavar="API_KEY|IAM|NONE", help="Who may call: holders of a key, of AWS credentials, everybody."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing: take what is not given as suggested.")] = False,
    wheel: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Take Baton from this wheel instead of the package index."),
    ] = None,
    lock: Annotated[bool, typer.Option("--lock/--no-lock", help="Lock the project's packages with uv.")] = True,
) -> int:
    """Make a project: a server, its tests, and its deployment."""
    from importlib.metadata import version

    from mcp_baton.cli.projects import answers, locking, making
    from mcp_baton.cli.projects.making import remember
    from mcp_baton.local.clean_text import echo

    own = version("mcp-baton")
    # What cannot work is said before anything is asked, and what is answered badly before anything is written.
    making.check_folder(folder)
    chosen = answers.checked_name(folder.resolve().name if name is None else name)
    package = answers.checked_wheel(wheel, own) if wheel else None
    if lock:
        locking.check_tools()
    where = answers.checked_region(_answer("AWS region", region, _region(), yes))
    who = answers.checked_auth(_answer("Who may call (API_KEY, IAM, NONE)", auth, "API_KEY", yes))
    making.make(folder, answers.Answers(chosen, where, who, package.name if package else None), own, package)
    try:
        remember(folder)
    except OSError as error:
        echo(f"baton: it could not be noted that the project is yours, so upgrade it with --lock: {error}", err=True)
    if lock:
        making.lock(folder)
    echo(f"{chosen} is made: an MCP server with two tools and a workflow, on mcp-baton {own}.\n")
    for command, meaning in (
        (f"cd {shlex.quote(str(folder))}", ""),
        *(() if lock else (("make lock", "lock its packages"),)),
        ("make test", "run its tests"),
        ("make serve", "serve it at http://127.0.0.1:8000/mcp"),
        ("make deploy", f"deploy it to AWS, in {where}"),
    ):
        echo(f"  {command:<13} {'# ' if meaning else ''}{meaning}".rstrip())
    return 0


def _answer(question: str, given: str | None, suggested: str, yes: bool) -> str:
    """What was given for an option, or else is answered."""
    from mcp_baton.exceptions import BatonError

    if given is not None or yes:
        return suggested if given is None else given
    try:
        return str(typer.prompt(question, default=suggested))
    except typer.Abort as error:
        if os.isatty(0):
            raise
        raise BatonError(f"nobody answers: {question}? Give options, or --yes for what is suggested") from error


def _region() -> str:
    """The region that the environment names, as the AWS CLI reads it."""
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or REGION

"""`baton install`: tell a host of a server (docs/commands.md, Configure a host)."""

from typing import Annotated, Literal

import typer

from mcp_baton.cli import values


def install(
    host: Annotated[
        Literal["claude-code", "claude-desktop", "cursor", "vscode"],
        typer.Argument(metavar="HOST", help="The host to configure."),
    ],
    url: Annotated[str, typer.Argument(parser=values.endpoint, metavar="URL", help="The server: https://…/mcp.")],
    name: Annotated[
        str, typer.Option(parser=values.server_name, metavar="NAME", help="How the host calls the server.")
    ] = "baton",
    header: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'NAME: VALUE'",
            help="A header of every request, several times if need be. As '$VARIABLE', or without a value, the secret "
            "comes from the environment.",
        ),
    ] = None,
    project: Annotated[bool, typer.Option("--project", help="For this folder alone, not for all of yours.")] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Put it in the place of a server with this name and another address.")
    ] = False,
    print_: Annotated[bool, typer.Option("--print", help="Print the configuration, and write nothing.")] = False,
) -> int:
    """Write a server into a host's configuration.

    Whatever else is in there stays as it is, comments included.
    """
    import json
    import os
    import sys
    from pathlib import Path

    from mcp_baton.cli.hosts.configuration import entry, project_file, user_file, write
    from mcp_baton.cli.hosts.configuration import header as read
    from mcp_baton.cli.hosts.jsonc import CannotMerge
    from mcp_baton.local.clean_text import echo, escaped

    made = entry(host, name, url, [read(text, name) for text in header or ()], os.environ)
    file = None if project else user_file(host, sys.platform, Path.home(), os.environ)
    file = file or project_file(host, Path.cwd())
    shown = escaped(json.dumps(made.to_json(), indent=2, ensure_ascii=False))
    if print_:
        typer.echo(shown)
        echo("\n".join((f"It belongs into {file}.", *made.notes)), err=True)
        return 0
    try:
        changed = write(file, made, replace=replace)
    except CannotMerge as error:
        echo(f"baton: {file} was left as it is: {error}. Add this by hand:", err=True)
        typer.echo(shown)
        return 2
    echo("\n".join((f"{file}: {'wrote' if changed else 'nothing changed, it has'} the server {name!r}", *made.notes)))
    return 0

"""`baton install`: add a server to the configuration of a host (docs/commands.md, Configure a host)."""

import json
import os
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Annotated, Any, Final, Literal

import typer

from mcp_baton.cli import options
from mcp_baton.exceptions import BatonError

type HostName = Literal["claude-code", "claude-desktop", "cursor", "vscode"]


@dataclass(frozen=True, slots=True)
class Host:
    """A host and its configuration files.

    Attributes:
        title: Its name in sentences.
        servers: The member of the file that holds the servers.
        project_file: The file for one project; `None` if the host has none.
        user_file: The path of the user's file; `None` if other programs may not write it. `@` is the folder in which
            applications keep their settings.
        reference: How its file refers to an environment variable.
        has_type: Whether an entry names its transport.
    """

    title: str
    servers: str
    project_file: str | None
    user_file: str | None
    reference: str
    has_type: bool = False


HOSTS: Final[dict[HostName, Host]] = {
    "claude-code": Host("Claude Code", "mcpServers", ".mcp.json", None, "${%s}", has_type=True),
    "claude-desktop": Host("Claude Desktop", "mcpServers", None, "@/Claude/claude_desktop_config.json", "${%s}"),
    "cursor": Host("Cursor", "mcpServers", ".cursor/mcp.json", ".cursor/mcp.json", "${env:%s}"),
    "vscode": Host("VS Code", "servers", ".vscode/mcp.json", "@/Code/User/mcp.json", "${input:%s}", has_type=True),
}

MCP_REMOTE: Final = "mcp-remote@0.15.1"
"""A fixed version, so that npx does not run whatever is published next."""


def install(
    host: Annotated[
        Literal["claude-code", "claude-desktop", "cursor", "vscode"],
        typer.Argument(metavar="HOST", help="The host to configure."),
    ],
    url: Annotated[str, typer.Argument(parser=options.endpoint, metavar="URL", help="The server: https://…/mcp.")],
    name: Annotated[
        str, typer.Option(parser=options.server_name, metavar="NAME", help="The server's name in the host.")
    ] = "baton",
    header: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'NAME: VALUE'",
            help="A header of every request; may be repeated. With '$VARIABLE' as the value, or without a value, the "
            "secret comes from the environment.",
        ),
    ] = None,
    project: Annotated[bool, typer.Option("--project", help="Configure this folder only.")] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace a server that has this name and another address.")
    ] = False,
    insecure_http: options.InsecureHttp = False,
    print_: Annotated[bool, typer.Option("--print", help="Print the configuration and write nothing.")] = False,
) -> int:
    """Add a server to a host's configuration.

    Other settings in the file stay. A file with comments is not changed: the command prints the lines to add.
    """
    from mcp_baton.local.clean_text import echo, print_json

    if header:
        options.check_encryption(url, insecure_http=insecure_http)
    configuration = entry(host, name, url, [parse_header(text, name) for text in header or ()])
    file = None if project else user_file(host, sys.platform, Path.home(), os.environ)
    file = file or project_file(host, Path.cwd())
    if print_:
        print_json(configuration.to_json())
        echo("\n".join((f"Add this to {file}.", *configuration.notes)), err=True)
        return 0
    try:
        has_changed = write(file, configuration, replace=replace)
    except CannotMerge as error:
        echo(f"baton: {file} was not changed: {error}. Add this to the file:", err=True)
        print_json(configuration.to_json())
        return 2
    outcome = f"wrote the server {name!r}" if has_changed else f"nothing changed, the server {name!r} is already there"
    echo("\n".join((f"{file}: {outcome}", *configuration.notes)))
    return 0


@dataclass(frozen=True, slots=True)
class Header:
    """A header of every request.

    Attributes:
        name: Its name.
        value: The part that is written to the file: the whole value, or the scheme (`Bearer `) before a secret.
        variable: The environment variable that holds the secret; `None` if the header is not secret.
        secret: The secret, if the command line has it.
    """

    name: str
    value: str
    variable: str | None = None
    secret: str | None = None


def parse_header(text: str, server: str) -> Header:
    """Read the value of `--header`: `NAME: VALUE`, `NAME: $VARIABLE`, or `NAME` for a secret.

    `server` is the server's name, with which the default name of the variable begins.
    """
    match = re.fullmatch(r"\s*([A-Za-z0-9!#$%&'*+.^_`|~-]+)\s*(?::\s*(.*?)\s*)?", text, re.DOTALL)
    if match is None or any(ord(letter) < 0x20 for letter in text):
        raise BatonError(f"--header {text!r}: write 'x-api-key: VALUE', 'x-api-key: $VARIABLE' or 'x-api-key'")
    name, value = match[1], match[2] or ""
    scheme = re.fullmatch(r"(Bearer|Basic)\s+(.*)", value, re.IGNORECASE)
    prefix, credential = (f"{scheme[1]} ", scheme[2]) if scheme else ("", value)
    variable = re.fullmatch(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))", credential)
    if variable:
        return Header(name, prefix, variable[1] or variable[2])
    is_secret = scheme or re.search(r"auth|cookie|credential|key|password|secret|token", name, re.IGNORECASE)
    if credential and not is_secret:
        return Header(name, value)
    return Header(name, prefix, re.sub(r"[^A-Z0-9]+", "_", f"{server}_{name}".upper()), credential or None)


def project_file(host: HostName, folder: Path) -> Path:
    """Return the file that configures a host for one project.

    Raises:
        BatonError: the host has no such file, or a part of its path in the folder is a symbolic link.
    """
    from mcp_baton.cli.project import path_in_project

    path = HOSTS[host].project_file
    if path is None:
        raise BatonError(f"{HOSTS[host].title} has no configuration for a project: omit --project")
    return path_in_project(folder, path)


def user_file(host: HostName, platform: str, home: Path, environment: Mapping[str, str]) -> Path | None:
    """Return the file that configures a host for its user; `None` if other programs may not write it."""
    path = HOSTS[host].user_file
    if path is None:
        return None
    if platform == "darwin":
        applications = home / "Library" / "Application Support"
    elif platform == "win32":
        applications = Path(environment.get("APPDATA") or home / "AppData" / "Roaming")
    else:
        applications = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    return applications / path.removeprefix("@/") if path.startswith("@/") else home / path


@dataclass(frozen=True, slots=True)
class Entry:
    """A server in a host's configuration.

    Attributes:
        host: The host.
        name: The server's name there.
        url: Its address.
        server: Its configuration.
        inputs: The values for which VS Code asks its user.
        notes: Sentences about the steps that the user has to take.
    """

    host: Host
    name: str
    url: str
    server: dict[str, Any]
    inputs: list[dict[str, Any]]
    notes: list[str]

    @property
    def private(self) -> bool:
        return "env" in self.server

    def to_json(self) -> dict[str, Any]:
        """Return a configuration that contains only this server."""
        inputs = {"inputs": self.inputs} if self.inputs else {}
        return {**inputs, self.host.servers: {self.name: self.server}}


def entry(host_name: HostName, name: str, url: str, headers: list[Header]) -> Entry:
    """Return the configuration of a server for a host.

    Raises:
        BatonError: Claude Desktop needs a secret, and neither the command line nor the environment has it.
    """
    host = HOSTS[host_name]
    if host_name == "claude-desktop":
        return _claude_desktop(host, name, url, headers)
    values, inputs, notes = dict[str, str](), list[dict[str, Any]](), list[str]()
    for header in headers:
        values[header.name] = header.value
        if header.variable is None:
            continue
        reference = header.variable
        if host_name == "vscode":
            reference = f"{name}-{header.name}".lower()
            description = f"{header.name} of the server {name}"
            inputs.append({"type": "promptString", "id": reference, "description": description, "password": True})
            notes.append(
                f"VS Code asks for the value of {header.name} when it first starts the server, and stores it elsewhere."
            )
        else:
            notes.append(
                f"Set {reference} to the value of {header.name} in the environment in which you start {host.title}."
            )
        values[header.name] += host.reference % reference
    if host_name == "claude-code":
        command = shlex.join(["claude", "mcp", "add", "--scope", "user", "--transport", "http", name, url])
        for header in headers:
            secret = f"${header.variable}" if header.variable else ""
            command += f' --header "{header.name}: {header.value}{secret}"'
        notes.append("Claude Code asks once whether it may use the servers of this folder; /mcp lists them.")
        notes.append(f"For all folders of yours instead: {command}")
    sent_headers = {"headers": values} if values else {}
    server = {**({"type": "http"} if host.has_type else {}), "url": url, **sent_headers}
    return Entry(host, name, url, server, inputs, notes)


def _claude_desktop(host: Host, name: str, url: str, headers: list[Header]) -> Entry:
    """Its file accepts only programs, so mcp-remote connects to the server: https://www.npmjs.com/package/mcp-remote."""
    server: dict[str, Any] = {"command": "npx", "args": ["-y", MCP_REMOTE, url]}
    notes = ["Quit Claude Desktop and start it again. It runs mcp-remote, which needs Node."]
    for header in headers:
        value = header.value
        if header.variable:
            secret = header.secret or os.environ.get(header.variable)
            if not secret:
                raise BatonError(
                    f"the value of {header.name} is needed: set {header.variable} to it, or write it after the colon"
                )
            server.setdefault("env", {})[header.variable] = value + secret
            value = host.reference % header.variable
        # No blank after the colon: Claude Desktop on Windows breaks arguments at blanks (see the page of mcp-remote).
        server["args"] += ["--header", f"{header.name}:{value}"]
    if "env" in server:
        notes.append("The file now holds the secret: Claude Desktop has no other place for it.")
    notes.append("For a server with OAuth sign-in use Settings, Connectors, Add custom connector instead.")
    return Entry(host, name, url, server, [], notes)


class CannotMerge(Exception):
    """The file cannot be edited without losing something in it. The message gives the reason."""


def merge_entry(text: str, entry: Entry, *, replace: bool) -> str:
    """Return the configuration with the server in it. Other settings of a server with this address stay.

    Raises:
        BatonError: another server has the name.
        CannotMerge: the file has comments, is not JSON, or has another structure.
    """
    document = _parse(text)
    servers = _member(document, entry.host.servers, dict)
    old = servers.get(entry.name)
    if isinstance(old, dict) and entry.url in [old.get("url"), *(old.get("args") or ())]:
        servers[entry.name] = {**old, **entry.server}
    elif old is None or replace:
        servers[entry.name] = entry.server
    else:
        raise BatonError(f"another server has the name {entry.name!r}: use another --name, or --replace")
    if entry.inputs:
        inputs = _member(document, "inputs", list)
        ids = [item.get("id") for item in inputs if isinstance(item, dict)]
        inputs += [value for value in entry.inputs if value["id"] not in ids]
    if document == _parse(text):
        return text
    match = re.search(r'^([ \t]+)"', text, re.MULTILINE)
    return json.dumps(document, indent=match[1] if match else 2, ensure_ascii=False) + "\n"


def _parse(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text.strip("\ufeff \t\r\n") or "{}", object_pairs_hook=_reject_duplicates)
    except (ValueError, RecursionError) as error:
        raise CannotMerge(f"it has comments or is not JSON ({error})") from error
    if not isinstance(document, dict):
        raise CannotMerge("it does not contain a JSON object")
    return document


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("an object has the same key twice")
    return members


def _member[Kind: dict[str, Any] | list[Any]](document: dict[str, Any], name: str, kind: type[Kind]) -> Kind:
    member = document.setdefault(name, kind())
    if not isinstance(member, kind):
        raise CannotMerge(f"{name!r} has an unexpected type")
    return member


_PRIVATE: Final = 0o600


def write(file: Path, entry: Entry, *, replace: bool) -> bool:
    """Write a server into a configuration. Return whether this changed anything.

    An existing file keeps its permissions, unless the entry has a secret: then only the user may read it. A link stays
    a link, and its target is written.
    """
    try:
        target = file.resolve()
        exists = target.exists()
        old = target.read_bytes().decode() if exists else ""
        mode = target.stat().st_mode & 0o777 if exists else None
        new = merge_entry(old, entry, replace=replace)
        if new == old and (mode == _PRIVATE or not entry.private):
            return False
        target.parent.mkdir(parents=True, exist_ok=True)
        _replace(target, new, _PRIVATE if entry.private else mode)
    except BatonError as error:
        raise BatonError(f"{file}: {error}") from error
    except UnicodeDecodeError as error:
        raise BatonError(f"{file} is not UTF-8 and was not changed") from error
    except OSError as error:
        raise BatonError(f"{file} cannot be written: {error.strerror}") from error
    return True


def _replace(target: Path, text: str, mode: int | None) -> None:
    """Replace a file in one step: a reader sees the whole old file or the whole new one.

    `mode` has the permissions; `None` for those that this process gives to its files.
    """
    if mode is None:
        mask = os.umask(0)
        os.umask(mask)
        mode = 0o666 & ~mask
    with NamedTemporaryFile("wb", dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
        part = Path(file.name)
        try:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    # Created with 0600, so that no other user can ever read the secret.
    part.chmod(mode)
    part.replace(target)

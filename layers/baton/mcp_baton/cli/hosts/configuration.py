"""What each host's configuration says of a server (docs/hosts.md, Configuration). Pure."""

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final, Literal

from mcp_baton.cli.hosts.jsonc import appended, parsed, placed
from mcp_baton.cli.projects.record import place
from mcp_baton.exceptions import BatonError
from mcp_baton.protocol.json import Json, JsonObject

_HEADER: Final = re.compile(r"\s*([A-Za-z0-9!#$%&'*+.^_`|~-]+)\s*(?::\s*(.*?)\s*)?", re.DOTALL)
_VARIABLE: Final = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
_SCHEME: Final = re.compile(r"(Bearer|Basic)\s+(.*)", re.IGNORECASE)
_SECRET: Final = re.compile(r"auth|cookie|credential|key|password|secret|token", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Header:
    """A header of every request.

    Attributes:
        name: Its name.
        value: What is written down of it: all of it, or `Bearer ` and the like, before a secret.
        variable: The environment variable that has the secret; `None` where there is none.
        secret: The secret, where it was given.
    """

    name: str
    value: str
    variable: str | None = None
    secret: str | None = None


def header(text: str, server: str) -> Header:
    """What was written for `--header`: `NAME: VALUE`, `NAME: $VARIABLE`, or `NAME` alone for a secret to come.

    Args:
        text: What was written.
        server: The server's name, by which a variable is called where none was named.

    Raises:
        BatonError: it is none of these.
    """
    found = _HEADER.fullmatch(text)
    if found is None or any(ord(letter) < 0x20 for letter in text):
        raise BatonError(f"--header {text!r}: write 'x-api-key: VALUE', 'x-api-key: $VARIABLE' or 'x-api-key'")
    name, value = found[1], found[2] or ""
    scheme = _SCHEME.fullmatch(value)
    before, rest = (f"{scheme[1]} ", scheme[2]) if scheme else ("", value)
    variable = _VARIABLE.fullmatch(rest)
    if variable:
        return Header(name, before, variable[1] or variable[2])
    if rest and not scheme and not _SECRET.search(name):
        return Header(name, value)
    return Header(name, before, re.sub(r"[^A-Z0-9]+", "_", f"{server}_{name}".upper()), rest or None)


def known(header: Header, environment: Mapping[str, str]) -> str:
    """A header's secret, for a host that can only be given it.

    Raises:
        BatonError: nobody has told it.
    """
    found = header.secret or environment.get(header.variable or "")
    if not found:
        raise BatonError(
            f"the value of {header.name} is needed: set {header.variable} to it, or write it after the colon"
        )
    return found


type Host = Literal["claude-code", "claude-desktop", "cursor", "vscode"]

NAMES: Final[dict[Host, str]] = {
    "claude-code": "Claude Code",
    "claude-desktop": "Claude Desktop",
    "cursor": "Cursor",
    "vscode": "VS Code",
}
_IN_PROJECT: Final[dict[Host, str]] = {
    "claude-code": ".mcp.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".vscode/mcp.json",
}


def project_file(host: Host, folder: Path) -> Path:
    """The file that configures a host for one project.

    Raises:
        BatonError: it has none, or a part of its path in the folder is a symbolic link.
    """
    if host not in _IN_PROJECT:
        raise BatonError(f"{NAMES[host]} has no configuration for a project: leave out --project")
    return place(folder, _IN_PROJECT[host])


def user_file(host: Host, platform: str, home: Path, environment: Mapping[str, str]) -> Path | None:
    """The file that configures a host for its user; `None` where it has none that others may write.

    Args:
        host: The host.
        platform: As `sys.platform` says it.
        home: The user's folder.
        environment: Where `APPDATA` and `XDG_CONFIG_HOME` are.
    """
    match host:
        case "claude-code":
            return None
        case "cursor":
            return home / ".cursor" / "mcp.json"
        case "vscode":
            return _applications(platform, home, environment) / "Code" / "User" / "mcp.json"
        case _:
            return _applications(platform, home, environment) / "Claude" / "claude_desktop_config.json"


def _applications(platform: str, home: Path, environment: Mapping[str, str]) -> Path:
    """Where applications keep their settings."""
    if platform == "darwin":
        return home / "Library" / "Application Support"
    if platform == "win32":
        return Path(environment.get("APPDATA") or home / "AppData" / "Roaming")
    return Path(environment.get("XDG_CONFIG_HOME") or home / ".config")


SERVERS: Final[dict[Host, str]] = {
    "claude-code": "mcpServers",
    "claude-desktop": "mcpServers",
    "cursor": "mcpServers",
    "vscode": "servers",
}
"""The member that has the servers, by their names."""

MCP_REMOTE: Final = "mcp-remote@0.15.1"
"""Of one version, so that npx does not run whatever is published next."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A server in a host's configuration.

    Attributes:
        host: The host.
        name: How the server is called there.
        url: Its address.
        server: What the configuration says of it.
        inputs: What VS Code asks its user for.
        notes: What is left to be done, in sentences.
        private: Whether a secret is in it.
    """

    host: Host
    name: str
    url: str
    server: JsonObject
    inputs: tuple[JsonObject, ...] = ()
    notes: tuple[str, ...] = ()
    private: bool = False

    def to_json(self) -> JsonObject:
        """A whole configuration with this server alone."""
        servers: dict[str, Json] = {SERVERS[self.host]: {self.name: self.server}}
        return {"inputs": list(self.inputs), **servers} if self.inputs else servers


def entry(host: Host, name: str, url: str, headers: Sequence[Header], environment: Mapping[str, str]) -> Entry:
    """What a host has to be told of a server.

    Args:
        host: The host.
        name: How the server is to be called there.
        url: Its address.
        headers: What every request to it has.
        environment: Where the secrets are that Claude Desktop is given.

    Raises:
        BatonError: a secret is needed that nobody has told.
    """
    match host:
        case "claude-code":
            sent = _headers(headers, "${%s}")
            return Entry(host, name, url, {"type": "http", "url": url, **sent}, (), _claude_code(name, url, headers))
        case "cursor":
            sent = _headers(headers, "${env:%s}")
            return Entry(host, name, url, {"url": url, **sent}, (), tuple(_to_be_set(host, headers)))
        case "vscode":
            return _vscode(name, url, headers)
        case _:
            return _claude_desktop(name, url, headers, environment)


def _headers(headers: Sequence[Header], reference: str) -> dict[str, Json]:
    written: dict[str, Json] = {
        header.name: header.value + (reference % header.variable if header.variable else "") for header in headers
    }
    return {"headers": written} if written else {}


def _to_be_set(host: Host, headers: Sequence[Header]) -> list[str]:
    return [
        f"Set {header.variable} to the value of {header.name} in the environment that {NAMES[host]} is started from."
        for header in headers
        if header.variable
    ]


def _claude_code(name: str, url: str, headers: Sequence[Header]) -> tuple[str, ...]:
    words = ["claude", "mcp", "add", "--scope", "user", "--transport", "http", name, url]
    command = shlex.join(words)
    for header in headers:
        command += f' --header "{header.name}: {header.value}' + (f'${header.variable}"' if header.variable else '"')
    return (
        *_to_be_set("claude-code", headers),
        "Claude Code asks once whether it may use the servers of this folder; /mcp lists them.",
        f"For all folders of yours instead: {command}",
    )


def _vscode(name: str, url: str, headers: Sequence[Header]) -> Entry:
    inputs: list[JsonObject] = []
    sent: dict[str, Json] = {}
    for header in headers:
        sent[header.name] = header.value
        if header.variable:
            asked = f"{name}-{header.name}".lower()
            description = f"{header.name} of the server {name}"
            inputs.append({"type": "promptString", "id": asked, "description": description, "password": True})
            sent[header.name] = f"{header.value}${{input:{asked}}}"
    server: dict[str, Json] = {"type": "http", "url": url}
    notes = tuple(
        f"VS Code asks for the value of {header.name} when it first starts the server, and keeps it elsewhere."
        for header in headers
        if header.variable
    )
    return Entry("vscode", name, url, server | ({"headers": sent} if sent else {}), tuple(inputs), notes)


def _claude_desktop(name: str, url: str, headers: Sequence[Header], environment: Mapping[str, str]) -> Entry:
    """Its file takes programs alone, so mcp-remote stands between: https://www.npmjs.com/package/mcp-remote."""
    arguments: list[Json] = ["-y", MCP_REMOTE, url]
    secrets: dict[str, Json] = {}
    for header in headers:
        # No blank after the colon: Claude Desktop on Windows breaks arguments at blanks, says mcp-remote's page.
        value = header.value
        if header.variable:
            secrets[header.variable] = header.value + known(header, environment)
            value = f"${{{header.variable}}}"
        arguments += ["--header", f"{header.name}:{value}"]
    server: dict[str, Json] = {"command": "npx", "args": arguments}
    notes = ["Quit Claude Desktop and start it again. It runs mcp-remote, which needs Node."]
    if secrets:
        server["env"] = secrets
        notes.append("The file now holds the secret: Claude Desktop has no other place for it.")
    notes.append("For a server with OAuth sign-in use Settings, Connectors, Add custom connector instead.")
    return Entry("claude-desktop", name, url, server, (), tuple(notes), bool(secrets))


class Taken(BatonError):
    """Another server has the name already."""


def merged(text: str, entry: Entry, *, replace: bool = False) -> str:
    """The configuration in which the server is there. What else is said of a server with this address stays.

    Args:
        text: The configuration; an empty one counts as `{}`.
        entry: The server.
        replace: Whether it may take the place of a server of the same name with another address.

    Raises:
        Taken: the name is another server's.
        CannotMerge: something would be lost.
    """
    text = text if text.strip("\ufeff \t\r\n") else "{}\n"
    servers = _member(parsed(text).value, SERVERS[entry.host])
    there = _member(servers, entry.name)
    if there is not None and entry.url not in _addresses(there) and not replace:
        raise Taken(f"there is another server of the name {entry.name!r}: take another --name, or --replace it")
    wanted: dict[str, Json] = dict(entry.server)
    if isinstance(there, Mapping) and entry.url in _addresses(there):
        wanted = {**there, **entry.server}
    if wanted != there:
        text = placed(text, (SERVERS[entry.host], entry.name), wanted)
    for asked in entry.inputs:
        inputs = _member(parsed(text).value, "inputs")
        ids = [_member(item, "id") for item in inputs] if isinstance(inputs, list) else []
        if asked["id"] not in ids:
            text = appended(text, ("inputs",), asked)
    return text


def _member(value: Json, name: str) -> Json:
    return value.get(name) if isinstance(value, Mapping) else None


def _addresses(server: Json) -> list[Json]:
    """Where a server is: by itself, or as an argument of the program between."""
    arguments = _member(server, "args")
    return [_member(server, "url"), *(arguments if isinstance(arguments, list) else [])]


_PRIVATE: Final = 0o600


def write(file: Path, entry: Entry, *, replace: bool = False) -> bool:
    """Put a server into a configuration; whether that changed anything.

    An existing file keeps its permissions, unless the entry has a secret: then only its user may read it. A link stays
    a link, and the file that it leads to is written.

    Raises:
        CannotMerge: something in the file would be lost.
        BatonError: the name is taken, or the file cannot be read or written.
    """
    try:
        target = file.resolve()
        old = target.read_bytes().decode() if target.exists() else ""
        new = merged(old, entry, replace=replace)
        if new == old and not (entry.private and target.stat().st_mode & 0o777 != _PRIVATE):
            return False
        target.parent.mkdir(parents=True, exist_ok=True)
        _replace(target, new, private=entry.private)
    except Taken as error:
        raise BatonError(f"{file}: {error}") from error
    except UnicodeDecodeError as error:
        raise BatonError(f"{file} is not UTF-8, so it was left as it is") from error
    except OSError as error:
        raise BatonError(f"{file} cannot be written: {error.strerror}") from error
    return True


def _replace(target: Path, text: str, *, private: bool) -> None:
    """Put a file in the place of another in one step: who reads it has either, whole."""
    mode = _PRIVATE if private else target.stat().st_mode & 0o777 if target.exists() else _usual()
    with NamedTemporaryFile("wb", dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
        part = Path(file.name)
        try:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    # Created with 0600, so that the secret is never readable for others.
    part.chmod(mode)
    part.replace(target)


def _usual() -> int:
    """The permissions that this process's files have."""
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask

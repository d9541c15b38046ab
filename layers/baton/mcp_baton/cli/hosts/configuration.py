"""What each host's configuration says of a server (docs/hosts.md, Configuration). Pure."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mcp_baton.cli.hosts.headers import Header, known
from mcp_baton.cli.hosts.places import NAMES, Host
from mcp_baton.protocol.json import Json, JsonObject

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

"""A host's configuration with one more server in it. Pure."""

from collections.abc import Mapping

from mcp_baton.cli.hosts.configuration import SERVERS, Entry
from mcp_baton.cli.hosts.jsonc import appended, parsed, placed
from mcp_baton.exceptions import BatonError
from mcp_baton.protocol.json import Json


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

"""Headers that a host sends, and where it has their values from. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mcp_baton.exceptions import BatonError

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

"""Profiles: servers by name, and how to be let in (docs/commands.md, Where: URLs, files and profiles)."""

import difflib
import os
import shlex
import subprocess
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from mcp_baton.exceptions import BatonError

FILE_VARIABLE: Final = "BATON_PROFILES"
COMMAND_S: Final = 60.0
"""How long a command may take that prints a secret, seconds."""

_TEXTS: Final = ("url", "region", "aws_profile", "service")
_SECRETS: Final = ("api_key", "token")
_KNOWN: Final = (*_TEXTS, *_SECRETS, "auth", "headers")


class ProfileError(BatonError):
    """A profile that cannot be used; names the field and the remedy. Never says a secret."""


@dataclass(frozen=True, slots=True)
class Access:
    """How a server is reached.

    Attributes:
        url: Its endpoint.
        api_key: Sent as `x-api-key`.
        token: Sent as `Authorization: Bearer`.
        aws: Whether requests are signed with AWS credentials.
        region: The region to sign for; `None` for the one in the URL, or AWS's configuration's.
        aws_profile: The profile of AWS's configuration; `None` for the one that AWS's tools would take.
        service: The service to sign for; `None` for Lambda at a function's URL, else API Gateway (`execute-api`).
        headers: Further headers.
    """

    url: str
    api_key: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    aws: bool = False
    region: str | None = None
    aws_profile: str | None = None
    service: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


def profiles_file(environment: Mapping[str, str] = os.environ) -> Path:
    """Where the profiles are: `BATON_PROFILES`, else `baton/profiles.toml` in the user's configuration
    (https://specifications.freedesktop.org/basedir-spec/latest/)."""
    if environment.get(FILE_VARIABLE):
        return Path(environment[FILE_VARIABLE]).expanduser()
    home = environment.get("XDG_CONFIG_HOME", "")
    base = Path(home) if Path(home).is_absolute() else Path.home() / ".config"
    return base / "baton" / "profiles.toml"


def profile(name: str, file: Path) -> Access:
    """The profile of this name.

    Raises:
        ProfileError: there is none, or a field of it cannot be used.
    """
    found = _profiles(file)
    if name not in found:
        near = difflib.get_close_matches(name, found, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ProfileError(
            f"{name!r} is no profile in {file}{hint}. WHERE is a URL (https://…/mcp), a file or module with a Server "
            "(app.py, package.module:server), or a profile's name"
        )
    return _access(name, found[name], file)


def _profiles(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as opened:
            found, status = tomllib.load(opened), os.fstat(opened.fileno())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        # Of a broken line tomllib says the place, never the text.
        raise ProfileError(f"{file} cannot be read: {error}") from error
    if _runs_a_command(found) and _is_others(status):
        raise ProfileError(
            f"{file} has a command, and others can write it: chmod go-w {shlex.quote(str(file))}, and let it be yours"
        )
    return found


def _runs_a_command(profiles: Mapping[str, Any]) -> bool:
    tables = [table for table in profiles.values() if isinstance(table, Mapping)]
    return any(isinstance(table.get(key), Mapping) for table in tables for key in _SECRETS)


def _is_others(status: os.stat_result) -> bool:
    """Whether somebody else than this user and root may write a file. Windows keeps no such mode."""
    if not hasattr(os, "getuid"):
        return False
    return bool(status.st_mode & 0o022) or status.st_uid not in (os.getuid(), 0)


def _access(name: str, told: Any, file: Path) -> Access:
    place = f"{file}: profile {name!r}"
    if not isinstance(told, Mapping):
        raise ProfileError(f"{place} is not a table: write [{name}], and its fields below")
    for key in told:
        if key not in _KNOWN:
            near = difflib.get_close_matches(key, _KNOWN, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(_KNOWN)}"
            raise ProfileError(f"{place} has an unknown field {key!r}: {hint}")
    for key in _TEXTS:
        if key in told and not isinstance(told[key], str):
            raise ProfileError(f"{place}: {key!r} must be a text")
    if "://" not in told.get("url", ""):
        raise ProfileError(f"{place}: 'url' must be the server's URL, such as https://…/mcp")
    if told.get("auth", "aws") != "aws":
        raise ProfileError(f"{place}: 'auth' is \"aws\" or left out")
    headers = told.get("headers", {})
    if not isinstance(headers, Mapping) or not all(isinstance(value, str) for value in headers.values()):
        raise ProfileError(f"{place}: 'headers' must be a table of texts")
    texts = {key: told[key] for key in _TEXTS if key in told}
    secrets = {key: secret(told[key], f"{place}: {key!r}") for key in _SECRETS if key in told}
    return Access(**texts, **secrets, aws="auth" in told, headers=dict(headers))


def secret(told: Any, place: str) -> str:
    """A secret's value: the text itself, `env:NAME` for a variable's, or `{command = "…"}` for what a command prints.

    Raises:
        ProfileError: it cannot be had.
    """
    match told:
        case str() if told.startswith("env:"):
            variable = told.removeprefix("env:")
            if not os.environ.get(variable):
                raise ProfileError(f"{place} is taken from the variable {variable}, which is not set")
            return os.environ[variable]
        case str() if told:
            return told
        case {"command": str() | list() as command, **rest} if not rest:
            return _printed(
                shlex.split(command) if isinstance(command, str) else [str(word) for word in command], place
            )
        case _:
            raise ProfileError(f'{place} must be a text, "env:NAME", or {{command = "…"}}')


def _printed(command: list[str], place: str) -> str:
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=COMMAND_S)  # noqa: S603
    except (OSError, ValueError, IndexError, subprocess.SubprocessError) as error:
        name = command[0] if command else ""
        # The exception's own text may have what was printed.
        raise ProfileError(f"{place}: the command {name!r} failed ({type(error).__name__})") from None
    if not done.stdout.strip():
        raise ProfileError(f"{place}: the command {command[0]!r} printed nothing")
    return done.stdout.strip()

"""Profiles: names for servers with their credentials (docs/commands.md, Where: URLs, files and profiles)."""

import os
import shlex
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, override

from msgspec import Struct, ValidationError, convert

from mcp_baton.exceptions import BatonError
from mcp_baton.hints import did_you_mean

FILE_VARIABLE: Final = "BATON_PROFILES"
COMMAND_S: Final = 60.0
"""The time limit of a command that prints a secret, seconds."""

_SECRETS: Final = ("api_key", "token")


class Access(Struct, frozen=True, forbid_unknown_fields=True):
    """The URL and the credentials for a server: the fields of a profile, with the values of its secrets.

    Attributes:
        api_key: Sent as `x-api-key`.
        token: Sent as `Authorization: Bearer`.
        auth: `aws` if requests are signed with AWS credentials.
        region: The region of the signature; `None` for the one in the URL or in the AWS configuration.
        service: The service of the signature; `None` for Lambda at a function URL, else API Gateway (`execute-api`).
        insecure_http: Whether credentials may be sent to another machine over HTTP without TLS.
    """

    url: str
    api_key: str | None = None
    token: str | None = None
    auth: Literal["aws"] | None = None
    region: str | None = None
    aws_profile: str | None = None
    service: str | None = None
    headers: dict[str, str] = {}
    insecure_http: bool = False

    @override
    def __repr__(self) -> str:
        """Return a text without secrets."""
        return f"Access({self.url!r})"


def profiles_file(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the file with the profiles: `BATON_PROFILES`, else `baton/profiles.toml` in the user's configuration
    (https://specifications.freedesktop.org/basedir-spec/latest/)."""
    if environment.get(FILE_VARIABLE):
        return Path(environment[FILE_VARIABLE]).expanduser()
    home = environment.get("XDG_CONFIG_HOME", "")
    base = Path(home) if Path(home).is_absolute() else Path.home() / ".config"
    return base / "baton" / "profiles.toml"


def profile(name: str, file: Path) -> Access:
    profiles = _profiles(file)
    if name not in profiles:
        raise BatonError(
            f"{name!r} is not a profile in {file}{did_you_mean(name, profiles)}. WHERE is a URL (https://…/mcp), a "
            "file or module with a Server (app.py, package.module:server), or a profile's name"
        )
    place, fields = f"{file}: profile {name!r}", profiles[name]
    if not isinstance(fields, Mapping):
        raise BatonError(f"{place} is not a table: write [{name}] and its fields below")
    if "://" not in str(fields.get("url", "")):
        raise BatonError(f"{place}: 'url' must be the server's URL, such as https://…/mcp")
    secrets = {key: secret(fields[key], f"{place}: {key!r}") for key in _SECRETS if key in fields}
    try:
        return convert({**fields, **secrets}, Access)
    except ValidationError as error:
        names = ", ".join(Access.__struct_fields__)
        raise BatonError(f"{place}: {error}. The fields are {names}") from error


def _profiles(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            profiles, status = tomllib.load(stream), os.fstat(stream.fileno())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        # The message of tomllib has the place of the error, never the text, which may be a secret.
        raise BatonError(f"{file} cannot be read: {error}") from error
    if _runs_a_command(profiles) and _others_can_write(status):
        raise BatonError(
            f"{file} has a command, and others can write it: run chmod go-w {shlex.quote(str(file))}, and own the file"
        )
    return profiles


def _runs_a_command(profiles: Mapping[str, Any]) -> bool:
    tables = [table for table in profiles.values() if isinstance(table, Mapping)]
    return any(isinstance(table.get(key), Mapping) for table in tables for key in _SECRETS)


def _others_can_write(status: os.stat_result) -> bool:
    """Whether users other than this one and root may write a file. Windows has no such mode."""
    if not hasattr(os, "getuid"):
        return False
    return bool(status.st_mode & 0o022) or status.st_uid not in (os.getuid(), 0)


def secret(value: Any, place: str) -> str:
    """Return a secret: the text itself, the variable of `env:NAME`, or the output of `{command = "…"}`."""
    match value:
        case str() if value.startswith("env:"):
            variable = value.removeprefix("env:")
            if not os.environ.get(variable):
                raise BatonError(f"{place} comes from the variable {variable}, which is not set")
            return os.environ[variable]
        case str() if value:
            return value
        case {"command": str() | list() as command, **rest} if not rest:
            return _output_of(
                shlex.split(command) if isinstance(command, str) else [str(word) for word in command], place
            )
        case _:
            raise BatonError(f'{place} must be a string, "env:NAME", or {{command = "…"}}')


def _output_of(command: list[str], place: str) -> str:
    try:
        process = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=COMMAND_S)  # noqa: S603
    except (OSError, ValueError, IndexError, subprocess.SubprocessError) as error:
        name = command[0] if command else ""
        # The exception's text may contain the output.
        raise BatonError(f"{place}: the command {name!r} failed ({type(error).__name__})") from None
    if not process.stdout.strip():
        raise BatonError(f"{place}: the command {command[0]!r} printed nothing")
    return process.stdout.strip()

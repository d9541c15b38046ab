"""What a project is made of besides the template: its name, its region, who may call, where Baton comes from."""

import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Final

from mcp_baton.exceptions import BatonError

AUTHS: Final = ("API_KEY", "IAM", "NONE")
"""Who may call, of those values of the template's parameter Auth that need no other parameter."""
NAME: Final = re.compile(r"[a-z](?:[a-z0-9]|-(?=[a-z0-9])){1,39}")
"""What is a package's name (PEP 508) and a CloudFormation stack's, and leaves room for what is appended to it."""
REGION: Final = re.compile(r"[a-z]{2}(-[a-z]+)+-[0-9]")


@dataclass(frozen=True, slots=True)
class Answers:
    """What a project's maker chose.

    Attributes:
        name: The package's and the stack's.
        region: The AWS region that it is deployed to.
        auth: Who may call: one of `AUTHS`.
        wheel: The file name of the wheel in `layers/baton/` that Baton comes from; none for the package index.
    """

    name: str
    region: str
    auth: str
    wheel: str | None = None


def checked_name(name: str) -> str:
    """A project's name.

    Raises:
        BatonError: it cannot be one.
    """
    if not NAME.fullmatch(name):
        raise BatonError(
            f"{name!r} cannot be a project's name: use 2 to 40 of a-z 0-9 -, a letter first, no '-' last and no two of "
            "them together. --name gives a project another name than its folder's"
        )
    if name in _packages():
        raise BatonError(f"{name!r} is a package that the project depends on: choose another name with --name")
    return name


def checked_region(region: str) -> str:
    """An AWS region's name.

    Raises:
        BatonError: it is not formed like one.
    """
    if not REGION.fullmatch(region):
        raise BatonError(f"{region!r} is not the name of an AWS region, such as eu-central-1: give one with --region")
    return region


def checked_auth(auth: str) -> str:
    """Who may call, in capital letters.

    Raises:
        BatonError: it is not one of `AUTHS`.
    """
    if auth.upper() not in AUTHS:
        raise BatonError(
            f"{auth!r} does not say who may call: use {', '.join(AUTHS)} with --auth. COGNITO and JWT need parameters "
            "of their own: make the project with another one, and then see docs/deploying.md"
        )
    return auth.upper()


def checked_wheel(wheel: Path, version: str) -> Path:
    """A wheel of this very version of Baton.

    Raises:
        BatonError: there is no such file, or it is another package or version.
    """
    if not wheel.is_file():
        raise BatonError(
            f"there is no file {wheel}: --wheel takes a wheel of mcp-baton, as `uv build --wheel` makes it"
        )
    if not re.fullmatch(rf"mcp_baton-{re.escape(version)}-\S+\.whl", wheel.name):
        raise BatonError(
            f"{wheel.name} is not a wheel of mcp-baton {version}, which this command is of: "
            f"run the command of that wheel with `uvx --from {wheel} baton`"
        )
    return wheel


def _packages() -> set[str]:
    """The packages that a new project depends on."""
    try:
        lines = requires("mcp-baton") or []
    except PackageNotFoundError:
        lines = []
    return {"mcp-baton", "pytest"} | {re.split(r"[^A-Za-z0-9_.-]", line)[0].lower() for line in lines}

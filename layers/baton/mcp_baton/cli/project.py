"""A project that `baton new` made: its settings, its record in the folder `.baton`, and its lock (docs/projects.md).

The record contains each file as it was generated, so that an upgrade can distinguish the template's changes from those
of the user.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import requires
from pathlib import Path, PurePosixPath
from typing import Any, Final

from mcp_baton.cli.aws_region import REGION
from mcp_baton.exceptions import BatonError

AUTHS: Final = ("API_KEY", "IAM", "NONE")
"""The values of the template's parameter Auth that need no other parameter."""


@dataclass(frozen=True, slots=True)
class Answers:
    """The settings of a project. `wheel` is a file name in `layers/baton/`; `None` for the package index."""

    name: str
    region: str
    auth: str
    wheel: str | None = None


def checked_name(name: str) -> str:
    """Return a name that is valid for a package (PEP 508) and for a CloudFormation stack with a suffix."""
    if not re.fullmatch(r"[a-z](?:[a-z0-9]|-(?=[a-z0-9])){1,39}", name):
        raise BatonError(
            f"{name!r} is not a valid project name: use 2 to 40 of a-z 0-9 -, begin with a letter, and do not end with "
            "'-' or repeat it. --name sets a name that differs from the folder's"
        )
    dependencies = {re.split(r"[^A-Za-z0-9_.-]", line)[0].lower() for line in requires("mcp-baton") or []}
    if name in {"mcp-baton", "pytest", *dependencies}:
        raise BatonError(f"{name!r} is a package that the project depends on: use another name with --name")
    return name


def checked_region(region: str) -> str:
    if not re.fullmatch(REGION, region):
        raise BatonError(f"{region!r} is not the name of an AWS region, such as eu-central-1: use --region")
    return region


def checked_auth(auth: str) -> str:
    """Return the value in capital letters."""
    if auth.upper() not in AUTHS:
        raise BatonError(
            f"{auth!r} is not a value of --auth: use {', '.join(AUTHS)}. COGNITO and JWT need more parameters: create "
            "the project with another value, and then see docs/deploying.md"
        )
    return auth.upper()


def checked_wheel(wheel: Path, version: str) -> Path:
    if not wheel.is_file():
        raise BatonError(f"there is no file {wheel}: --wheel needs a wheel of mcp-baton, from `uv build --wheel`")
    if not re.fullmatch(rf"mcp_baton-{re.escape(version)}-\S+\.whl", wheel.name):
        raise BatonError(
            f"{wheel.name} is not a wheel of mcp-baton {version}, the version of this command: "
            f"use the command of that wheel, `uvx --from {wheel} baton`"
        )
    return wheel


FOLDER: Final = ".baton"
ABOUT: Final = "project.json"
BASE: Final = "generated"
BASE_SUFFIX: Final = ".base"
"""The suffix of the recorded files, so that no tool takes them for files of the project."""


@dataclass(frozen=True, slots=True)
class Record:
    """The record of the last `baton new` or `baton upgrade`.

    `base` has the files that upgrades update, as they were generated, by path with `/`.
    """

    version: str
    answers: Answers
    base: Mapping[str, bytes]


def is_project(project: Path) -> bool:
    return path_in_project(project, f"{FOLDER}/{ABOUT}").is_file()


def path_in_project(project: Path, path: str) -> Path:
    """Return the location of a file, whose path in the project is written with `/`.

    Raises:
        BatonError: a part of the path is a symbolic link, or the path leads out of the project.
    """
    file = project
    for part in PurePosixPath(path).parts:
        file /= part
        if part in {"..", "/"}:
            raise BatonError(f"{path} is not a path inside the project")
        if file.is_symlink():
            raise BatonError(
                f"{file} is a symbolic link. This command does not read, write or remove files of a project through "
                "links: replace the link by its target, or delete it"
            )
    return file


def read_record(project: Path) -> Record:
    file = project / FOLDER / ABOUT
    if not is_project(project):
        raise BatonError(
            f"{project} is not a project that `baton new` made: there is no {file}. Name the project's folder. If "
            f"{FOLDER}/ was deleted, restore it from version control"
        )
    try:
        version, answers = _parse_about(json.loads(file.read_bytes()))
    except (ValueError, KeyError, TypeError) as error:
        raise BatonError(f"{file} cannot be read ({error}): restore it from version control") from error
    folder = path_in_project(project, f"{FOLDER}/{BASE}")
    paths = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob(f"*{BASE_SUFFIX}"))]
    return Record(
        version, answers, {path.removesuffix(BASE_SUFFIX): path_in_project(folder, path).read_bytes() for path in paths}
    )


def _parse_about(document: Mapping[str, Any]) -> tuple[str, Answers]:
    version, wheel = str(document["version"]), document["wheel"]
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)*\S*", version):
        raise ValueError(f"{version!r} is not a version")
    if wheel is not None and not re.fullmatch(r"mcp_baton-[A-Za-z0-9_.+-]+\.whl", wheel):
        raise ValueError(f"{wheel!r} is not the name of a wheel")
    name, region, auth = document["name"], document["region"], document["auth"]
    return version, Answers(checked_name(name), checked_region(region), checked_auth(auth), wheel)


def write_record(project: Path, record: Record) -> None:
    """Replace the record of a project. The version is written last."""
    document = {"version": record.version, **asdict(record.answers)}
    shutil.rmtree(path_in_project(project, f"{FOLDER}/{BASE}"), ignore_errors=True)
    for path, content in record.base.items():
        write_file(project, f"{FOLDER}/{BASE}/{path}{BASE_SUFFIX}", content)
    write_file(project, f"{FOLDER}/{ABOUT}", (json.dumps(document, indent=2) + "\n").encode())


def write_file(project: Path, path: str, content: bytes) -> None:
    file = path_in_project(project, path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


def check_tools() -> None:
    if not shutil.which(_uv()):
        raise BatonError(
            "uv, which locks the project's packages, is missing: install it "
            "(https://docs.astral.sh/uv/getting-started/installation/) or use --no-lock"
        )
    if not shutil.which("make"):
        raise BatonError("make, which locks and builds the project, is missing: install it or use --no-lock")


def lock(project: Path, *options: str) -> None:
    """Run the project's `make lock`, which locks its packages and writes the layer's `requirements.txt`."""
    check_tools()
    # These describe the process that called this one, and must not reach the project's make.
    prefixes = ("MAKE", "MFLAGS", "ARGS", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}
    process = subprocess.run(  # noqa: S603 - a fixed list of words; no shell
        ["make", "--silent", "lock", f"ARGS={' '.join(options)}"],  # noqa: S607 - the user's own make
        cwd=project,
        env={**environment, "UV": _uv()},
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode:
        hint = ". If mcp-baton is not in the package index, use --wheel FILE" if "mcp-baton" in process.stderr else ""
        raise BatonError(
            f"the files are written, but their packages are not locked. uv says:\n{process.stderr.strip()}\n"
            f"Correct this, then run `make lock` in {project}{hint}"
        )


def _uv() -> str:
    """Return the command of uv: the one that runs this process, if there is one."""
    return os.environ.get("UV") or "uv"

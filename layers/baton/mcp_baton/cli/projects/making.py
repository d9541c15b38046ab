"""A new project: its files, its record, its lock."""

import json
import os
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from mcp_baton.cli.projects import locking, record
from mcp_baton.cli.projects.answers import Answers
from mcp_baton.exceptions import BatonError

IN_WHEEL: Final = Path(__file__).with_name("files")
CHECKOUT: Final = Path(__file__).parents[5]

AUTHORIZER: Final = tuple(
    f"functions/authorizer/{name}"
    for name in ("Makefile", "authorizer.py", "function.py", "issuer.py", "requirements.txt", "tokens.py")
)
SOURCES: Final = {
    **{path: path for path in AUTHORIZER},
    **{
        path: path
        for path in (
            "functions/mcp/app.py",
            "layers/baton/Makefile",
            "layers/baton/slim.py",
            ".gitattributes",
            ".python-version",
            "sam-local.json",
            "samconfig.toml",
            "template.yaml",
        )
    },
    "functions/authorizer/.python-version": ".python-version",
    "functions/mcp/.python-version": ".python-version",
    "layers/baton/.python-version": ".python-version",
    # The two functions are built in the same way.
    "functions/mcp/Makefile": "functions/authorizer/Makefile",
    ".github/workflows/test.yml": "project/github/workflows/test.yml",
    ".gitignore": "project/gitignore",
    "Makefile": "project/Makefile",
    "README.md": "project/README.md",
    "pyproject.toml": "project/pyproject.toml",
    "tests/test_app.py": "project/tests/test_app.py",
}
"""Where each file of a project comes from: its path in Baton's repository, by its path in the project."""

GIVEN_ONCE: Final = frozenset({"README.md", "functions/mcp/app.py", "tests/test_app.py"})
"""Files to begin with, the user's own from then on: no upgrade looks at them."""

WHEEL_SOURCE: Final = """
# Baton comes from a file. `baton upgrade --wheel FILE` brings another, `--wheel none` takes it from the package index.
[tool.uv.sources]
mcp-baton = {{ path = "layers/baton/{wheel}" }}
"""


class ChangedSource(Exception):
    """A file of the repository lacks a text that a project has its own in the place of: a mistake of Baton's."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """A text that stands in a file once, and what a project has in its place.

    Attributes:
        old: The text.
        new: What takes its place.
        always: Whether it has to stand there. A fork's server may have another name than the one that Baton has.
    """

    old: str
    new: str
    always: bool = True


def generated(answers: Answers, version: str) -> dict[str, bytes]:
    """The files of a project, by path with `/` between its parts.

    Args:
        answers: What its maker chose.
        version: The version of Baton that it is made with, and needs at least.
    """
    files = {path: source(origin) for path, origin in SOURCES.items()}
    for path, replacements in _replacements(answers, version).items():
        files[path] = _replaced(path, files[path], replacements)
    if answers.wheel:
        files["pyproject.toml"] += WHEEL_SOURCE.format(wheel=answers.wheel).encode()
    return files


def kept_up(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Those of a project's files that upgrades bring up to date."""
    return {path: content for path, content in files.items() if path not in GIVEN_ONCE}


def source(origin: str) -> bytes:
    """A file by its path in Baton's repository."""
    root = IN_WHEEL if IN_WHEEL.is_dir() else CHECKOUT
    return root.joinpath(*PurePosixPath(origin).parts).read_bytes()


def _replacements(answers: Answers, version: str) -> dict[str, list[Replacement]]:
    """What each project has of its own in a file."""
    region = f'region = "{answers.region}"\n'
    # A stage for production lets not everybody in because a first try did.
    production = "IAM" if answers.auth == "NONE" else answers.auth
    return {
        "functions/mcp/app.py": [Replacement('Server("library"', f'Server("{answers.name}"', always=False)],
        "pyproject.toml": [Replacement("project-name", answers.name), Replacement(">=0.0.0", f">={version}")],
        "README.md": [
            Replacement("@NAME@", answers.name),
            Replacement("@VERSION@", version),
            Replacement("@AUTH@", answers.auth),
        ],
        "samconfig.toml": [
            Replacement(" `baton new` writes the\n# stacks' names, their region and Auth here.\n", "\n"),
            Replacement('stack_name = "baton"\n', f'stack_name = "{answers.name}"\n{region}'),
            Replacement('stack_name = "baton-production"\n', f'stack_name = "{answers.name}-production"\n{region}'),
            Replacement('["Auth=API_KEY"', f'["Auth={answers.auth}"'),
            Replacement('  "Auth=IAM",', f'  "Auth={production}",'),
        ],
    }


def _replaced(path: str, content: bytes, replacements: list[Replacement]) -> bytes:
    text = content.decode()
    for each in replacements:
        if each.always and text.count(each.old) != 1:
            raise ChangedSource(f"{path} has {each.old!r} {text.count(each.old)} times")
        text = text.replace(each.old, each.new)
    return text.encode()


WHEELS: Final = "layers/baton"


def check_folder(project: Path) -> None:
    """See that a project can be made in this folder: there is none, or it is empty but for version control.

    Raises:
        BatonError: there is something in it.
    """
    if record.is_project(project):
        raise BatonError(
            f"{project} is a project already: `baton upgrade {shlex.quote(str(project))}` brings it up to date"
        )
    if project.exists() and not project.is_dir():
        raise BatonError(f"{project} is a file: name a folder for the project")
    if project.is_dir() and any(path.name != ".git" for path in project.iterdir()):
        raise BatonError(f"{project} is not empty: name a new folder, or an empty one")


def make(project: Path, answers: Answers, version: str, wheel: Path | None = None) -> None:
    """Write a new project.

    Args:
        project: Its folder, which need not exist.
        answers: What its maker chose.
        version: The version of Baton that makes it.
        wheel: The wheel that Baton comes from, instead of the package index.

    Raises:
        BatonError: the folder is not empty, or cannot be written.
    """
    check_folder(project)
    files = generated(answers, version)
    try:
        for path, content in files.items():
            record.write_file(project, path, content)
        record.write(project, record.Record(version, answers, kept_up(files)))
        if wheel:
            shutil.copyfile(wheel, record.place(project, f"{WHEELS}/{wheel.name}"))
    except OSError as error:
        raise BatonError(f"the project cannot be written: {error}") from error


def lock(project: Path) -> None:
    """Lock a new project.

    Raises:
        NotLocked: it cannot be; the files stay.
    """
    try:
        locking.lock(project)
    except locking.NotLocked as error:
        if "mcp-baton" not in str(error):
            raise
        raise locking.NotLocked(
            f"{error}. Where mcp-baton is not in the package index, make the project with --wheel FILE"
        ) from error


def list_file(environment: Mapping[str, str] = os.environ) -> Path:
    """The file with the projects' folders, one JSON string a line: `baton/projects` in the user's state
    (https://specifications.freedesktop.org/basedir-spec/latest/)."""
    home = environment.get("XDG_STATE_HOME", "")
    base = Path(home) if Path(home).is_absolute() else Path.home() / ".local" / "state"
    return base / "baton" / "projects"


def remember(project: Path) -> None:
    """Note that the user made this project.

    Raises:
        OSError: the list cannot be written.
    """
    file = list_file()
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with file.open("a", encoding="utf-8") as lines:
        lines.write(f"{_line(project)}\n")


def is_own(project: Path) -> bool:
    """Whether the user made this project on this machine, and still owns its folder."""
    if hasattr(os, "getuid") and project.stat().st_uid != os.getuid():
        return False
    try:
        return _line(project) in list_file().read_text(encoding="utf-8").splitlines()
    except OSError:
        return False


def _line(project: Path) -> str:
    return json.dumps(str(project.resolve()))

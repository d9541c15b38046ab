"""`baton new`: a project that depends on Baton as a package (docs/projects.md)."""

import json
import os
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Final

import typer

from mcp_baton.cli import project as projects
from mcp_baton.cli.project import Answers, NotLocked
from mcp_baton.exceptions import BatonError

DEFAULT_REGION: Final = "us-east-1"
"""Suggested if the environment names no region."""


def new(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The project's folder: a new or an empty one.")],
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="The project's name. Default: the folder's name.")
    ] = None,
    region: Annotated[str | None, typer.Option(metavar="REGION", help="The AWS region to deploy to.")] = None,
    auth: Annotated[
        str | None,
        typer.Option(metavar="API_KEY|IAM|NONE", help="Who may call: with an API key, with AWS credentials, everyone."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing and use the suggested values.")] = False,
    wheel: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Use Baton from this wheel instead of the package index."),
    ] = None,
    lock: Annotated[bool, typer.Option("--lock/--no-lock", help="Lock the project's packages with uv.")] = True,
) -> int:
    """Create a project: a server, its tests, and its deployment."""
    from importlib.metadata import version

    from mcp_baton.local.clean_text import echo

    own = version("mcp-baton")
    # All checks are made before the first question and before the first file.
    check_folder(folder)
    chosen = projects.checked_name(folder.resolve().name if name is None else name)
    package = projects.checked_wheel(wheel, own) if wheel else None
    if lock:
        projects.check_tools()
    where = projects.checked_region(_answer("AWS region", region, _region(), yes))
    who = projects.checked_auth(_answer("Who may call (API_KEY, IAM, NONE)", auth, "API_KEY", yes))
    make(folder, Answers(chosen, where, who, package.name if package else None), own, package)
    try:
        remember(folder)
    except OSError as error:
        echo(f"baton: the project could not be noted as yours, so upgrade it with --lock: {error}", err=True)
    if lock:
        _lock(folder)
    echo(f"{chosen} is ready: an MCP server with two tools and a workflow, on mcp-baton {own}.\n")
    for command, meaning in (
        (f"cd {shlex.quote(str(folder))}", ""),
        *(() if lock else (("make lock", "lock its packages"),)),
        ("make test", "run its tests"),
        ("make serve", "serve it at http://127.0.0.1:8000/mcp"),
        ("make deploy", f"deploy it to AWS, in {where}"),
    ):
        echo(f"  {command:<13} {'# ' if meaning else ''}{meaning}".rstrip())
    return 0


def _answer(question: str, given: str | None, suggested: str, yes: bool) -> str:
    """Return the value of an option, or the user's answer."""
    if given is not None or yes:
        return suggested if given is None else given
    try:
        return str(typer.prompt(question, default=suggested))
    except typer.Abort as error:
        if os.isatty(0):
            raise
        raise BatonError(
            f"there is no terminal for the question {question!r}: give options, or --yes for the suggested values"
        ) from error


def _region() -> str:
    """Return the region of the environment, as the AWS CLI reads it."""
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or DEFAULT_REGION


IN_WHEEL: Final = Path(__file__).with_name("project_files")
CHECKOUT: Final = Path(__file__).parents[4]

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
    # Both functions are built in the same way.
    "functions/mcp/Makefile": "functions/authorizer/Makefile",
    ".github/workflows/test.yml": "project/github/workflows/test.yml",
    ".gitignore": "project/gitignore",
    "Makefile": "project/Makefile",
    "README.md": "project/README.md",
    "pyproject.toml": "project/pyproject.toml",
    "tests/test_app.py": "project/tests/test_app.py",
}
"""The source of each file of a project: its path in Baton's repository, by its path in the project."""

GIVEN_ONCE: Final = frozenset({"README.md", "functions/mcp/app.py", "tests/test_app.py"})
"""Files that belong to the user. Upgrades do not change them."""

WHEELS: Final = "layers/baton"
WHEEL_SOURCE: Final = """
# Baton comes from a file. `baton upgrade --wheel FILE` replaces it, `--wheel none` uses the package index.
[tool.uv.sources]
mcp-baton = {{ path = "layers/baton/{wheel}" }}
"""


class ChangedSource(Exception):
    """A file of the repository no longer contains a text that `baton new` replaces: an error in Baton."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """A text that occurs once in a file, and its replacement in a project.

    Attributes:
        old: The text.
        new: Its replacement.
        always: Whether it must occur. The server of a fork may have another name.
    """

    old: str
    new: str
    always: bool = True


def generated(answers: Answers, version: str) -> dict[str, bytes]:
    """Return the files of a project, by path with `/`.

    Args:
        answers: Its settings.
        version: The version of Baton, the minimum for the project.
    """
    files = {path: source(origin) for path, origin in SOURCES.items()}
    for path, replacements in _replacements(answers, version).items():
        files[path] = _replaced(path, files[path], replacements)
    if answers.wheel:
        files["pyproject.toml"] += WHEEL_SOURCE.format(wheel=answers.wheel).encode()
    return files


def upgradable(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the files that upgrades update."""
    return {path: content for path, content in files.items() if path not in GIVEN_ONCE}


def source(origin: str) -> bytes:
    """Return a file by its path in Baton's repository."""
    root = IN_WHEEL if IN_WHEEL.is_dir() else CHECKOUT
    return root.joinpath(*PurePosixPath(origin).parts).read_bytes()


def _replacements(answers: Answers, version: str) -> dict[str, list[Replacement]]:
    """Return the texts that differ between projects, by file."""
    region = f'region = "{answers.region}"\n'
    # The production stage stays protected even if the first stage is open to everyone.
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
            raise ChangedSource(f"{path} contains {each.old!r} {text.count(each.old)} times")
        text = text.replace(each.old, each.new)
    return text.encode()


def check_folder(project: Path) -> None:
    """Check that the folder does not exist, or is empty except for version control.

    Raises:
        BatonError: the folder contains something else.
    """
    if projects.is_project(project):
        raise BatonError(f"{project} is already a project: `baton upgrade {shlex.quote(str(project))}` updates it")
    if project.exists() and not project.is_dir():
        raise BatonError(f"{project} is a file: name a folder for the project")
    if project.is_dir() and any(path.name != ".git" for path in project.iterdir()):
        raise BatonError(f"{project} is not empty: name a new folder, or an empty one")


def make(project: Path, answers: Answers, version: str, wheel: Path | None = None) -> None:
    """Write a new project.

    Args:
        project: Its folder, created if missing.
        answers: Its settings.
        version: The version of Baton.
        wheel: The wheel of Baton; `None` for the package index.

    Raises:
        BatonError: the folder is not empty or cannot be written.
    """
    files = generated(answers, version)
    try:
        for path, content in files.items():
            projects.write_file(project, path, content)
        projects.write_record(project, projects.Record(version, answers, upgradable(files)))
        if wheel:
            shutil.copyfile(wheel, projects.place(project, f"{WHEELS}/{wheel.name}"))
    except OSError as error:
        raise BatonError(f"the project cannot be written: {error}") from error


def _lock(project: Path) -> None:
    try:
        projects.lock(project)
    except NotLocked as error:
        if "mcp-baton" not in str(error):
            raise
        raise NotLocked(
            f"{error}. If mcp-baton is not in the package index, create the project with --wheel FILE"
        ) from error


def list_file(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the file that lists the user's projects, one JSON string per line: `baton/projects` in the user's state
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
    """Whether the user made this project on this machine and still owns its folder."""
    if hasattr(os, "getuid") and project.stat().st_uid != os.getuid():
        return False
    try:
        return _line(project) in list_file().read_text(encoding="utf-8").splitlines()
    except OSError:
        return False


def _line(project: Path) -> str:
    return json.dumps(str(project.resolve()))

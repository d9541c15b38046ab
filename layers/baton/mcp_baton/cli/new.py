"""`baton new`: a project that depends on Baton as a package (docs/projects.md)."""

import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated, Final

import typer

from mcp_baton.cli import project as projects
from mcp_baton.cli.project import Answers
from mcp_baton.exceptions import BatonError


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

    baton_version = version("mcp-baton")
    # All checks are made before the first question and before the first file.
    check_folder(folder)
    project_name = projects.checked_name(folder.resolve().name if name is None else name)
    package = projects.checked_wheel(wheel, baton_version) if wheel else None
    if lock:
        projects.check_tools()
    # As the AWS CLI reads it.
    default_region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    project_region = projects.checked_region(_answer("AWS region", region, default_region, yes))
    project_auth = projects.checked_auth(_answer("Who may call (API_KEY, IAM, NONE)", auth, "API_KEY", yes))
    answers = Answers(project_name, project_region, project_auth, package.name if package else None)
    make(folder, answers, baton_version, package)
    if lock:
        projects.lock(folder)
    echo(f"{project_name} is ready: an MCP server with two tools and a workflow, on mcp-baton {baton_version}.\n")
    for command, meaning in (
        (f"cd {shlex.quote(str(folder))}", ""),
        *(() if lock else (("make lock", "# lock its packages"),)),
        ("make test", "# run its tests"),
        ("make serve", "# serve it at http://127.0.0.1:8000/mcp"),
        ("make deploy", f"# deploy it to AWS, in {project_region}"),
    ):
        echo(f"  {command:<13} {meaning}".rstrip())
    return 0


def _answer(question: str, value: str | None, default: str, yes: bool) -> str:
    if value is not None or yes:
        return default if value is None else value
    try:
        return str(typer.prompt(question, default=default))
    except typer.Abort as error:
        if os.isatty(0):
            raise
        raise BatonError(
            f"there is no terminal for the question {question!r}: give options, or --yes for the suggested values"
        ) from error


IN_WHEEL: Final = Path(__file__).with_name("project_files")
CHECKOUT: Final = Path(__file__).parents[4]

SOURCES: Final = {
    **{
        path: path
        for path in (
            "functions/authorizer/Makefile",
            "functions/authorizer/authorizer.py",
            "functions/authorizer/function.py",
            "functions/authorizer/issuer.py",
            "functions/authorizer/requirements.txt",
            "functions/authorizer/tokens.py",
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

USER_FILES: Final = frozenset({"README.md", "functions/mcp/app.py", "tests/test_app.py"})
"""Files that belong to the user. Upgrades do not change them."""

WHEELS: Final = "layers/baton"
WHEEL_SOURCE: Final = """
# Baton comes from a file. `baton upgrade --wheel FILE` replaces it, `--wheel none` uses the package index.
[tool.uv.sources]
mcp-baton = {{ path = "layers/baton/{wheel}" }}
"""


def generate_files(answers: Answers, version: str) -> dict[str, bytes]:
    """Return the files of a project, by path with `/`. `version` of Baton is the minimum for the project."""
    root = IN_WHEEL if IN_WHEEL.is_dir() else CHECKOUT
    files = {path: root.joinpath(*PurePosixPath(origin).parts).read_bytes() for path, origin in SOURCES.items()}
    # The server of a fork may have another name.
    files["functions/mcp/app.py"] = files["functions/mcp/app.py"].replace(
        b'Server("library"', f'Server("{answers.name}"'.encode()
    )
    for path, replacements in _replacements(answers, version).items():
        text = files[path].decode()
        for old, new in replacements.items():
            if text.count(old) != 1:
                raise RuntimeError(f"{path} contains {old!r} {text.count(old)} times: `baton new` replaces it once")
            text = text.replace(old, new)
        files[path] = text.encode()
    if answers.wheel:
        files["pyproject.toml"] += WHEEL_SOURCE.format(wheel=answers.wheel).encode()
    return files


def upgradable(files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {path: content for path, content in files.items() if path not in USER_FILES}


def _replacements(answers: Answers, version: str) -> dict[str, dict[str, str]]:
    """Return the texts that differ between projects, by file. Each occurs once."""
    region = f'region = "{answers.region}"\n'
    # The production stage stays protected even if the first stage is open to everyone.
    production = "IAM" if answers.auth == "NONE" else answers.auth
    return {
        "pyproject.toml": {"project-name": answers.name, ">=0.0.0": f">={version}"},
        "README.md": {"@NAME@": answers.name, "@VERSION@": version, "@AUTH@": answers.auth},
        "samconfig.toml": {
            " `baton new` writes the\n# stacks' names, their region and Auth here.\n": "\n",
            'stack_name = "baton"\n': f'stack_name = "{answers.name}"\n{region}',
            'stack_name = "baton-production"\n': f'stack_name = "{answers.name}-production"\n{region}',
            '["Auth=API_KEY"': f'["Auth={answers.auth}"',
            '  "Auth=IAM",': f'  "Auth={production}",',
        },
    }


def check_folder(project: Path) -> None:
    """Check that the folder does not exist, or is empty except for version control."""
    if projects.is_project(project):
        raise BatonError(f"{project} is already a project: `baton upgrade {shlex.quote(str(project))}` updates it")
    if project.exists() and not project.is_dir():
        raise BatonError(f"{project} is a file: name a folder for the project")
    if project.is_dir() and any(path.name != ".git" for path in project.iterdir()):
        raise BatonError(f"{project} is not empty: name a new folder, or an empty one")


def make(project: Path, answers: Answers, version: str, wheel: Path | None) -> None:
    files = generate_files(answers, version)
    try:
        for path, content in files.items():
            projects.write_file(project, path, content)
        projects.write_record(project, projects.Record(version, answers, upgradable(files)))
        if wheel:
            shutil.copyfile(wheel, projects.path_in_project(project, f"{WHEELS}/{wheel.name}"))
    except OSError as error:
        raise BatonError(f"the project cannot be written: {error}") from error

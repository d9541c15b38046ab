"""`baton new`: a project that depends on Baton as a package (docs/install.md)."""

import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from importlib.metadata import requires, version
from pathlib import Path, PurePosixPath
from typing import Annotated, Final

import typer

from mcp_baton.cli.options import check_region
from mcp_baton.exceptions import BatonError
from mcp_baton.local.clean_text import echo


def _auth(text: str) -> str:
    """Return a value of the template's parameter Auth that needs no other parameter, in capital letters."""
    if text.upper() not in ("API_KEY", "IAM", "NONE"):
        raise typer.BadParameter(f"{text!r} is not one of API_KEY, IAM, NONE: docs/deploying.md has COGNITO and JWT")
    return text.upper()


@dataclass(frozen=True, slots=True)
class ProjectSettings:
    """The settings of a project. `wheel` is a file name in `layers/baton/`; `None` for the package index."""

    name: str
    region: str
    auth: str
    wheel: str | None = None


Region = Annotated[
    str,
    # As the AWS CLI reads it.
    typer.Option(metavar="REGION", envvar=["AWS_REGION", "AWS_DEFAULT_REGION"], help="The AWS region to deploy to."),
]
Auth = Annotated[
    str,
    typer.Option(
        parser=_auth,
        metavar="API_KEY|IAM|NONE",
        help="Who may call: with an API key, with AWS credentials, everyone.",
    ),
]


def new(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The project's folder: a new or an empty one.")],
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="The project's name. Default: the folder's name.")
    ] = None,
    region: Region = "us-east-1",
    auth: Auth = "API_KEY",
    wheel: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Use Baton from this wheel instead of the package index."),
    ] = None,
    lock: Annotated[bool, typer.Option("--lock/--no-lock", help="Lock the project's packages with uv.")] = True,
) -> int:
    """Create a project: a server, its tests, and its deployment."""
    baton_version = version("mcp-baton")
    # All checks are made before the first file.
    if folder.exists() and not folder.is_dir():
        raise BatonError(f"{folder} is a file: name a folder for the project")
    if folder.is_dir() and any(path.name != ".git" for path in folder.iterdir()):
        raise BatonError(f"{folder} is not empty: name a new folder, or an empty one")
    project_name = _checked_name(folder.resolve().name if name is None else name)
    package = _checked_wheel(wheel, baton_version) if wheel else None
    if lock:
        _check_tools()
    check_region(region, "Use --region REGION.")
    settings = ProjectSettings(project_name, region, auth, package.name if package else None)
    _write(folder, settings, baton_version, package)
    if lock:
        _lock(folder)
    echo(f"{project_name} is ready: an MCP server with two tools and a workflow, on mcp-baton {baton_version}.\n")
    for command, meaning in (
        (f"cd {shlex.quote(str(folder))}", ""),
        *(() if lock else (("make lock", "# lock its packages"),)),
        ("make test", "# run its tests"),
        ("make serve", "# serve it at http://127.0.0.1:8000/mcp"),
        ("make deploy", f"# deploy it to AWS, in {region}, Auth={settings.auth}"),
    ):
        echo(f"  {command:<13} {meaning}".rstrip())
    return 0


IN_WHEEL: Final = Path(__file__).with_name("project_files")
CHECKOUT: Final = Path(__file__).parents[4]

PROJECT_SOURCES: Final = {
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

WHEEL_SOURCE: Final = """
# Baton comes from a file. Without these lines, it comes from the package index. Run `make lock` after a change.
[tool.uv.sources]
mcp-baton = {{ path = "layers/baton/{wheel}" }}
"""


def generate_files(settings: ProjectSettings, version: str) -> dict[str, bytes]:
    """Return the files of a project, by path with `/`. `version` of Baton is the minimum for the project."""
    root = IN_WHEEL if IN_WHEEL.is_dir() else CHECKOUT
    files = {path: root.joinpath(*PurePosixPath(origin).parts).read_bytes() for path, origin in PROJECT_SOURCES.items()}
    # The server of a fork may have another name.
    files["functions/mcp/app.py"] = files["functions/mcp/app.py"].replace(
        b'Server("library"', f'Server("{settings.name}"'.encode()
    )
    for path, replacements in _replacements(settings, version).items():
        text = files[path].decode()
        for old, new in replacements.items():
            if text.count(old) != 1:
                raise RuntimeError(f"{path} contains {old!r} {text.count(old)} times: `baton new` replaces it once")
            text = text.replace(old, new)
        files[path] = text.encode()
    if settings.wheel:
        files["pyproject.toml"] += WHEEL_SOURCE.format(wheel=settings.wheel).encode()
    return files


def _replacements(settings: ProjectSettings, version: str) -> dict[str, dict[str, str]]:
    """Return the texts that differ between projects, by file. Each occurs once."""
    region = f'region = "{settings.region}"\n'
    # The production stage stays protected even if the first stage is open to everyone.
    production = "IAM" if settings.auth == "NONE" else settings.auth
    return {
        "pyproject.toml": {"project-name": settings.name, ">=0.0.0": f">={version}"},
        "README.md": {"@NAME@": settings.name, "@VERSION@": version, "@AUTH@": settings.auth},
        "samconfig.toml": {
            " `baton new` writes the\n# stacks' names, their region and Auth here.\n": "\n",
            'stack_name = "baton"\n': f'stack_name = "{settings.name}"\n{region}',
            'stack_name = "baton-production"\n': f'stack_name = "{settings.name}-production"\n{region}',
            '["Auth=API_KEY"': f'["Auth={settings.auth}"',
            '  "Auth=IAM",': f'  "Auth={production}",',
        },
    }


def _write(project: Path, settings: ProjectSettings, version: str, wheel: Path | None) -> None:
    try:
        for path, content in generate_files(settings, version).items():
            file = project.joinpath(*PurePosixPath(path).parts)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        if wheel:
            shutil.copyfile(wheel, project / "layers" / "baton" / wheel.name)
    except OSError as error:
        raise BatonError(f"the project cannot be written: {error}") from error


def _checked_name(name: str) -> str:
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


def _checked_wheel(wheel: Path, version: str) -> Path:
    if not wheel.is_file():
        raise BatonError(f"there is no file {wheel}: --wheel needs a wheel of mcp-baton, from `uv build --wheel`")
    if not re.fullmatch(rf"mcp_baton-{re.escape(version)}-\S+\.whl", wheel.name):
        raise BatonError(
            f"{wheel.name} is not a wheel of mcp-baton {version}, the version of this command: "
            f"use the command of that wheel, `uvx --from {wheel} baton`"
        )
    return wheel


def _check_tools() -> None:
    if not shutil.which(_uv()):
        raise BatonError(
            "uv, which locks the project's packages, is missing: install it "
            "(https://docs.astral.sh/uv/getting-started/installation/) or use --no-lock"
        )
    if not shutil.which("make"):
        raise BatonError("make, which locks and builds the project, is missing: install it or use --no-lock")


def _lock(project: Path) -> None:
    """Run the project's `make lock`, which locks its packages and writes the layer's `requirements.txt`."""
    # These describe the process that called this one, and must not reach the project's make.
    prefixes = ("MAKE", "MFLAGS", "ARGS", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}
    process = subprocess.run(
        ["make", "--silent", "lock"],  # noqa: S607 - the user's own make
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

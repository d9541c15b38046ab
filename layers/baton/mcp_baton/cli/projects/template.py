"""The files of a project: where each comes from, and what is put into it.

Most of them are Baton's own: the template, the build of the layer, the authorizer, the server in functions/mcp. From a
checkout they are read where they are; a wheel holds them in `files/` beside this module (pyproject.toml,
`force-include`), under the same paths.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from mcp_baton.cli.projects.answers import Answers

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

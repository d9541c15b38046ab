"""Checks that the commands, options and targets in shell lines exist.

The real command line parses `baton …`. `make …` is compared with the Makefile. Other programs are not checked.
"""

import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import typer

from mcp_baton.cli.app import app

ROOT = Path(__file__).parents[2]
_ASSIGNMENT = re.compile(r"^[A-Za-z_]\w*=")
_SEPARATORS = {"&&", "||", "|", ";", "&"}
# Values of the variables on the pages. All other variables are addresses.
VALUES = {"WORKER": "shop-worker:live", "KEY": "key", "TOKEN": "token", "TASK": "01k0"}


def mistakes_in(code: str) -> list[str]:
    """Return the mistakes in a block of shell lines."""
    return [fault for command in commands(code) for fault in _faults(command)]


def commands(code: str) -> Iterator[list[str]]:
    """Yield the commands of a block, also those in `$(…)`, as lists of words, without comments and assignments."""
    text = "\n".join(map(_without_comment, code.replace("\\\n", " ").split("\n")))
    for inner in re.findall(r"\$\(([^()]*)\)", text):
        yield from commands(inner)
    lexer = shlex.shlex(re.sub(r"\$\([^()]*\)", "SUBSTITUTED", text), posix=True, punctuation_chars="&|;\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t", True, ""
    command: list[str] = []
    for word in [*lexer, ";"]:
        if word.strip() in _SEPARATORS or not word.strip():
            if command:
                yield command
            command = []
        elif command or not _ASSIGNMENT.match(word):
            command.append(word)


def _without_comment(line: str) -> str:
    """Return the line up to the first `#` that begins a word outside quotation marks."""
    for match in re.finditer(r"(?:^|\s)#", line):
        prefix = line[: match.start()]
        if prefix.count('"') % 2 == 0 and prefix.count("'") % 2 == 0:
            return prefix
    return line


def _faults(command: list[str]) -> Iterator[str]:
    match command:
        case ["baton", *rest]:
            yield from _baton(rest)
        case ["make", *rest]:
            yield from _make(rest)
        case ["uv", "run", *rest] if rest:
            yield from _faults(rest)
        case ["uvx", "--from", package, *rest] if "baton" in package:
            yield from _faults(rest)
        case ["python", "-m", module, *_]:
            if importlib.util.find_spec(module) is None:
                yield f"there is no module {module!r}"


def _baton(words: list[str]) -> Iterator[str]:
    group = typer.main.get_command(app)
    words = [
        re.sub(r"\$\{?(\w+)\}?", lambda name: VALUES.get(name[1], "https://example.com/mcp"), word) for word in words
    ]
    try:
        context = group.make_context("baton", list(words))
        name, subcommand, rest = group.resolve_command(context, [*context._protected_args, *context.args])  # type: ignore[attr-defined]  # noqa: SLF001
        subcommand.make_context(name, rest, parent=context)
    except typer.Exit:
        return
    except typer.TyperException as error:
        yield f"baton {shlex.join(words)}: {error}"


def _make(words: list[str]) -> Iterator[str]:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for word in words:
        if not re.match(r"[A-Z_]+=", word) and word not in targets:
            yield f"make {word}: the Makefile has no such target"

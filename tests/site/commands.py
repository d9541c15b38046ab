"""Checks that the commands, options and targets in shell lines exist.

The real command line parses `baton …`. `make …` is compared with the Makefile, `aws …` with botocore's models of AWS's
APIs. Other programs are not checked.
"""

import importlib.util
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import botocore.session
import typer
from botocore import xform_name

from mcp_baton.cli.app import app

ROOT = Path(__file__).parents[2]
_ASSIGNMENT = re.compile(r"^[A-Za-z_]\w*=")
_BETWEEN = {"&&", "||", "|", ";", "&"}
# Values of the variables on the pages. All other variables are addresses.
VALUES = {"WORKER": "shop-worker:live", "KEY": "key", "TOKEN": "token", "TASK": "01k0"}
# The AWS CLI has other names for some options (https://docs.aws.amazon.com/cli/latest/reference/sns/subscribe.html).
_AWS_RENAMED = {"sns subscribe": {"notification-endpoint"}, "lambda publish-layer-version": {"zip-file"}}
_AWS_GLOBAL = {"query", "output", "region", "profile", "cli-binary-format"}


def wrong(code: str) -> list[str]:
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
        if word.strip() in _BETWEEN or not word.strip():
            if command:
                yield command
            command = []
        elif command or not _ASSIGNMENT.match(word):
            command.append(word)


def _without_comment(line: str) -> str:
    """Return the line up to the first `#` that begins a word outside quotation marks."""
    for found in re.finditer(r"(?:^|\s)#", line):
        before = line[: found.start()]
        if before.count('"') % 2 == 0 and before.count("'") % 2 == 0:
            return before
    return line


def _faults(command: list[str]) -> Iterator[str]:
    match command:
        case ["baton", *rest]:
            yield from _baton(rest)
        case ["make", *rest]:
            yield from _make(rest)
        case ["aws", service, operation, *rest]:
            yield from _aws(service, operation, rest)
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
        name, found, rest = group.resolve_command(context, [*context._protected_args, *context.args])  # type: ignore[attr-defined]  # noqa: SLF001
        found.make_context(name, rest, parent=context)
    except typer.Exit:
        return
    except typer.TyperException as error:
        yield f"baton {shlex.join(words)}: {error}"


def _make(words: list[str]) -> Iterator[str]:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for word in words:
        if not re.match(r"[A-Z_]+=", word) and word not in targets:
            yield f"make {word}: the Makefile has no such target"


@cache
def _members(service: str, operation: str) -> set[str] | None:
    session = botocore.session.get_session()
    model = session.get_service_model(service)
    names = {xform_name(name, "-"): name for name in model.operation_names}
    if operation not in names:
        return None
    shape = model.operation_model(names[operation]).input_shape
    return {xform_name(member, "-") for member in getattr(shape, "members", {})}


def _aws(service: str, operation: str, words: list[str]) -> Iterator[str]:
    if service == "configure":
        return
    known = _members(service, operation)
    if known is None:
        yield f"aws {service} {operation}: there is no such operation"
        return
    for word in words:
        if word.startswith("--") and word[2:] not in known | _AWS_GLOBAL | _AWS_RENAMED.get(
            f"{service} {operation}", set()
        ):
            yield f"aws {service} {operation}: there is no option {word}"

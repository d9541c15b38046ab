"""`baton check`: the errors of a server, at its start and in its runs (docs/commands.md, Check a server)."""

import os
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.text import Text

from mcp_baton.cli import options
from mcp_baton.cli.remote.errors import message_of, print_error
from mcp_baton.exceptions import BatonError
from mcp_baton.local.clean_text import CleanConsole, echo, print_json

if TYPE_CHECKING:
    from mcp_baton.local.checking import CheckResult
    from mcp_baton.local.mistakes import Mistake

EXIT_REFUSED: Final = 1


def check(
    target: options.Target,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Also exit with 1 for warnings.")] = False,
    live: Annotated[
        bool, typer.Option("--live", help="Also check whether the tasks of --table would continue under this code.")
    ] = False,
    table: options.Table = None,
    dynamodb: options.Database = None,
    read_units: options.ReadUnits = 1000,
) -> int:
    """Print all mistakes of a server.

    With errors, a handler would refuse the server, or a workflow is certain to fail. Warnings are suggestions. The
    command imports the file.

    With --live, the exit code is also 1 if a resume of a stored task would be refused.
    """
    from mcp_baton.local.checking import check_target

    try:
        if live and table is None:
            raise BatonError("--live needs --table: name the table with the stored tasks")
        if not live and (table or dynamodb):
            raise BatonError("--table and --dynamodb are for stored tasks: add --live")
        result, verdicts = check_target(target, os.environ), None
    except BatonError as error:
        return print_error(error, as_json=as_json)
    code, failure = EXIT_REFUSED if result.errors or (strict and result.warnings) else 0, dict[str, Any]()
    try:
        if table is not None and result.server is not None and not result.refused:
            from mcp_baton.cli.remote.table import table_store
            from mcp_baton.cli.stored_tasks import Verdicts

            result.server.check(in_full=False)  # completes the definitions: a tool may be a function
            verdicts = Verdicts(result.server.full_view)
            with table_store(table, dynamodb) as store:
                verdicts.read(store, read_units)
            code = EXIT_REFUSED if verdicts.problems else code
    except BatonError as error:
        code, failure = print_error(error, as_json=False), {"error": {"message": message_of(error)}}
    finally:
        if as_json:
            print_json(_to_json(target, result) | ({"live": verdicts.to_json()} if verdicts else {}) | failure)
        else:
            _print(target, result)
            if verdicts:
                echo(str(verdicts))
    return code


def _to_json(target: str, result: "CheckResult") -> dict[str, Any]:
    def as_json(fault: "Mistake") -> dict[str, Any]:
        file, line = (str(fault.site.file), fault.site.line) if fault.site else (None, None)
        return {"problem": fault.problem, "remedy": fault.remedy, "file": file, "line": line}

    return {
        "target": target,
        "ok": not result.errors,
        "errors": [*map(as_json, result.errors)],
        "warnings": [*map(as_json, result.warnings)],
        "published": result.published,
        "whole": result.server is not None,
    }


def _print(target: str, result: "CheckResult") -> None:
    console = CleanConsole(soft_wrap=True)
    for word, style, faults in (("error", "bold red", result.errors), ("warning", "bold yellow", result.warnings)):
        for fault in faults:
            place = f"{fault.site}: " if fault.site else ""
            console.print(Text.assemble(place, (f"{word}: ", style), fault.problem))
            if fault.remedy:
                console.print(f"  {fault.remedy}")
    if result.errors or result.warnings:
        console.print()
    console.print(_summary(target, result))


def _summary(target: str, result: "CheckResult") -> str:
    warnings = f", {_count(len(result.warnings), 'warning')}" if result.warnings else ""
    if result.errors:
        note = "" if result.server else "; the file was not read to its end, so there may be more"
        outcome = "would be refused" if result.refused else "can be served, but a workflow is certain to fail"
        return f"{target} {outcome}: {_count(len(result.errors), 'error')}{warnings}{note}"
    published = ", ".join(_count(number, kind[:-1]) for kind, number in result.published.items() if number)
    return f"{target} can be served: {published or 'nothing is published'}{warnings}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"

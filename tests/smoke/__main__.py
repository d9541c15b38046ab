"""`make smoke`: checks of a deployed stack that emulators cannot replace (tests/smoke/README.md).

python -m tests.smoke URL [--stack NAME] [--api-key KEY | --token TOKEN | --aws] [--workflow NAME [KEY=VALUE ...]]
"""

from collections.abc import Iterator
from contextlib import closing
from functools import wraps
from typing import Annotated, Any

import httpx
import typer
from botocore.exceptions import BotoCoreError, ClientError

from mcp_baton.cli import options
from mcp_baton.cli.remote.arguments import parse_arguments
from mcp_baton.cli.remote.http import Access, access_of
from mcp_baton.exceptions import BatonError
from tests.smoke.endpoint import Endpoint
from tests.smoke.report import Finding, Report, held, not_checked
from tests.smoke.stack import Stack

ERRORS = (BatonError, httpx.HTTPError, BotoCoreError, ClientError, LookupError, ValueError)
STACK_CHECKS = ("DynamoDB", "encryption", "throttles", "index", "sweeps")


@options.uses_server(options.Served)
def smoke(
    connection: options.ConnectionOptions,
    stack: Annotated[str | None, typer.Option(metavar="NAME", help="The stack; needs AWS credentials.")] = None,
    workflow: Annotated[
        str, typer.Option(metavar="NAME", help="A workflow that does no harm, and pauses. Arguments: KEY=VALUE.")
    ] = "borrow",
    arguments: options.Arguments = None,
    *,
    as_json: bool,
) -> int:
    """Check a deployed server, print the findings, and leave nothing behind. The exit code is 1 if a check failed."""
    values = parse_arguments(arguments or (["title=Walden"] if workflow == "borrow" else []))
    endpoint = Endpoint(access_of(connection), workflow, {value.name: value.text for value in values})
    report = Report(ERRORS)
    with closing(endpoint):
        answers = report.run("endpoint", endpoint.answers)
        # This needs no token.
        report.run("sign_in", endpoint.leads_to_sign_in)
        if not answers:
            return report.close()
        try:
            report.run("authorizer", endpoint.refuses_others)
            report.run("tasks", endpoint.stores_tasks)
            report.run("streaming", endpoint.streams)
        finally:
            report.run("end", endpoint.end_tasks)
    # Last, because its burst of requests uses up the limits.
    _check_stack(stack, endpoint.access, report)
    return report.close()


def _check_stack(name: str | None, access: Access, report: Report) -> None:
    if name is None:
        for check_name in STACK_CHECKS:
            report.add(check_name, not_checked("you named no stack (STACK=NAME, with AWS credentials)"))
        return
    stacks: list[Stack] = []

    def find() -> Iterator[Finding]:
        stacks.append(Stack(name, access))
        yield held(f"{name} was deployed from Baton's template, with Auth={stacks[0].parameters['Auth']}")

    if not report.run("stack", find):
        return
    [stack] = stacks
    checks = (stack.uses_dynamodb, stack.encrypts, stack.throttles, stack.lists, stack.sweeps)
    try:
        for check_name, check in zip(STACK_CHECKS, checks, strict=True):
            report.run(check_name, check)
    finally:
        report.run("end", stack.clean_up)


@wraps(smoke)
def main(**options: Any) -> None:
    raise typer.Exit(smoke(**options))


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(name="smoke")(main)
    app(prog_name="make smoke")

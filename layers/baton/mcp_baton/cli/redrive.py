"""`baton redrive`: put the events of background tasks that failed for good back (docs/operating.md, Dead letters)."""

from typing import Annotated

import typer

from mcp_baton.cli import values


def redrive(
    queue: Annotated[
        str, typer.Option(parser=values.queue, metavar="URL", help="The stack's output DeadLetterQueueUrl.")
    ],
    function: Annotated[
        str,
        typer.Option(parser=values.alias, metavar="NAME", help="The output Worker: an alias's ARN, or name:alias."),
    ],
    most: Annotated[
        int | None,
        typer.Option(
            "--max",
            parser=values.count,
            metavar="N",
            help="Look at no more than so many messages; at all unless given.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell what would be sent, and send nothing.")] = False,
) -> int:
    """Invoke the worker again with the dead-letter queue's events.

    What the worker accepts is deleted from the queue.
    """
    from mcp_baton.local.log import log_to_stderr
    from mcp_baton.local.redrive import redrive as put_back

    log_to_stderr()
    return put_back(queue, function, most, dry_run)

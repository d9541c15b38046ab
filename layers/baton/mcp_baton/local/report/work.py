"""A worker's invocations in the log, an entry each."""

import logging
import time
from collections.abc import Callable
from typing import Any, Final

from mcp_baton.local.report.entry import Entry, Status, one_line
from mcp_baton.transport.adapter import JOB

logger = logging.getLogger("baton.requests")

FAILURES: Final = ("failed", "given up")


def with_entries[Context](
    handler: Callable[[dict[str, Any], Context], dict[str, Any]],
) -> Callable[[dict[str, Any], Context], dict[str, Any]]:
    """A handler that logs an entry for each task that it has worked on."""

    def work(event: dict[str, Any], context: Context) -> dict[str, Any]:
        began_s = time.perf_counter()
        done = handler(event, context)
        outcome = str(done.get("outcome", "done"))
        Entry(
            method="worker",
            name="",
            task=str(event.get(JOB, {}).get("taskId", "")),
            ms=1000 * (time.perf_counter() - began_s),
            status=Status.FAILED if outcome.startswith(FAILURES) else Status.DONE,
            words=one_line(outcome),
            request_id=str(getattr(context, "aws_request_id", "")),
        ).log(logger)
        return done

    return work

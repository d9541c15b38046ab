"""The log of `baton`'s commands, on the standard error stream."""

import logging
import sys
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogStyle:
    """How a command logs.

    Attributes:
        level: From which level on: `debug`, `info`, `warning` or `error`.
        as_json: An object a line in the place of a text.
    """

    level: str = "info"
    as_json: bool = False


PLAIN = LogStyle()


def log_to_stderr(style: LogStyle = PLAIN) -> None:
    """Log as the command does, in this process or in one that it has started."""
    from mcp_baton.local.report.json_lines import JsonFormatter
    from mcp_baton.local.report.terminal import TerminalHandler

    in_full = style.level == "debug"
    handler: logging.Handler
    if style.as_json:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(JsonFormatter(in_full=in_full))
    else:
        handler = TerminalHandler(sys.stderr, in_full=in_full)
    logging.basicConfig(level=style.level.upper(), handlers=[handler])
    for chatty in ("botocore", "boto3", "moto", "urllib3", "watchfiles", "werkzeug"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    # Loggers of the user's own keep what they were set to; asyncio's tells nothing at its debug level that helps.
    logging.getLogger("asyncio").setLevel(logging.WARNING)

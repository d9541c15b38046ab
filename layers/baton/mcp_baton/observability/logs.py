"""Logs through Powertools' Logger: one JSON object a line, with correlation ids (docs/operating.md)."""

import logging
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger

PACKAGE = "mcp_baton"
VERBOSE_LOGGERS = ("boto3", "botocore", "s3transfer", "urllib3")
"""Loggers that at DEBUG write whole requests, with the role's session token and the values of tasks."""

logger = logging.getLogger(__name__)


class PowertoolsHandler(logging.Handler):
    """Passes Baton's log records to the Powertools Logger of the service, which is created with the first record.

    All `Logger()` objects of a service share its keys (`correlation_id`, `function_request_id`, …), so the lines of
    tools have the same ids. The keys are updated for each request once the Logger was imported.

    Args:
        service: The name of the Logger.
    """

    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service
        self._keys: Mapping[str, object] = {}
        self._powertools: Logger | None = None

    def begin(self, keys: Mapping[str, object]) -> None:
        """Begin a request: set the keys of its log lines."""
        self._keys = keys
        if self._powertools is not None or "aws_lambda_powertools.logging.logger" in sys.modules:
            try:
                self._logger().append_keys(**keys)
            except Exception:
                logger.exception("Powertools' Logger cannot be used")

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record with Powertools; if that fails, write it and the error to standard error."""
        try:
            self._logger().logger_handler.handle(record)
        except (ImportError, TypeError, ValueError):
            # An invalid variable of Powertools must not fail a request that logs.
            self.handleError(record)

    def _logger(self) -> "Logger":
        if self._powertools is None:
            self._powertools = _made(self._service)
            self._powertools.append_keys(**self._keys)
        return self._powertools


def _made(service: str) -> "Logger":
    """Return the Logger of the service, which a tool may have created before.

    Lambda only recognizes the level of a line with an RFC 3339 timestamp, and otherwise filters the line as INFO. So
    timestamps have this format, unless the function's code chose another.
    """
    from aws_lambda_powertools import Logger
    from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter

    others = logging.getLogger().handlers
    known = {handler: list(handler.filters) for handler in others}
    made = Logger(service=service, use_rfc3339=True, utc=True)
    formatter = made.registered_formatter
    if isinstance(formatter, LambdaPowertoolsFormatter) and formatter.datefmt is None:
        formatter.use_rfc3339_iso8601 = True
    # To avoid duplicate lines, Powertools lets Lambda's handler drop the records of all loggers whose name contains the
    # service's name. That can hit other loggers. Disabling propagation has the same effect for the right one.
    logging.getLogger(service).propagate = False
    for handler in others:
        handler.filters[:] = known.get(handler, handler.filters)
    return made


def install(service: str) -> PowertoolsHandler:
    """Let one handler write Baton's log records, and keep secrets and the values of tasks out of the log.

    `VERBOSE_LOGGERS` write nothing below INFO, unless the function's code sets their level.

    Returns:
        The handler. All Lambda handlers of a process share it.
    """
    own = logging.getLogger(PACKAGE)
    handler = next(
        (known for known in own.handlers if isinstance(known, PowertoolsHandler)), PowertoolsHandler(service)
    )
    own.handlers = [handler]
    own.propagate = False
    for name in VERBOSE_LOGGERS:
        other = logging.getLogger(name)
        if other.level == logging.NOTSET:
            other.setLevel(logging.INFO)
    return handler

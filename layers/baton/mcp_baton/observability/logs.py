"""Logs through Powertools' Logger: one JSON object a line, with correlation ids (docs/operating.md)."""

import logging
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger

PACKAGE = "mcp_baton"
VERBOSE_LOGGERS = ("boto3", "botocore", "s3transfer", "urllib3")
"""Loggers that at DEBUG write whole requests: the role's session token, and every value of a task."""

logger = logging.getLogger(__name__)


class PowertoolsHandler(logging.Handler):
    """Hands Baton's log records to the Powertools Logger of the service, which is made for the first one.

    Its keys (`correlation_id`, `function_request_id`, …) are those of every `Logger()` of the same service, so that
    what tools log with one can be found by the same id. They are kept up to date as soon as anybody has imported it.

    Args:
        service: The Logger's name, and its key `service`.
    """

    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service
        self._keys: Mapping[str, object] = {}
        self._powertools: Logger | None = None

    def begin(self, keys: Mapping[str, object]) -> None:
        """A request begins: these are the keys of what is logged from here on."""
        self._keys = keys
        if self._powertools is not None or "aws_lambda_powertools.logging.logger" in sys.modules:
            try:
                self._logger().append_keys(**keys)
            except Exception:
                logger.exception("Powertools' Logger cannot be used")

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record as Powertools does; to standard error, with the reason, where Powertools refuses to."""
        try:
            self._logger().logger_handler.handle(record)
        except (ImportError, TypeError, ValueError):
            # A variable that Powertools does not understand is no reason to fail the request that has something to log.
            self.handleError(record)

    def _logger(self) -> "Logger":
        if self._powertools is None:
            self._powertools = _made(self._service)
            self._powertools.append_keys(**self._keys)
        return self._powertools


def _made(service: str) -> "Logger":
    """The service's Logger, whoever has made it first.

    Lambda takes a level as given only beside a time as RFC 3339 has it, and holds back what it takes for INFO where the
    least severe level is another: so the time has that form unless somebody chose one.
    """
    from aws_lambda_powertools import Logger
    from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter

    others = logging.getLogger().handlers
    known = {handler: list(handler.filters) for handler in others}
    made = Logger(service=service, use_rfc3339=True, utc=True)
    formatter = made.registered_formatter
    if isinstance(formatter, LambdaPowertoolsFormatter) and formatter.datefmt is None:
        formatter.use_rfc3339_iso8601 = True
    # Against lines that would be written twice, Powertools has Lambda's handler drop the records of every logger whose
    # name holds the service's anywhere, which can be anybody's. Not to pass them on does the same to the right ones.
    logging.getLogger(service).propagate = False
    for handler in others:
        handler.filters[:] = known.get(handler, handler.filters)
    return made


def install(service: str) -> PowertoolsHandler:
    """Let one handler, and no other, write what Baton logs, and keep secrets and tasks' values out of the log.

    `VERBOSE_LOGGERS` write nothing below INFO, whatever the least severe level is, unless the function's code chose
    another.

    Returns:
        That handler, of which a process has one, however many Lambda handlers it makes: each must reach its keys.
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

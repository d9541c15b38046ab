"""Logs through Powertools' Logger: one JSON object a line, with correlation ids (contract section 9)."""

import logging
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger

PACKAGE = "mcp_baton"


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
            self._logger().append_keys(**keys)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record as Powertools does."""
        self._logger().logger_handler.handle(record)

    def _logger(self) -> "Logger":
        if self._powertools is None:
            from aws_lambda_powertools import Logger

            # Lambda takes a level as given only beside a time as RFC 3339 has it.
            self._powertools = Logger(service=self._service, use_rfc3339=True, utc=True)
            self._powertools.append_keys(**self._keys)
        return self._powertools


def install(handler: logging.Handler) -> None:
    """Let this handler, and no other, write what Baton logs."""
    logger = logging.getLogger(PACKAGE)
    logger.handlers = [handler]
    logger.propagate = False

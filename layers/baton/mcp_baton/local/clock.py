"""The clock of `baton serve`: it starts a sweep each minute, as a stack's schedule does (docs/background.md)."""

import logging
import threading
import uuid
from typing import TYPE_CHECKING, Final

from mcp_baton.local.gateway import InvocationContext
from mcp_baton.transport.adapter import SWEEP_EVENT

if TYPE_CHECKING:
    from mcp_baton.local.http_server import LambdaHandler

logger = logging.getLogger(__name__)

MINUTE_S: Final = 60.0


class LocalClock:
    """Invokes a handler for a sweep once a minute, in a thread, until it is stopped."""

    def __init__(self, handler: "LambdaHandler", timeout_s: float, minute_s: float = MINUTE_S) -> None:
        self._handler = handler
        self._timeout_s = timeout_s
        self._minute_s = minute_s
        self._stopped = threading.Event()
        threading.Thread(target=self._run, name="clock", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(self._minute_s):
            try:
                self._handler({SWEEP_EVENT: {}}, InvocationContext(self._timeout_s, str(uuid.uuid4())))
            except Exception:
                logger.exception("the sweep failed; the next one is in a minute")

"""Running the local server until it is told to stop (contract section 10).

SIGTERM is the asked-for end of a service and exits with 0; Ctrl-C exits with 130, as shells expect of an interrupted
command. Both stop accepting connections and give the requests that are being answered a short grace.
"""

import logging
import os
import signal
import threading
from collections.abc import Callable
from queue import SimpleQueue

from mcp_baton.local.httpd import LocalServer

logger = logging.getLogger(__name__)

GRACE_S = 3.0
EXIT_CODES = {signal.SIGTERM: 0, signal.SIGINT: 130}


def run(server: LocalServer, ready: Callable[[], None]) -> int:
    """Serve until SIGTERM or SIGINT. From the main thread only, where Python delivers signals.

    Args:
        server: The bound server.
        ready: Called once, when both signals and connections are listened to.

    Returns:
        The exit code. The process should end with it at once (`end_by_force`).
    """
    signals: SimpleQueue[int] = SimpleQueue()  # Unlike an `Event`, it may be written to from within a signal handler.
    for number in EXIT_CODES:
        signal.signal(number, lambda received, _frame: signals.put(received))
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, name="accept", daemon=True).start()
    ready()
    received = signal.Signals(signals.get())
    for number in EXIT_CODES:
        signal.signal(number, signal.SIG_DFL)  # A second signal ends the process at once.
    logger.info("%s: stopping", received.name)
    _stop(server)
    return EXIT_CODES[received]


def end_by_force(code: int) -> None:
    """End the process with this code if it has not ended by itself after the grace.

    A tool that was abandoned may still be running in a thread that Python waits for when it exits.
    """
    timer = threading.Timer(GRACE_S, os._exit, [code])
    timer.daemon = True
    timer.start()


def _stop(server: LocalServer) -> None:
    server.shutdown()
    server.server_close()
    left = server.drain(GRACE_S)
    if left:
        logger.warning("%d requests were still being answered after %g s", left, GRACE_S)

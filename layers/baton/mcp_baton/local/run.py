"""Running the local server until it is told to stop (docs/local.md).

SIGTERM is the asked-for end of a service and exits with 0; Ctrl-C exits with 130, as shells expect of an interrupted
command. Both stop accepting connections and give the requests that are being answered a short grace.
"""

import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mcp_baton.local.httpd import LocalServer

logger = logging.getLogger(__name__)

GRACE_S = 3.0
EXIT_CODES = {signal.SIGTERM: 0, signal.SIGINT: 130}


def run(server: LocalServer, ready: Callable[[], None], stopping: Callable[[], None] = lambda: None) -> int:
    """Serve until SIGTERM or SIGINT. From the main thread only, where Python delivers signals.

    Args:
        server: The bound server.
        ready: Called once, when both signals and connections are listened to.
        stopping: Called once a signal has come, before the last requests are waited for.

    Returns:
        The exit code. The process should end with it at once (`end_by_force`).
    """
    with _signals_taken() as taken:
        serve_forever = threading.Thread(target=server.serve_forever, args=(0.1,), name="accept", daemon=True)
        serve_forever.start()
        ready()
        received = _next(taken)
    logger.info("%s: stopping", received.name)
    stopping()
    _stop(server)
    return EXIT_CODES[received]


def end_by_force(code: int) -> None:
    """End the process with this code if it has not ended by itself after the grace.

    A tool that was abandoned may still be running in a thread that Python waits for when it exits.
    """
    timer = threading.Timer(GRACE_S, os._exit, [code])
    timer.daemon = True
    timer.start()


@contextmanager
def _signals_taken() -> Iterator[socket.socket]:
    """Both signals' numbers arrive at this socket, one byte each; afterwards they end the process at once.

    Waiting for them at a lock, an event or a queue would not do: the handler of a signal that comes just before the
    wait begins would run when the wait is over, that is, never. A byte in a socket is there before the wait, too.
    """
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    with receiver, sender:
        signal.set_wakeup_fd(sender.fileno())
        for number in EXIT_CODES:
            signal.signal(number, lambda _number, _frame: None)
        try:
            yield receiver
        finally:
            signal.set_wakeup_fd(-1)
            for number in EXIT_CODES:
                signal.signal(number, signal.SIG_DFL)


def _next(taken: socket.socket) -> signal.Signals:
    while True:
        number = taken.recv(1)[0]
        if number in EXIT_CODES:  # Other signals that the served file listens to come this way as well.
            return signal.Signals(number)


def _stop(server: LocalServer) -> None:
    server.shutdown()
    server.server_close()
    left = server.drain(GRACE_S)
    if left:
        logger.warning("%d requests were still being answered after %g s", left, GRACE_S)

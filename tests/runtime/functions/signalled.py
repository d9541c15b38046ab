"""A function that handles SIGTERM, as functions with an extension can."""

import os
import signal
import sys
from pathlib import Path
from types import FrameType

from mcp_baton.transport.exchange import stream_opener


def handler(event: object, context: object) -> str:
    return str(stream_opener.get())


def _stop(number: int, frame: FrameType | None) -> None:
    Path(os.environ["STOPPED_FILE"]).write_text(signal.Signals(number).name)
    sys.stdout.flush()
    os._exit(0)


signal.signal(signal.SIGTERM, _stop)

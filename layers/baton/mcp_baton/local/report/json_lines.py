"""The log as JSON, an object a line: for programs, and for what collects logs."""

import json
import logging
import traceback
from datetime import UTC, datetime
from typing import Any, override

from mcp_baton.local.clean_text import escaped
from mcp_baton.local.report.entry import Entry
from mcp_baton.local.report.frames import own_frames


class JsonFormatter(logging.Formatter):
    """Formats a record as `{"time", "level", "logger", "message"}`; of a request with its fields, of an error with its
    traceback as `error`.

    Args:
        in_full: Whether tracebacks have every frame.
    """

    def __init__(self, *, in_full: bool) -> None:
        super().__init__()
        self._in_full = in_full

    @override
    def format(self, record: logging.LogRecord) -> str:
        """A line."""
        made: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry = getattr(record, "entry", None)
        if isinstance(entry, Entry):
            made |= entry.as_json()
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            made["error"] = "".join(traceback.format_exception(error)) if self._in_full else own_frames(error)
        return escaped(json.dumps(made))

"""What a function logs to the client: the part of `Context` that does (docs/tools.md)."""

from typing import overload

from mcp_baton.exceptions import Abandoned
from mcp_baton.protocol.json import Json
from mcp_baton.server.running.call import Call
from mcp_baton.server.running.notifications import NOT_GIVEN, Done, level_and_message, send_log


class Logs:
    """Log messages of one call.

    Args:
        call: The call.
    """

    def __init__(self, call: Call) -> None:
        self._call = call

    def _check(self) -> None:
        """End a function that nobody waits for any more."""
        if self._call.abandoned:
            raise Abandoned

    @overload
    def log(self, level: str, message: Json, /, *, logger: str | None = None) -> Done: ...
    @overload
    def log(self, message: Json, /, level: str = "info", *, logger: str | None = None) -> Done: ...
    @overload
    def log(self, *positional: Json, level: str = ..., message: Json = ..., logger: str | None = None) -> Done: ...
    def log(
        self, *positional: Json, level: str = NOT_GIVEN, message: Json = NOT_GIVEN, logger: str | None = None
    ) -> Done:
        """Send the client a log message, if it asked for messages of this level.

        Level and message may stand in either order; of two levels, the first one is meant as the level. Without a level
        it is `info`.

        Args:
            positional: The level and the message, or the message alone.
            level: `debug`, `info`, `notice`, `warning`, `error`, `critical`, `alert` or `emergency`.
            message: Text, or any JSON value.
            logger: The name of what is speaking.

        Raises:
            ValueError, TypeError: an unknown level, or a message that is not JSON.
        """
        self._check()
        level, message = level_and_message(positional, level, message)
        return send_log(self._call, level, message, logger)

    def debug(self, message: Json) -> Done:
        """`log("debug", …)`."""
        return self.log("debug", message)

    def info(self, message: Json) -> Done:
        """`log("info", …)`."""
        return self.log("info", message)

    def warning(self, message: Json) -> Done:
        """`log("warning", …)`."""
        return self.log("warning", message)

    def error(self, message: Json) -> Done:
        """`log("error", …)`."""
        return self.log("error", message)

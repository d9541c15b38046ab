"""What a function tells the client while it runs: how far it has come, and log messages.

MCP 2025-11-25, basic/utilities/progress and server/utilities/logging; 2026-07-28 names the level in each request.
"""

from collections.abc import Sequence
from typing import Any, Final, cast, overload

from mcp_baton.exceptions import Abandoned
from mcp_baton.protocol.envelope import LOG_LEVELS, Envelope, Era
from mcp_baton.protocol.json import Json, dumps
from mcp_baton.server.running.call import Call

NOT_GIVEN: Final[Any] = object()
"""Stands for an argument that was not given, where `None` is a value."""

DEFAULT_LEVEL: Final = "info"

HANDSHAKE_LOG_LEVEL: Final = "info"
"""The least severe level that is sent where no request names one: in the handshake era a server decides."""


def send_progress(call: Call, progress: float, total: float | None, message: str | None) -> None:
    """Tell the client how far the function has come, if it asked to be told.

    Raises:
        ValueError, TypeError: something of it is not JSON.
    """
    token = call.envelope.progress_token
    if token is None or not progress > call.reported:
        return
    call.reported = progress
    shown = call.progress(progress, total) if call.progress else (progress, total)
    if shown is None:
        return
    params: dict[str, Json] = {"progressToken": token, "progress": shown[0]}
    if shown[1] is not None:
        params["total"] = shown[1]
    if message is not None:
        params["message"] = message
    _send(call, "notifications/progress", params)


def send_log(call: Call, level: str, message: Json, logger: str | None) -> None:
    """Send the client a log message, if it asked for messages of this level.

    Raises:
        ValueError, TypeError: the message is not JSON.
    """
    dumps(message)
    wanted = _wanted_level(call.envelope)
    if wanted is None or LOG_LEVELS.index(level) < LOG_LEVELS.index(wanted):
        return
    params: dict[str, Json] = {"level": level, "data": message}
    if logger is not None:
        params["logger"] = logger
    _send(call, "notifications/message", params)


def _wanted_level(envelope: Envelope) -> str | None:
    """The least severe level to send; `None` for none."""
    return envelope.log_level or (HANDSHAKE_LOG_LEVEL if envelope.era is Era.HANDSHAKE else None)


def _send(call: Call, method: str, params: dict[str, Json]) -> None:
    # Written as JSON here, too, so that the author of the tool gets the error; the request's thread could only give up.
    dumps(params)
    call.emit(method, params)


def level_and_message(positional: Sequence[Json], level: str, message: Json) -> tuple[str, Json]:
    """A log level and a message: `("info", "x")`, `("x", "info")`, `("x",)`, or named.

    Raises:
        TypeError: there are too many arguments, or no message.
        ValueError: there is no such level.
    """
    given = list(positional)
    if (
        message is NOT_GIVEN
        and level is NOT_GIVEN
        and len(given) == 2
        and not _is_level(given[0])
        and _is_level(given[1])
    ):
        given.reverse()
    if level is NOT_GIVEN and (len(given) == 2 or (given and message is not NOT_GIVEN)):
        level = cast("str", given.pop(0))
    if message is NOT_GIVEN and given:
        message = given.pop(0)
    if given or message is NOT_GIVEN:
        raise TypeError("log: give a level and a message, in either order")
    level = DEFAULT_LEVEL if level is NOT_GIVEN else level
    if not _is_level(level):
        raise ValueError(f"log level {level!r}: use one of {', '.join(LOG_LEVELS)}")
    return level, message


def _is_level(value: Json) -> bool:
    return isinstance(value, str) and value in LOG_LEVELS


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
    def log(self, level: str, message: Json, /, *, logger: str | None = None) -> None: ...
    @overload
    def log(self, message: Json, /, level: str = "info", *, logger: str | None = None) -> None: ...
    @overload
    def log(self, *positional: Json, level: str = ..., message: Json = ..., logger: str | None = None) -> None: ...
    def log(
        self, *positional: Json, level: str = NOT_GIVEN, message: Json = NOT_GIVEN, logger: str | None = None
    ) -> None:
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
        send_log(self._call, level, message, logger)

    def debug(self, message: Json) -> None:
        """`log("debug", …)`."""
        self.log("debug", message)

    def info(self, message: Json) -> None:
        """`log("info", …)`."""
        self.log("info", message)

    def warning(self, message: Json) -> None:
        """`log("warning", …)`."""
        self.log("warning", message)

    def error(self, message: Json) -> None:
        """`log("error", …)`."""
        self.log("error", message)

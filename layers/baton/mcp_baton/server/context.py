"""`Context`: what a tool can ask of, and say to, the request that it runs in (contract section 2)."""

from collections.abc import Callable, Generator, MutableMapping
from dataclasses import dataclass, field

from mcp_baton.exceptions import Abandoned
from mcp_baton.protocol.envelope import LOG_LEVELS, Envelope
from mcp_baton.protocol.json import Json, dumps
from mcp_baton.tasks.variables import TaskVariables

type Emit = Callable[[str, dict[str, Json]], None]
"""Sends a notification: method and params."""


type ProgressMap = Callable[[float, float | None], tuple[float, float | None] | None]
"""How a function's own progress and total become the request's; `None` for what must not be reported."""


class Done:
    """What a plain call returns: nothing, though it may be awaited, so that tools can be written either way."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


DONE = Done()


@dataclass(slots=True)
class Scope:
    """One call of a tool: what its `Context` stands on.

    Attributes:
        emit: Sends a notification to the client while the tool runs.
        progress: How a tool's own progress becomes the request's; `None` where nobody wants progress.
        abandoned: Nobody waits for the tool any more.
    """

    request_id: str
    owner: str | None
    envelope: Envelope
    remaining_ms: Callable[[], int | None]
    emit: Emit
    variables: TaskVariables | None = None
    progress: ProgressMap | None = None
    abandoned: bool = False
    reported: float = field(default=float("-inf"))


class Context:
    """The request that a tool runs in. A parameter annotated with it is filled in, and is not part of the schema.

    Its calls are plain ones in `def` and `async def` alike; awaiting them is allowed. In a tool that was abandoned, or
    whose task was cancelled, the next call raises and so ends it.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    @property
    def request_id(self) -> str:
        """The id of the invocation, as it stands in the logs."""
        return self._scope.request_id

    @property
    def owner(self) -> str | None:
        """The authenticated identity of the caller; `None` for a caller without one."""
        return self._scope.owner

    @property
    def task(self) -> MutableMapping[str, Json] | None:
        """The variables of the task that this call belongs to, to read and to set; `None` without a task."""
        self._check()
        return self._scope.variables

    def remaining_ms(self) -> int | None:
        """Milliseconds until the function is stopped; `None` where nothing stops it."""
        self._check()
        return self._scope.remaining_ms()

    def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> Done:
        """Tell the client how far the tool has come, if it asked to be told.

        Args:
            progress: Grows with each call; a report that does not is left out, as MCP wants it.
            total: What `progress` will be at the end, where that is known.
            message: What is being done, for a person.

        Raises:
            ValueError, TypeError: something of it is not JSON.
        """
        self._check()
        scope = self._scope
        token = scope.envelope.progress_token
        if token is None or not progress > scope.reported:
            return DONE
        scope.reported = progress
        shown = scope.progress(progress, total) if scope.progress else (progress, total)
        if shown is None:
            return DONE
        params: dict[str, Json] = {"progressToken": token, "progress": shown[0]}
        if shown[1] is not None:
            params["total"] = shown[1]
        if message is not None:
            params["message"] = message
        return self._say("notifications/progress", params)

    def log(self, level: str, message: Json, *, logger: str | None = None) -> Done:
        """Send the client a log message, if it asked for messages of this level.

        Args:
            level: `debug`, `info`, `notice`, `warning`, `error`, `critical`, `alert` or `emergency`.
            message: Text, or any JSON value.
            logger: The name of what is speaking.

        Raises:
            ValueError, TypeError: an unknown level, or a message that is not JSON.
        """
        self._check()
        if level not in LOG_LEVELS:
            raise ValueError(f"log level {level!r}: use one of {', '.join(LOG_LEVELS)}")
        dumps(message)
        wanted = self._scope.envelope.log_level
        if wanted is None or LOG_LEVELS.index(level) < LOG_LEVELS.index(wanted):
            return DONE
        params: dict[str, Json] = {"level": level, "data": message}
        if logger is not None:
            params["logger"] = logger
        return self._say("notifications/message", params)

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

    def _say(self, method: str, params: dict[str, Json]) -> Done:
        # Tried here, where the author of the tool hears of what is not JSON; the request's thread could only give up.
        dumps(params)
        self._scope.emit(method, params)
        return DONE

    def _check(self) -> None:
        if self._scope.abandoned:
            raise Abandoned

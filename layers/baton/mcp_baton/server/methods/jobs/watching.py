"""What a worker's thread does while the function runs: renew the claim, look whether the task is still to be worked on
(docs/background.md, Cancelling)."""

from mcp_baton.protocol.http import Exchange
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.reply import Reply
from mcp_baton.workflow.holding import LOOK_AFTER_S, Hold


class Watch(Reply):
    """The reply of a request that nobody waits at: the function's client has gone once its task is over, or another
    worker's.

    Attributes:
        hold: The worker's claim on the task.
    """

    def __init__(self, exchange: Exchange) -> None:
        super().__init__(exchange, streams=False)
        self.hold: Hold | None = None
        self._ended = False
        self._stopped = False

    @property
    def gone(self) -> bool:
        """Whether what runs is to stop."""
        return self._ended or self._stopped

    @property
    def ended(self) -> bool:
        """Whether the task is over, or another worker's."""
        return self._ended

    def stop(self) -> None:
        """Have what runs stop, although the task goes on: the workflow that it belongs to does not."""
        self._stopped = True

    def pulse(self) -> float:
        """Look after the task; the seconds until that is due again."""
        if self.hold is None:
            return LOOK_AFTER_S
        self._ended = self._ended or self.hold.look() is not None
        return 0 if self._ended else min(self.hold.pulse(), LOOK_AFTER_S)

    def notify(self, method: str, params: dict[str, Json]) -> None:
        """What the function says goes to nobody."""

    def request(self, identifier: str, method: str, params: JsonObject) -> None:
        """Nobody can be asked this way."""

    def keep_alive(self) -> None:
        """Nothing is kept open."""

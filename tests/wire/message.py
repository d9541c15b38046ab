"""A message from the server, with the request that it belongs to."""

from dataclasses import dataclass
from typing import Any

type JsonDict = dict[str, Any]

TASKS_REVISION = "2025-11-25"
"""The handshake revision that supports `tasks/*`."""


@dataclass(frozen=True, slots=True)
class ServerMessage:
    """One message on the wire.

    Attributes:
        revision: The protocol revision of the request that it belongs to.
        method: That request's method; `None` if the request could not be read.
        params: That request's params.
    """

    body: JsonDict
    revision: str
    method: str | None
    params: JsonDict

    @property
    def stateless(self) -> bool:
        """Whether the message belongs to the era without a handshake."""
        return self.revision >= "2026"

    @property
    def result(self) -> JsonDict | None:
        result: JsonDict | None = self.body.get("result")
        return result

    @property
    def makes_task(self) -> bool:
        """Whether the result is a new task instead of the requested result."""
        if self.stateless:
            return self.result is not None and self.result.get("resultType") == "task"
        return self.result is not None and "task" in self.params and "task" in self.result

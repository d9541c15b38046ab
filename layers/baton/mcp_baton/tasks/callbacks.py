"""The addresses of callbacks (docs/waiting.md, Callbacks)."""

from typing import Protocol

from msgspec import Struct


class CallbackTarget(Struct, frozen=True):
    """What an address leads to: a waiting step of a task.

    Attributes:
        job_id: The background job that runs the task's workflow, if one does.
    """

    owner: str
    task_id: str
    step: str
    job_id: str | None = None


class CallbackStore(Protocol):
    """Stores the addresses. Each method may raise `StoreUnavailable`."""

    def add(self, digest: str, pointer: CallbackTarget, until_ms: int) -> None:
        """Store the digest of a new address until a time, epoch milliseconds: one `PutItem`."""

    def find(self, digest: str) -> CallbackTarget | None:
        """What an address leads to; `None` if it is unknown or has expired: one `GetItem`, strongly consistent."""

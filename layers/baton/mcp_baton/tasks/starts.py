"""The starts of workflows by calls of their tools, so that a repeated call finds the task of the first one
(docs/workflows.md, Repeated calls)."""

from typing import Protocol

from msgspec import Struct


class Start(Struct, frozen=True):
    """Which call has started a task. Times are epoch milliseconds.

    Attributes:
        task_id: The task that the call's reply names: of the workflow, or of its background call.
        asked_ms: When the call arrived.
        until_ms: When the claim of the first run ends. Until then the task may still be created.
        call: The digest of an event's arguments; empty for a call.
        created: Whether the task of an event is known to have been created.
    """

    task_id: str
    asked_ms: int
    until_ms: int
    call: str = ""
    created: bool = False


class StartStore(Protocol):
    """Stores the last start of each call, by a digest of the call (`start_digest`)."""

    def begin(
        self, owner: str, digest: str, start: Start, instead_of: Start | None, lives_ms: int | None = None
    ) -> Start | None:
        """Store a start: one `UpdateItem`.

        Args:
            instead_of: The start to replace; `None` if there must be none.
            lives_ms: How long it is kept; `None` for as long as a task can live.

        Returns:
            `None` if it was stored; otherwise the start that another call has stored.

        Raises:
            StoreError: it is not known whether the start was stored, or it was not.
        """

    def replace(self, owner: str, digest: str, start: Start) -> None:
        """Store a start instead of any other: one `UpdateItem`. Raises as `begin`."""

    def confirm(self, digest: str, start: Start) -> None:
        """Store that the task of an event was created: one `UpdateItem`."""

    def forget(self, digest: str, start: Start) -> None:
        """Remove a start whose task was not created, unless another call has replaced it: one `UpdateItem`."""

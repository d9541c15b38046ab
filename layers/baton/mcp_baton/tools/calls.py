"""Which call this is, of which task and step, and which attempt; and how its function is called."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

from msgspec import Struct

from mcp_baton.tasks.keys import Key
from mcp_baton.tasks.record import TaskRecord
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.tools.approval import Approval
from mcp_baton.tools.running.tool_threads import no_pulse
from mcp_baton.tools.secrets import NO_SECRETS, Secrets

type ProgressMap = Callable[[float, float | None], tuple[float, float | None] | None]
"""Converts a function's progress and total to those of the request. `None` if they must not be reported."""


class CalledStep(Protocol):
    """What a guard must know of the step of a call."""

    @property
    def name(self) -> str: ...

    @property
    def fingerprint(self) -> str: ...

    @property
    def arguments(self) -> Mapping[str, Any]: ...

    @property
    def approval(self) -> Approval | None: ...

    @property
    def max_calls(self) -> int:
        """How often the call is made at most if it fails cleanly each time."""

    def may_repeat(self, error: BaseException | None) -> bool:
        """Whether the call may be made again after it has raised this."""


class CalledWorkflow(Protocol):
    """What a guard must know of the workflow of a call."""

    @property
    def name(self) -> str: ...

    @property
    def secrets(self) -> frozenset[str]: ...


class ToolCall(Struct, frozen=True):
    """Which call this is, which guards check, and how its function is called.

    Attributes:
        workflow: The workflow of the task that the call names.
        step: The step, if the definition has it.
        name: The step's name; for an element of a list, with its index.
        task: The task; `None` for a call without a task.
        is_turn: Whether it is the step's turn.
        is_item: Whether the call is one of several of its step.
        by: Names the attempt; empty to make a new name.
        before: The attempt that this one repeats: the earlier round of a call that asked the client.
        secrets: The secrets of the run, which people must not see.
        number: The number of the attempt within its step, from 1.
        key: The idempotency key of all attempts; `None` for a call that gets a key of its own.
        other_approval: The approval of another step with the same tool, for which the call may be meant.
        hidden: The arguments that people must not see, of a call of a client.
        variables: The task's variables; `None` without a task.
        progress: Converts the progress that the function reports.
        stay: Whether the function continues if the client disconnects.
        pulse: The request's thread calls it while the function runs.
        starts_task: Whether the function may begin a task.
    """

    workflow: CalledWorkflow | None = None
    step: CalledStep | None = None
    name: str | None = None
    task: TaskRecord | None = None
    is_turn: bool = False
    is_item: bool = False
    by: str = ""
    before: str | None = None
    secrets: Secrets = NO_SECRETS
    number: int = 1
    key: Key | None = None
    other_approval: Approval | None = None
    hidden: frozenset[str] = frozenset()
    variables: TaskVariables | None = None
    progress: ProgressMap | None = None
    stay: bool = False
    pulse: Callable[[], float] = no_pulse
    starts_task: bool = False

    @property
    def approval(self) -> Approval | None:
        """The approval that the step adds to its tool, or that the call would avoid."""
        return (self.step.approval if self.step else None) or self.other_approval

    def allows(self, only_in: Collection[str]) -> bool:
        """Whether a tool that runs only in these workflows may run here."""
        return self.is_turn and self.workflow is not None and self.workflow.name in only_in


ONLY_CALL = ToolCall()
"""A call that belongs to no task."""

"""What the kinds of steps use of the run that runs them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.record import TaskRecord
from mcp_baton.tasks.store import Timing
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.tools.calls import ToolCall
from mcp_baton.tools.outcomes import Failed, Prepared
from mcp_baton.tools.secrets import Secrets
from mcp_baton.workflow.host import Host
from mcp_baton.workflow.lease import Lease, Over
from mcp_baton.workflow.list_elements import ListElements
from mcp_baton.workflow.step_run import StepRun, Stop
from mcp_baton.workflow.steps.step import Step


class OpenRun(Protocol):
    """A run in progress (`WorkflowRun`).

    Attributes:
        known: What is known: `resolve.KnownValues`.
        lists: The calls of lists, by step.
        items: The elements and results of lists, by step.
        running: How many calls of a step run in other threads, by step.
        stops: The steps that could not be settled, each with the reason.
    """

    host: Host
    known: Any
    secrets: Secrets
    variables: TaskVariables
    lease: Lease | None
    rng: Callable[[], float]
    lists: dict[str, Any]
    items: dict[str, ListElements]
    running: dict[str, int]
    stops: dict[str, StepRun]

    @property
    def task(self) -> TaskRecord | None: ...

    @property
    def is_written(self) -> bool: ...

    def now_ms(self) -> int: ...

    def begin(self, this: StepRun, host: Host) -> Stop | None: ...

    def check_claim(self, step: Step, host: Host) -> Stop | None: ...

    def known_to(self, this: StepRun) -> Any: ...

    def fetch_before(self, this: StepRun, host: Host) -> Failed | None: ...

    def fetch_after(self, this: StepRun, uris: Sequence[str], known: Any, host: Host) -> None: ...

    def fetch_again(self, this: StepRun) -> None: ...

    def replayed_arguments(self, step: Step) -> JsonObject: ...

    def stop_before(self, this: StepRun, stop: Stop) -> None: ...

    def tool_call(self, this: StepRun, prepared: Prepared, earlier_attempts: int) -> ToolCall: ...

    def next_attempt_ms(self, this: StepRun) -> int | None: ...

    def succeed(self, this: StepRun, value: Json, arguments: JsonObject | None = None) -> None: ...

    def fail(self, this: StepRun, failed: Failed, arguments: Mapping[str, Json] | None = None) -> None: ...

    def timing(self, this: StepRun) -> Timing | None: ...

    def end_of_wait(self, until_ms: int, now_ms: int) -> int | str: ...

    def settle(self, this: StepRun) -> None: ...

    def stop_at(self, this: StepRun) -> None: ...

    def write(self) -> Over | None: ...

    def write_checkpoint(self, step: Step) -> None: ...

    def reopen(self, step: Step) -> None: ...

    def take_settled(self, step: Step) -> None: ...

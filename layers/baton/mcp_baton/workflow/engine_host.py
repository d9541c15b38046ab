"""The engine's host: it runs the server's tools, reads its resources, and reports progress."""

import copy
import math
from collections.abc import Sequence

from msgspec import structs

from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tools.arguments import Argument
from mcp_baton.tools.calls import ONLY_CALL, ToolCall
from mcp_baton.tools.content import ResourceContent
from mcp_baton.tools.outcomes import Failed, Mismatch, Outcome, Prepared, ResourceUnavailable
from mcp_baton.tools.resource import contents_of_outcome, find_in, mismatch_reason
from mcp_baton.tools.running.runner import bound_resource, bound_tool, call, run
from mcp_baton.tools.running.tool_threads import Listener
from mcp_baton.transport.exchange import KEEP_ALIVE_S
from mcp_baton.workflow.execution import Execution
from mcp_baton.workflow.lease import Lease, ThreadLease
from mcp_baton.workflow.parallel_calls import ParallelCalls
from mcp_baton.workflow.workflow_tool import argument_schemas

START_MARGIN_MS = 1_000
"""No step starts with less time than this before the write reserve, milliseconds."""


class ServerHost:
    """Implements `workflow.host.Host` for one request or background job.

    Args:
        until_s: When the client stops waiting, on `Services.clock`. No step starts after that (docs/workflows.md, As a
            tool).
    """

    def __init__(self, execution: Execution, *, until_s: float = math.inf) -> None:
        self._execution = execution
        self.job_id = execution.job_id
        self.announces = execution.envelope.progress_token is not None
        self.left_ms = execution.exchange.remaining_ms
        self.lease: Lease | ThreadLease | None = None
        self._until_s = until_s
        self._reserve_ms = execution.services.settings.write_reserve_ms + START_MARGIN_MS
        self._asker_factory = execution.asking_in_workflow()
        self.required, self.carries = execution.server.required, execution.server.carries
        self.words, self.error_id = execution.client_error_text, execution.error_id
        self._is_in_thread = False
        self._started_steps = 0
        self._total_steps = 0
        self._reported_progress = 0.0

    def prepare(self, tool: str, arguments: JsonObject) -> Prepared | Mismatch:
        return bound_tool(self._execution.server.tools[tool]).prepare(arguments)

    def canonical(self, tool: str, arguments: JsonObject) -> JsonObject:
        return self._execution.server.tools[tool].canonical(arguments)

    def answer_schema(self, question: Argument) -> JsonObject:
        schemas, definitions = argument_schemas((question,))
        return {**schemas[question.name], "$defs": definitions} if definitions else schemas[question.name]

    def run(self, prepared: Prepared, tool_call: ToolCall) -> Outcome:
        """Run a tool. It continues if the client disconnects: its result is recorded in the task."""
        target = bound_tool(self._execution.server.tools[prepared.name])
        try:
            if tool_call.number > 1:
                # The tool may have changed the arguments of the first call.
                new_prepared = target.prepare(prepared.arguments)
                prepared = new_prepared if isinstance(new_prepared, Prepared) else prepared
            return run(self._execution, target, prepared, self._asker_factory, self._with_pulse(tool_call))
        except ProtocolError as error:
            return Failed(error.message, cause=error)

    def read(self, uri: str) -> Sequence[ResourceContent]:
        match = find_in(self._execution.server.resources, uri)
        if match is None:
            raise ResourceUnavailable(
                f"there is no resource {uri}{mismatch_reason(self._execution.server.resources, uri)}"
            )
        resource, arguments = match
        try:
            target = bound_resource(resource, uri)
            outcome = call(self._execution, target, arguments, self._asker_factory, self._with_pulse(ONLY_CALL))
            return [contents_of_outcome(outcome)]
        except ProtocolError as error:
            raise ResourceUnavailable(error.message) from error

    def pulse(self) -> float:
        """Renew the claim, if there is one and that is due. Returns the seconds until the next call of this."""
        return KEEP_ALIVE_S if self.lease is None else self.lease.pulse()

    def _with_pulse(self, tool_call: ToolCall) -> ToolCall:
        return structs.replace(tool_call, progress=self._map_progress, stay=True, pulse=self.pulse)

    def announce(self, started: int, total: int, step: str, task_id: str | None) -> None:
        """Send `notifications/progress`, if the client asked for it.

        The first one has the task's id in `_meta`, so that a client that loses its connection can resume the task.
        """
        is_first = self._started_steps == 0
        self._started_steps, self._total_steps = started, total
        if not started > self._reported_progress:
            # The step was announced before. The run continues with the answers of a person.
            return
        self._reported_progress = float(started)
        token = self._execution.envelope.progress_token
        if token is None:
            return
        params: dict[str, Json] = {"progressToken": token, "progress": started, "total": total}
        params["message"] = f"Step {started}/{total}: {step}"
        if is_first and task_id is not None:
            params["_meta"] = {"task_id": task_id}
        self._execution.listener.notify("notifications/progress", params)

    def may_start(self, after_s: float = 0.0) -> bool:
        """Whether enough time is left to start a step, after this many seconds."""
        if self._until_s < math.inf and self._execution.services.clock() + after_s >= self._until_s:
            return False
        remaining_ms = self._execution.exchange.remaining_ms()
        return remaining_ms is None or remaining_ms - after_s * 1000 > self._reserve_ms

    def wait(self, seconds: float) -> None:
        while seconds > 0:
            part = min(seconds, KEEP_ALIVE_S, self.pulse())
            self._execution.services.sleep(part)
            seconds -= part
            if seconds > 0:
                self._execution.listener.keep_alive()

    def threads(self) -> ParallelCalls:
        return ParallelCalls(self._execution.listener, self._for_thread, self._with_pulse(ONLY_CALL).pulse)

    def _for_thread(self, listener: Listener, lease: ThreadLease | None) -> "ServerHost":
        """Return a copy of this host for a call in another thread. The progress of the call is not sent: several calls
        share the progress of the request, which must increase."""
        host = copy.copy(self)
        execution = structs.replace(self._execution, reports_to=listener)
        vars(host).update(_execution=execution, _is_in_thread=True, _total_steps=0, lease=lease)
        return host

    def _map_progress(self, progress: float, total: float | None) -> tuple[float, float | None] | None:
        """Convert a function's progress to a fraction of its step. `None` if the request's progress would not increase.

        A step may call several functions, and a function may change its total. The value must increase with each
        notification (MCP basic/utilities/progress).
        """
        if not self._total_steps:
            # Before its first step, a resume reads the resources of earlier steps.
            return None
        assumed_total = total if total is not None and total > 0 else progress + 1
        fraction = min(max(progress / assumed_total, 0.0), 1.0) * 0.99 if assumed_total > 0 else 0.0
        if not self._started_steps + fraction > self._reported_progress:
            return None
        self._reported_progress = self._started_steps + fraction
        return self._reported_progress, self._total_steps

"""A step that calls a tool (docs/workflows.md, Steps)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypedDict, TypeGuard

from msgspec import structs

from mcp_baton.hints import did_you_mean
from mcp_baton.tasks.record import TRIED_PREFIX, WAIT_PREFIX, timestamp
from mcp_baton.tools.approval import Approval
from mcp_baton.tools.calls import ToolCall
from mcp_baton.tools.labels import value_text
from mcp_baton.tools.outcomes import Failed, Failure, Outcome, Prepared, Succeeded
from mcp_baton.workflow.host import Host
from mcp_baton.workflow.pause import Waiting, approval_pause
from mcp_baton.workflow.step_run import StepRun, Stop
from mcp_baton.workflow.steps.context import StepContext
from mcp_baton.workflow.steps.open_run import OpenRun
from mcp_baton.workflow.steps.retry import Retry
from mcp_baton.workflow.steps.step import Step

WORKFLOW_NAME: Final = "__baton_workflow_name__"
"""The attribute of a workflow function that has the workflow's name."""

TAKE_OVER: Final = (
    "call the workflow function itself, without step, to add its steps to this workflow, or copy the steps into it"
)


class ToolFunction(str):
    """A function that a step has as its tool, until the server resolves the tool's name."""

    __slots__ = ("function",)
    function: Callable[..., object]

    @classmethod
    def of(cls, function: Callable[..., object]) -> "ToolFunction":
        tool_function = cls(getattr(function, "__name__", None) or repr(function))
        tool_function.function = function
        return tool_function


class CallOptions(TypedDict, total=False):
    """The options of every step that calls a tool, as keyword arguments: see `ToolStep`."""

    guidance: str | None
    """What a model should bear in mind when it makes this call itself; `{arg}` is replaced."""
    retryable: bool
    """Whether the same call may succeed if it is made again."""
    checkpoint: bool
    """Whether the state is written right after this step."""
    retry: Retry | None
    """How often the tool is called again within a run."""
    when: object
    """The step runs only if this condition holds: `order.total > 100`, `exists(x) & not_(y)`."""
    approval: Approval | None
    """A person must approve the call, if the tool has no approval itself."""
    after: Sequence[Any]
    """Earlier steps, by name or by reference, that must be settled before this step starts."""


class ToolStep(Step):
    """A step that calls a tool. It may fetch resources before or after the call.

    Attributes:
        name: Unique in its workflow. May be the tool's function, which then gives the step its name and its tool.
        arguments: Sources by the tool's parameter.
        tool: The name of the tool to call. May be the decorated function itself, which becomes a `ToolFunction` until
            the server is checked.
        binding: The name under which later steps refer to this step's output; the step's own unless given.
        guidance: A note for a model that makes this call; `{arg}` is replaced.
        resources: URIs to fetch before the tool is called; `{name}` is replaced from `template_bindings`, else by a
            prompt argument.
        template_bindings: Sources for the `{name}`s in `resources`. One may be the step's own output: such resources
            are fetched after the tool.
        retryable: Whether the same call may succeed if it is made again.
        checkpoint: Write all results right after this step. For effects that must not happen twice.
        retry: How often, and after which waits, the tool is called again within a run; `None` for one call.
        when: The step runs only if this condition holds; otherwise it is skipped (docs/workflows.md, Conditions).
        after: The names of earlier steps, or references to them, that must be settled before this step starts, even if
            it uses nothing of them. Matters only with `Workflow.parallel`.
        approval: A person must approve the call of a tool that has no approval itself (docs/approvals.md).
    """

    tool: str

    def __init__(
        self,
        name: str | Callable[..., object],
        arguments: Mapping[str, Any] | None = None,
        *,
        tool: str | Callable[..., object] = "",
        binding: str | None = None,
        guidance: str | None = None,
        resources: Sequence[str] = (),
        template_bindings: Mapping[str, Any] | None = None,
        retryable: bool = False,
        checkpoint: bool = False,
        retry: Retry | None = None,
        when: object = None,
        after: Sequence[Any] = (),
        approval: Approval | None = None,
    ) -> None:
        faults: list[str] = []
        if callable(name) and not tool:
            name, tool = getattr(name, "__name__", ""), name
        super().__init__(
            name,
            binding=binding,
            when=when,
            after=after,
            tool=_tool_name(tool, faults),
            arguments=arguments,
            guidance=guidance,
            resources=resources,
            template_bindings=template_bindings,
            retryable=retryable,
            checkpoint=checkpoint,
            retry=_retry(retry, faults),
            approval=approval,
            faults=faults,
        )

    @property
    def label(self) -> dict[str, str]:
        return {"tool": self.tool}

    def tool_faults(self, context: StepContext) -> Iterator[str]:
        tools, tool = context.tools, self.tool
        if not tool:
            yield "it has no tool; give it one, or write Fetch(…) for a step that only fetches resources"
        elif tool in context.workflows and tool not in tools and not isinstance(tool, ToolFunction):
            yield f"{tool!r} is a workflow, which no step can call; {TAKE_OVER}"
        elif isinstance(tool, ToolFunction) or tool not in tools:
            yield _tool_error(tool, {name: published.decorated for name, published in tools.items()})
        else:
            parameters = tools[tool].signature.names
            for name in self.arguments:
                if name in parameters:
                    continue
                if name in _STEP_OPTIONS:
                    remedy = f"write step({tool}, {name}=…)(…), or {type(self).__name__}(…, {name}=…)"
                    yield f"{name!r} is an option of the step, and no parameter of the tool {tool!r}; {remedy}"
                else:
                    yield f"the tool {tool!r} has no parameter {name!r}{did_you_mean(name, sorted(parameters))}"

    def has_misplaced_option(self, context: StepContext) -> bool:
        tool = None if isinstance(self.tool, ToolFunction) else context.tools.get(self.tool)
        return tool is not None and not _STEP_OPTIONS.isdisjoint(self.arguments.keys() - tool.signature.names)

    def may_start(self, run: OpenRun, this: StepRun) -> Stop | None:
        until_ms = run.known.waits().get(self.name) if self.retry else None
        if until_ms and until_ms > run.now_ms():
            # An earlier run has postponed the next attempt.
            return Waiting(self.name, "time", timestamp(until_ms), "")
        return run.begin(this, run.host)

    def perform(self, run: OpenRun, this: StepRun, host: Host) -> None:
        """Fetch resources, prepare the call, make it, and fetch the resources whose URIs need its result."""
        known = run.known_to(this)
        if self.resources and (failed := run.fetch_before(this, host)) is not None:
            run.fail(this, failed)
            return
        prepared: Prepared | Stop = known.prepare(self, host)
        if self.resources and (stop := run.check_claim(self, host)) is not None:
            # Reading the resources took so long that the claim may have ended. It could not be renewed.
            prepared = stop
        if not isinstance(prepared, Prepared):
            run.stop_before(this, prepared)
            return
        call = run.tool_call(this, prepared, self.earlier_attempts(run, this))
        outcome = attempt(this, host, prepared, call, run.rng)
        if isinstance(outcome, Succeeded):
            run.succeed(this, outcome.value, prepared.arguments)
            # The tool has run. A resource that cannot be fetched now must not cause a second call.
            later = [resource for resource in self.resources if self.read_after(resource)]
            if later:
                run.fetch_after(this, later, known.after(self, outcome.value), host)
        elif this.stop and not this.attempts:
            return  # the task was over before the first attempt
        elif outcome.not_approved is not None:
            this.stop = approval_pause(self.name, outcome.not_approved)
        else:
            this.retry_s = None if host.job_id is None else this.retry_s
            run.fail(this, outcome, prepared.arguments)

    def replay(self, run: OpenRun, this: StepRun) -> None:
        this.arguments = run.replayed_arguments(self)

    def end(self, run: OpenRun, this: StepRun) -> None:
        """Stop at the step if a worker can make its next attempt later and the task lives long enough. Otherwise the
        step fails, and a resume has all attempts again."""
        until_ms = run.next_attempt_ms(this) if this.failed and self.retry else None
        if until_ms is not None:
            run.variables.note(f"{WAIT_PREFIX}{self.name}", until_ms)
            run.variables.note(f"{TRIED_PREFIX}{self.name}", this.attempts)
            run.stop_at(StepRun(self, stop=Waiting(self.name, "time", timestamp(until_ms), "")))
            return
        if this.failed and self.earlier_attempts(run, this):
            run.variables.note(f"{TRIED_PREFIX}{self.name}", 0)
        super().end(run, this)

    def earlier_attempts(self, run: OpenRun, this: StepRun) -> int:  # noqa: ARG002 - a list needs the element
        """How often earlier runs called the tool, before its wait for the next attempt."""
        tries = run.variables.get(f"{TRIED_PREFIX}{self.name}") if self.retry else None
        return tries if isinstance(tries, int) else 0


_STEP_OPTIONS: Final = frozenset(
    {*ToolStep.__init__.__annotations__, "each", "parallel"} - {"tool", "arguments", "binding", "return"}
)
"""The options of `step(…)`."""


def attempt(
    this: StepRun,
    host: Host,
    call: Prepared,
    tool_call: ToolCall,
    rng: Callable[[], float],
) -> Outcome:
    """Call a step's tool until it succeeds, or until it must not or cannot be called again.

    Notes in `this` the number of attempts. If the run cannot write to its task any more, it makes no further attempt
    and notes why (`stop`). If the wait before the next attempt is too long for this invocation, it notes the wait
    (`retry_s`).
    """
    step, lease = this.step, host.lease
    outcome = host.run(call, tool_call)
    if _was_not_called(outcome):
        # The claim is renewed just before a call. The renewal may show that the task is over or has another run.
        this.attempts, this.stop = 0, lease.over if lease else None
        return outcome
    this.attempts = tool_call.number
    while isinstance(outcome, Failed) and _may_retry(step, outcome, this.attempts):
        wait_s = step.retry.wait_s(this.attempts, rng) if step.retry else 0.0
        if not host.may_start(wait_s):
            this.retry_s = wait_s
            return outcome
        host.wait(wait_s)
        this.stop = lease.check() if lease else None
        if this.stop:
            return outcome
        if not host.may_start() or (lease and not lease.is_safe()):
            this.retry_s = wait_s
            return outcome
        next_outcome = host.run(call, structs.replace(tool_call, number=this.attempts + 1))
        if isinstance(next_outcome, Failed) and next_outcome.not_approved is not None:
            return next_outcome  # the approval has expired, or was used up
        if _was_not_called(next_outcome):
            this.retry_s = wait_s if next_outcome.kind is Failure.OUT_OF_TIME else None
            return outcome
        outcome = next_outcome
        this.attempts += 1
    return outcome


def _was_not_called(outcome: Outcome) -> TypeGuard[Failed]:
    return isinstance(outcome, Failed) and not outcome.was_made


def _may_retry(step: Step, failed: Failed, attempts: int) -> bool:
    """Whether the call may be made again. A call that timed out may have happened: only a retryable step repeats it."""
    if step.retry is None or attempts >= step.retry.attempts or failed.asks_client:
        return False
    match failed.kind:
        case Failure.RAISED:
            return isinstance(failed.cause, step.retry.on) and not failed.is_final
        case Failure.TIMED_OUT:
            return step.retryable
        case _:
            return False


def _tool_error(tool: str, functions: Mapping[str, object]) -> str:
    """The error for a tool that the server does not have, or has more than once."""
    if not isinstance(tool, ToolFunction):
        return f"unknown tool {tool!r}{did_you_mean(tool, functions)}"
    # Each access to a method creates a new object, which equals the last one.
    names = [name for name, function in functions.items() if function == tool.function]
    if names:
        several = " and ".join(repr(name) for name in names)
        return f"the function {str(tool)!r} is published as {several}; give the name that is meant, as a text"
    duplicate = next((function for function in functions.values() if _is_same_source(function, tool.function)), None)
    if duplicate is not None:
        modules = " and ".join(repr(getattr(function, "__module__", "?")) for function in (duplicate, tool.function))
        return (
            f"the function {str(tool)!r} is not a tool of this server, though one from the same line is: its file was "
            f"imported twice, as {modules}; import it under one name, or move the server into another file than the "
            "one that is served"
        )
    if hasattr(tool.function, WORKFLOW_NAME):
        return f"the function {str(tool)!r} is a workflow, which no step can call; {TAKE_OVER}"
    remedy = "publish it with @server.tool, above its other decorators"
    return f"the function {str(tool)!r} is not a tool of this server; {remedy}"


def _is_same_source(first: object, second: Callable[..., object]) -> bool:
    """Whether two functions come from the same line of one file."""
    first_code, second_code = getattr(first, "__code__", None), getattr(second, "__code__", None)
    if first_code is None or second_code is None:
        return False
    return (first_code.co_filename, first_code.co_firstlineno) == (second_code.co_filename, second_code.co_firstlineno)


def _tool_name(tool: Any, faults: list[str]) -> str:
    if isinstance(tool, str):
        return tool
    if callable(tool):
        return ToolFunction.of(tool)
    faults.append(
        f"its tool is a tool's name or its function, and not {value_text(tool)}; "
        "give the function itself, tool=function, without calling it"
    )
    return ""


def _retry(retry: Any, faults: list[str]) -> Retry | None:
    if isinstance(retry, Retry | None):
        faults += retry.faults if retry else ()
        return retry
    faults.append(f"retry={value_text(retry)} is not a Retry; write retry=Retry(attempts=3)")
    return None

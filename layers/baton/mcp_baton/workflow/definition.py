"""A workflow's definition: immutable, and checked when the server's handler is made (docs/workflows.md)."""

import math
import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, Literal, cast

from msgspec import Struct
from msgspec.structs import force_setattr

from mcp_baton.definition_lines import note_definition
from mcp_baton.exceptions import RegistrationError, ToolError, WorkflowError
from mcp_baton.protocol.json import Json, dumps
from mcp_baton.tasks.record import SCHEMA_VERSION, Progress, StepProgress, StepStatus
from mcp_baton.tools.approval import Approval
from mcp_baton.tools.arguments import Argument
from mcp_baton.tools.templates import placeholders
from mcp_baton.workflow.reference import Reference, source_of
from mcp_baton.workflow.sources import (
    Condition,
    PromptArg,
    Source,
    StepOutput,
    TaskVariable,
    as_source,
    condition_of,
    parts_of,
    source_json,
    source_text,
)
from mcp_baton.workflow.wait import Callback, duration_text, milliseconds

NEW_TASK: Final = "new"
"""The task id with which a call of a workflow's tool always starts a new task (docs/workflows.md, Repeated calls)."""

TASK_ACTION: Final = "task_action"
"""The argument of a workflow's tool that selects another action than running it (docs/console.md)."""

ANSWERS: Final = "answers"
"""The argument of a workflow's tool that has the answers to the workflow's questions (docs/workflows.md, Questions)."""

TASK_RESULT: Final = "task_result"
"""The argument of a workflow's tool that has the result with which `task_action` completes a task."""

WORKFLOW_NAME: Final = "__baton_workflow_name__"
"""The attribute of a workflow function that has the workflow's name."""


class ToolFunction(str):
    """A function that a step has as its tool, until the server resolves the tool's name."""

    __slots__ = ("function",)
    function: Callable[..., object]

    @classmethod
    def of(cls, function: Callable[..., object]) -> "ToolFunction":
        tool_function = cls(getattr(function, "__name__", None) or repr(function))
        tool_function.function = function
        return tool_function


MAX_ATTEMPTS = 100


def random_fraction() -> float:
    """A random number from 0 up to 1. It comes from the system, because functions restored from one snapshot share the
    state of `random`."""
    return int.from_bytes(os.urandom(4)) / 2**32


class Retry(Struct, frozen=True):
    """Call a step's tool again when it raised one of these exceptions, as long as the function's time allows it.

    Attributes:
        attempts: Calls in all, the first one included: 1 to 100.
        first_s: The wait before the second call, seconds.
        factor: Each further wait is this many times the one before.
        max_s: No wait is longer, seconds.
        jitter: Wait a random part of that time, so that calls that failed together are not repeated together.
        on: The exception types after which the tool is called again. A `ToolError(…, retryable=False)` is never one.

    Raises:
        RegistrationError: a value is out of range.
    """

    attempts: int = 3
    first_s: float = 0.5
    factor: float = 2.0
    max_s: float = 30.0
    jitter: bool = True
    on: tuple[type[Exception], ...] = (ToolError,)

    def __post_init__(self) -> None:
        if type(self.attempts) is not int or not 1 <= self.attempts <= MAX_ATTEMPTS:
            raise _error("attempts", self.attempts, f"a whole number from 1 to {MAX_ATTEMPTS}, the first call included")
        _check_number("first_s", self.first_s, 0)
        _check_number("factor", self.factor, 1)
        _check_number("max_s", self.max_s, self.first_s)
        if not isinstance(self.jitter, bool):
            raise _error("jitter", self.jitter, "True or False")
        types = tuple(self.on) if isinstance(self.on, Iterable) else (self.on,)
        if not types or not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in types):
            raise _error("on", self.on, "one or more types of exceptions, e.g. (ToolError, ConnectionError)")
        force_setattr(self, "on", types)

    def wait_s(self, attempts: int, rng: Callable[[], float] = random_fraction) -> float:
        """The wait after this many attempts, seconds.

        Args:
            rng: Gives a number from 0 up to 1; used only with jitter.
        """
        try:
            wait_s = min(self.max_s, self.first_s * self.factor ** (attempts - 1))
        except OverflowError:
            wait_s = self.max_s
        return wait_s * rng() if self.jitter else wait_s


def _check_number(field: str, value: object, least: float) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(cast("float", value)) or cast("float", value) < least:
        raise _error(field, value, f"a number of {least:g} or more")


def _error(field: str, value: object, remedy: str) -> RegistrationError:
    return RegistrationError(f"Retry({field}={value!r}): give {remedy}")


class Ask(Struct, frozen=True):
    """A question whose answer is a step's result (docs/workflows.md, Questions).

    Attributes:
        question: The question. `{name}` is replaced from the step's `template_bindings`, else by a prompt argument.
        returns: The type of the answer: any type that pydantic knows.
        of: Who answers: `model` or `user`.

    Raises:
        RegistrationError: The question is empty, `of` has another value, or `returns` is text or a list.
    """

    question: str
    returns: Any = str
    of: Literal["model", "user"] = "model"

    def __post_init__(self) -> None:
        if not isinstance(self.question, str) or not self.question:
            raise RegistrationError("Ask: the question is missing; write Ask('Who borrows the book?')")
        if self.of not in ("model", "user"):
            raise RegistrationError(f"Ask: of={self.of!r} is not possible; write of='model' or of='user'")
        if isinstance(self.returns, str):
            raise RegistrationError(f"Ask: returns={self.returns!r} is text, not a type; write returns={self.returns}")
        if isinstance(self.returns, list | tuple | set | dict):
            values = ", ".join(map(repr, self.returns))
            raise RegistrationError(f"Ask: returns={self.returns!r} is not a type; write returns=Literal[{values}]")


class _Cached:
    """Cached values. They are not fields, so copies compute them again."""

    __slots__ = ("_by_binding", "_by_name", "_fingerprint", "_is_parallel", "_needs")
    _fingerprint: str
    _by_binding: "Mapping[str, Step]"
    _by_name: "Mapping[str, Step]"
    _is_parallel: bool
    _needs: "Mapping[str, frozenset[str]]"


@dataclass(frozen=True, slots=True, init=False, eq=False)
class Step(_Cached):
    """One step: a tool call with argument sources, or one or more resources to fetch, or both.

    Attributes:
        name: Unique in its workflow. May be the tool's function, which then gives the step its name and its tool.
        tool: The name of the tool to call; `None` for a step that only fetches resources. May be the decorated function
            itself, which becomes a `ToolFunction` until the server is checked.
        arguments: Sources by the tool's parameter.
        binding: The name under which later steps refer to this step's output; the step's own unless given.
        guidance: A note for a model that makes this call; `{arg}` is replaced.
        resources: URIs to fetch before the tool is called; `{name}` is replaced from `template_bindings`, else by a
            prompt argument.
        template_bindings: Sources for the `{name}`s in `resources`. One may be the step's own output: such resources
            are fetched after the tool.
        retryable: Whether the same call may succeed if it is made again.
        checkpoint: Write all results right after this step. For effects that must not happen twice.
        retry: How often, and after which waits, the tool is called again within a run; `None` for one call.
        ask: A question to the model or the user, for a step that has neither a tool nor resources. The answer is the
            step's output.
        when: The step runs only if this condition holds; otherwise it is skipped (docs/workflows.md, Conditions).
        each: A source of a list. The tool is called once for each element, which is `item()` in `arguments`; the output
            is the list of results (docs/workflows.md, Lists).
        parallel: How many of these calls run at the same time: 1 to 100.
        approval: A person must approve the call of a tool that has no approval itself (docs/approvals.md).
        after: The names of earlier steps, or references to them, that must be settled before this step starts, even if
            it uses nothing of them. Matters only with `Workflow.parallel`.
        sleep: The step calls nothing. It ends this long after the run has reached it, or at the time that this source
            has: ISO 8601 with an offset (docs/waiting.md).
        callback: The step calls nothing. Its output is the body of a request to `ctx.callback_url(name)`.

    Raises:
        RegistrationError: an argument has the wrong type. The message names the step and the correction.
    """

    name: str
    tool: str | None
    arguments: Mapping[str, Source]
    binding: str
    guidance: str | None
    resources: Sequence[str]
    template_bindings: Mapping[str, Source]
    retryable: bool
    checkpoint: bool
    retry: Retry | None
    ask: Ask | None
    when: Condition | None
    each: Source | None
    parallel: int
    after: tuple[str, ...]
    approval: Approval | None
    sleep: "timedelta | Source | None"
    callback: Callback | None

    def __init__(
        self,
        name: str | Callable[..., object],
        arguments: Mapping[str, Any] | None = None,
        *,
        tool: str | Callable[..., object] | None = None,
        binding: str | None = None,
        guidance: str | None = None,
        resources: Sequence[str] = (),
        template_bindings: Mapping[str, Any] | None = None,
        retryable: bool = False,
        checkpoint: bool = False,
        retry: Retry | None = None,
        ask: Ask | None = None,
        when: object = None,
        each: Any = None,
        parallel: int = 1,
        after: Sequence[Any] = (),
        approval: Approval | None = None,
        sleep: Any = None,
        callback: Callback | None = None,
    ) -> None:
        if callable(name) and tool is None:
            name, tool = getattr(name, "__name__", ""), name
        is_tool = tool is None or isinstance(tool, str) or callable(tool)
        is_retry = retry is None or (tool is not None and isinstance(retry, Retry))
        are_maps = _is_map(arguments) and _is_map(template_bindings)
        if not (isinstance(name, str) and is_tool and is_retry and are_maps) or isinstance(resources, str):
            raise step_error(name, tool, arguments, resources, template_bindings, retry)
        _freeze(
            self,
            name=name,
            tool=tool if tool is None or isinstance(tool, str) else ToolFunction.of(tool),
            arguments=_sources(arguments),
            binding=binding or name,
            guidance=guidance,
            resources=tuple(resources),
            template_bindings=_sources(template_bindings),
            retryable=retryable,
            checkpoint=checkpoint,
            retry=retry,
            ask=ask,
            when=_condition(str(name), when),
            each=None if each is None else as_source(_source(each)),
            parallel=parallel,
            after=tuple(map(_step_name, [after] if isinstance(after, str) else after)),
            approval=approval,
            sleep=sleep if sleep is None or isinstance(sleep, timedelta) else as_source(_source(sleep)),
            callback=callback,
        )
        note_definition(self)

    def __getitem__(self, field: str | int) -> Reference:
        """A field of this step's output, as a source for a later step: `find["shelf"]`."""
        return Reference(StepOutput(self.binding))[field]

    @property
    def has_value(self) -> bool:
        """Whether the step has a result once it is completed: it calls a tool, asks a question or gets a callback."""
        return self.tool is not None or self.ask is not None or self.callback is not None

    @property
    def may_be_skipped(self) -> bool:
        return self.when is not None or (self.callback is not None and self.callback.on_timeout == "skip")

    @property
    def is_wait(self) -> bool:
        """Whether the step calls nothing, and ends with a callback or at a time."""
        return self.sleep is not None or self.callback is not None

    @property
    def waits_for(self) -> str:
        """`callback` or `time`, for a step that waits."""
        return "time" if self.callback is None else "callback"

    @property
    def longest_wait_ms(self) -> int:
        """How long a step waits at most, milliseconds; 0 if it does not wait, or until a time that a run computes."""
        wait = self.callback.within if self.callback else self.sleep
        return milliseconds(wait) if isinstance(wait, timedelta) else 0

    @property
    def wait_text(self) -> str:
        """What a step that waits does: `waits for 24 hours`."""
        if self.callback is not None:
            return f"waits for a callback, for {duration_text(self.callback.within)}"
        if isinstance(self.sleep, timedelta):
            return f"waits for {duration_text(self.sleep)}"
        return f"waits until {source_text(self.sleep)}" if self.sleep is not None else ""

    @property
    def each_and_sleep(self) -> list[tuple[str, Source]]:
        """The sources of `each` and `sleep`, if the step has them."""
        sleep = None if isinstance(self.sleep, timedelta) else self.sleep
        return [(name, source) for name, source in (("each", self.each), ("sleep", sleep)) if source is not None]

    def calling(self, tool: str) -> "Step":
        return replace(self, tool=tool)

    def read_after(self, resource: str) -> bool:
        """Whether a resource of the step is fetched after its tool, because its URI needs the tool's output."""
        sources = (self.template_bindings.get(name) for name in placeholders(resource))
        return any(isinstance(source, StepOutput) and source.binding == self.binding for source in sources)

    @property
    def comparisons(self) -> list[Condition]:
        return [] if self.when is None else list(self.when.comparisons)

    @property
    def sources(self) -> list[Source]:
        """All data sources that the step uses, those of its condition included."""
        of_condition = [source for comparison in self.comparisons for source in comparison.operands]
        each_and_sleep = [source for _, source in self.each_and_sleep]
        sources = [*self.arguments.values(), *self.template_bindings.values(), *of_condition, *each_and_sleep]
        return [part for source in sources for part in parts_of(source)]

    @property
    def inputs(self) -> list[StepOutput]:
        """The outputs of earlier steps, and of its own tool, that the step uses."""
        return [source for source in self.sources if isinstance(source, StepOutput)]

    def uses(self, binding: str) -> bool:
        """Whether one of the step's sources is the output of the step with this binding."""
        return any(source.binding == binding for source in self.inputs)

    def follows(self, other: "Step") -> bool:
        """Whether the step needs something of an earlier step."""
        if other.name in self.after or self.uses(other.binding):
            return True
        setters = [source.set_by for source in self.sources if isinstance(source, TaskVariable)]
        return other.tool is not None and any(not tools or other.tool in tools for tools in setters)

    def __eq__(self, other: object) -> bool:
        """Whether another step does the same. Sources cannot be compared by `==`: that makes a condition."""
        if not isinstance(other, Step):
            return NotImplemented
        return self._options == other._options and self._parts == other._parts

    __hash__ = object.__hash__

    @property
    def _options(self) -> tuple[object, ...]:
        texts = (self.guidance, self.retryable, self.checkpoint, self.retry, self.ask, self.parallel, self.after)
        return *texts, self.approval, self.callback, self.sleep

    @property
    def _parts(self) -> list[Json]:
        sources, bindings = (
            {name: source_json(source) for name, source in mapping.items()}
            for mapping in (self.arguments, self.template_bindings)
        )
        parts: list[Json] = [self.name, self.tool, sources, self.binding, list(self.resources), bindings]
        if self.ask is not None:
            parts.append(str(self.ask.returns))
        if self.when is not None:
            parts.append({"when": source_json(self.when)})
        if self.each is not None:
            parts.append({"each": source_json(self.each)})
        if self.is_wait:
            # The end of a wait that has started stays when the definition changes.
            parts.append({"wait": self.waits_for, "returns": str(self.callback.returns) if self.callback else None})
        return parts

    @property
    def max_calls(self) -> int:
        """How often the step is called at most if each call fails cleanly."""
        return self.retry.attempts if self.retry else 1 + self.retryable

    def may_repeat(self, error: BaseException | None) -> bool:
        """Whether the step may be called again after its tool has raised this."""
        return self.retryable or (self.retry is not None and isinstance(error, self.retry.on))

    @property
    def fingerprint(self) -> str:
        """Eight hex digits that change with what the step does, but not with its texts."""
        if not hasattr(self, "_fingerprint"):
            from hashlib import sha256

            _freeze(self, _fingerprint=sha256(dumps(self._parts).encode()).hexdigest()[:8])
        return self._fingerprint


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow(_Cached):
    """An ordered list of steps, published as an MCP prompt of the same name.

    Attributes:
        name: The prompt's name.
        description: Continues the sentence "I want to …": `"refund an order"`.
        arguments: The prompt's arguments.
        steps: At least one, at most 100.
        title: A name for people.
        durable: Whether invoking it creates a task.
        tool: Whether a durable workflow is also published as a tool (docs/workflows.md, As a tool).
        ask: Whether the client's user is asked for missing arguments (docs/workflows.md).
        background: Whether workers run it, if a client that supports tasks calls it as a tool (docs/background.md).
        parallel: How many steps that need nothing of each other run at the same time: 1 to 100 (docs/workflows.md,
            Parallel steps).
        ttl: How long its tasks live; `None` for the operator's default, or as long as its waits need. A client cannot
            shorten the life of a task that waits (docs/waiting.md).
        repeats: How long after a slow reply an equal first call of its tool gets the same task; `None` for the server's
            value, `timedelta(0)` for never (docs/workflows.md, Repeated calls).

    Raises:
        WorkflowError: `arguments` or `steps` has a member of another type.
    """

    name: str
    description: str
    arguments: Sequence[Argument] = ()
    steps: Sequence[Step] = ()
    title: str | None = None
    durable: bool = True
    tool: bool = True
    ask: bool = False
    background: bool = False
    parallel: int = 1
    ttl: timedelta | None = None
    repeats: timedelta | None = None

    def __post_init__(self) -> None:
        arguments = _members(self.name, "arguments", self.arguments, Argument)
        _freeze(self, arguments=arguments, steps=_members(self.name, "steps", self.steps, Step))
        note_definition(self)

    @property
    def has_workflow_tool(self) -> bool:
        """Whether the workflow has a tool."""
        return self.durable and self.tool

    @property
    def fingerprint(self) -> str:
        """The fingerprints of the steps, joined by spaces. Tasks store it."""
        return " ".join(step.fingerprint for step in self.steps)

    @property
    def secrets(self) -> frozenset[str]:
        """The names of the secret arguments."""
        return frozenset(argument.name for argument in self.arguments if argument.secret)

    @property
    def questions(self) -> tuple[Argument, ...]:
        """The questions, each with its type, as arguments of the workflow's tool."""
        return tuple(
            Argument(step.name, step.ask.question, type=step.ask.returns) for step in self.steps if step.ask is not None
        )

    def bound(self, binding: str) -> Step:
        """The step that a binding names. The definition was checked, so the step exists."""
        if not hasattr(self, "_by_binding"):
            _freeze(self, _by_binding={step.binding: step for step in reversed(self.steps)})
        return self._by_binding[binding]

    def step(self, name: str) -> Step | None:
        """The step of this name, if there is one."""
        if not hasattr(self, "_by_name"):
            _freeze(self, _by_name={step.name: step for step in reversed(self.steps)})
        return self._by_name.get(name)

    @property
    def is_parallel(self) -> bool:
        """Whether several calls may run at the same time."""
        if not hasattr(self, "_is_parallel"):
            _freeze(self, _is_parallel=max(self.parallel, *(step.parallel for step in self.steps)) > 1)
        return self._is_parallel

    def needs(self, step: Step) -> frozenset[str]:
        """The names of the earlier steps that must be settled before a step starts.

        With `parallel=1` these are all earlier steps. Otherwise they are those whose outputs it uses, those in `after`,
        and those whose tools may set a task variable that it uses.
        """
        if not hasattr(self, "_needs"):
            previous: list[Step] = []
            needs: dict[str, frozenset[str]] = {}
            for later in self.steps:
                steps = previous if self.parallel == 1 else [earlier for earlier in previous if later.follows(earlier)]
                needs[later.name] = frozenset(earlier.name for earlier in steps)
                previous.append(later)
            _freeze(self, _needs=needs)
        return self._needs[step.name]

    def ready(self, statuses: Mapping[str, StepStatus], started: Container[str] = (), first: int = 0) -> Iterator[Step]:
        """The steps that can run now, in order: all that they need is settled, and they were not started.

        If the steps run one after the other, each step needs all steps before it.

        Args:
            first: The place of the first step that is not settled, or an earlier place.
        """
        for step in islice(self.steps, first, None):
            if not statuses[step.name].settled:
                needs = self.needs(step) if self.parallel > 1 else ()
                if step.name not in started and all(statuses[name].settled for name in needs):
                    yield step
                if self.parallel == 1:
                    return  # all later steps need this one

    def progress(self, statuses: Sequence[StepStatus]) -> Progress:
        """The value of `_workflow.progress` for these statuses, in the order of the steps."""
        return {
            "goal": f"{self.name}: {self.description}",
            "steps": [_step_progress(step, status) for step, status in zip(self.steps, statuses, strict=True)],
            "schemaVersion": SCHEMA_VERSION,
        }


def _step_progress(step: Step, status: StepStatus) -> StepProgress:
    if step.ask is not None:
        return {"name": step.name, "ask": step.ask.of, "status": status.value}
    if step.is_wait:
        return {"name": step.name, "wait": step.waits_for, "status": status.value}
    if step.tool is None:
        return {"name": step.name, "status": status.value}
    return {"name": step.name, "tool": step.tool, "status": status.value}


def _members(workflow: str, field: str, value: object, kind: type) -> tuple[object, ...]:
    """A workflow's `steps` or `arguments`.

    Raises:
        WorkflowError: the value is a text or not iterable, or one of its members has another type.
    """
    if isinstance(value, Iterable) and not isinstance(value, str):
        value = tuple(value)
        if all(isinstance(member, kind) for member in value):
            return value
    raise members_error(workflow, field, value, kind)


def _sources(sources: Mapping[str, Any] | None) -> Mapping[str, Source]:
    """Sources as a step keeps them: steps, arguments and references are replaced by what they refer to."""
    return MappingProxyType({name: _source(value) for name, value in (sources or {}).items()})


def _source(value: Any) -> Any:
    if isinstance(value, Step):
        return StepOutput(value.binding)
    return PromptArg(value.name) if isinstance(value, Argument) else source_of(value)


def _step_name(value: Any) -> Any:
    if isinstance(value, Step):
        return value.name
    source = source_of(value)
    return source.binding if isinstance(source, StepOutput) else source


def _condition(step: str, value: object) -> Condition | None:
    try:
        return None if value is None else condition_of(value)
    except TypeError as error:
        raise RegistrationError(f"step {step!r}: when: {error}") from error


def _is_map(value: object) -> bool:
    return not value or isinstance(value, Mapping)


def _freeze(instance: Step | Workflow, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(cast("object", instance), name, value)


def step_error(
    name: object, tool: object, arguments: object, resources: object, bindings: object, retry: object
) -> RegistrationError:
    """The error for the first wrong argument of a step."""
    maps = [value for value in (arguments, bindings) if value and not isinstance(value, Mapping)]
    if not isinstance(name, str):
        cause = "its name is a text; write Step('…', tool=…)"
    elif isinstance(resources, str):
        cause = f"resources is a list of URIs; write resources=[{resources!r}]"
    elif maps:
        cause = arguments_error(maps[0])
    elif retry is not None and tool is None:
        cause = "retry is for a step with a tool; leave it out"
    elif tool is None or isinstance(tool, str) or callable(tool):
        cause = f"retry={value_text(retry)} is no Retry; write retry=Retry(attempts=3)"
    else:
        cause = (
            f"its tool is a tool's name or its function, and not {value_text(tool)}; "
            "give the function itself, tool=function, without calling it"
        )
    return RegistrationError(f"step {name!r}: {cause}")


def members_error(workflow: str, field: str, value: object, kind: type) -> WorkflowError:
    """The error for invalid `steps` or `arguments` of a workflow."""
    if isinstance(value, list | tuple):
        cause = member_error(field, next(member for member in value if not isinstance(member, kind)))
    else:
        cause = members_type_error(field, value, kind)
    return WorkflowError(workflow, cause)


def member_error(field: str, item: object) -> str:
    """The error for a member of a workflow's `steps` or `arguments` that has another type."""
    name = item if isinstance(item, str) else getattr(item, "__name__", None)
    if field == "arguments":
        argument_name = repr(name) if name else "'…'"
        return f"{value_text(item)} is no argument; write Argument({argument_name})"
    if name is None:
        return f"{value_text(item)} is no step; write Step('…', tool=…, arguments={{…}})"
    tool = repr(item) if isinstance(item, str) else name
    return f"{value_text(item)} is no step; write Step({name!r}, tool={tool}, arguments={{…}})"


def members_type_error(field: str, value: object, kind: type) -> str:
    """The error for `steps` or `arguments` that are not a list."""
    inner = f"{kind.__name__}(…)" if isinstance(value, kind) else value_text(value)
    if isinstance(value, str) or callable(value):
        return member_error(field, value) + f", in a list: {field}=[…]"
    return f"{field} is a list; write {field}=[{inner}]"


def arguments_error(value: object) -> str:
    """The error for a step's arguments that are not a mapping."""
    names = list(value) if isinstance(value, list | tuple | set | frozenset) else [value]
    texts = [name for name in names if isinstance(name, str)]
    inner = ", ".join(f"{name!r}: prompt_arg({name!r})" for name in texts) or "'…': prompt_arg('…')"
    return f"arguments={value_text(value)} is no map of parameters to data sources; write arguments={{{inner}}}"


def workflow_type_error(thing: object) -> RegistrationError:
    """The error for an object that cannot be added as a workflow."""
    problem = f"add_workflow({value_text(thing)}): this is no workflow"
    return RegistrationError(f"{problem}; write Workflow(name=…, description=…, steps=[…])")


def value_text(value: object) -> str:
    """A value in an error: a function's name, otherwise the `repr`, cut if it is long."""
    name = getattr(value, "__qualname__", None)
    text = name if isinstance(name, str) else repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."

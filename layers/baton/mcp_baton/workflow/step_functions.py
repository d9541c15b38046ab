"""The functions that describe a step, within a workflow function (docs/workflows.md, Workflow functions)."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import timedelta
from typing import Any, Concatenate, Literal, Unpack, overload

from mcp_baton.hints import closest, did_you_mean
from mcp_baton.tools.context import Context
from mcp_baton.tools.labels import name_of
from mcp_baton.tools.schema.signature import read_signature
from mcp_baton.workflow.recording import Recording, StepCall, current_recording
from mcp_baton.workflow.reference import Reference
from mcp_baton.workflow.steps.fetch import Fetch
from mcp_baton.workflow.steps.list_step import ListStep
from mcp_baton.workflow.steps.question import Question
from mcp_baton.workflow.steps.tool_step import CallOptions, ToolStep
from mcp_baton.workflow.steps.wait import Callback, Wait


class StepOptions(CallOptions, total=False):
    """The options of `step`, besides its name: see `ToolStep` and `ListStep`."""

    resources: Sequence[str]
    """URIs to fetch before the tool is called."""
    template_bindings: Mapping[str, Any]
    """Values or references for the `{name}`s in `resources`."""
    parallel: int
    """How many calls of a step with `each` run at the same time."""


@overload
def step[**P, R](
    tool: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]],
    *,
    each: object,
    name: str | None = None,
    **options: Unpack[StepOptions],
) -> Callable[P, list[R]]: ...
@overload
def step[**P, R](
    tool: Callable[Concatenate[Context, P], R], *, each: object, name: str | None = None, **options: Unpack[StepOptions]
) -> Callable[P, list[R]]: ...
@overload
def step[**P, R](
    tool: Callable[P, Coroutine[Any, Any, R]], *, each: object, name: str | None = None, **options: Unpack[StepOptions]
) -> Callable[P, list[R]]: ...
@overload
def step[**P, R](
    tool: Callable[P, R], *, each: object, name: str | None = None, **options: Unpack[StepOptions]
) -> Callable[P, list[R]]: ...
@overload
def step[**P, R](
    tool: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]],
    *,
    name: str | None = None,
    **options: Unpack[StepOptions],
) -> Callable[P, R]: ...
@overload
def step[**P, R](
    tool: Callable[Concatenate[Context, P], R], *, name: str | None = None, **options: Unpack[StepOptions]
) -> Callable[P, R]: ...
@overload
def step[**P, R](
    tool: Callable[P, Coroutine[Any, Any, R]], *, name: str | None = None, **options: Unpack[StepOptions]
) -> Callable[P, R]: ...
@overload
def step[**P, R](
    tool: Callable[P, R], *, name: str | None = None, **options: Unpack[StepOptions]
) -> Callable[P, R]: ...
@overload
def step(
    tool: str, *, each: object = None, name: str | None = None, **options: Unpack[StepOptions]
) -> Callable[..., Any]: ...
def step(tool: Any, *, each: object = None, name: str | None = None, **options: Any) -> Any:
    """Describe a step of a workflow function: `book = step(find_book)(title=title)`.

    Args:
        tool: The decorated function, or a tool's name.
        each: A list: the tool is called once for each element, `item()`, and the result is the list of results.
        name: The step's name; the tool's name by default. A second step with the same tool needs one.
        options: See `StepOptions`.

    Returns:
        A callable with the tool's own parameters. Its call adds the step and returns a reference to the step's result.

    Raises:
        WorkflowError: Outside of a workflow function; a second step of this name; a value of another workflow.
    """
    recording = current_recording("step(…)")
    step_name = name or (tool if isinstance(tool, str) else name_of(tool))
    label = tool if isinstance(tool, str) else getattr(tool, "__name__", step_name)
    if unknown := sorted(options.keys() - StepOptions.__annotations__.keys()):
        raise recording.error(_unknown_option(tool, label, unknown[0]))
    bindings = options.pop("template_bindings", {})
    if not isinstance(bindings, Mapping):
        raise recording.error(f"step {step_name!r}: template_bindings={bindings!r} is not possible; give a dict")
    bindings = {variable: recording.source(variable, value) for variable, value in bindings.items()}
    recording.condition(options.get("when"))
    items = recording.source("each", each)
    if each is None and "parallel" in options:
        raise recording.error(f"step {step_name!r}: parallel is for a step with each=…; leave it out")
    if each is not None and (bindings or "resources" in options):
        cause = "each=… calls a tool for each element, so the step has a tool and no resources; make two steps"
        raise recording.error(f"step {step_name!r}: {cause}")

    def call(*values: object, **keywords: object) -> Reference:
        by_position = _by_position(recording, step_name, tool, values)
        if duplicates := sorted(by_position.keys() & keywords.keys()):
            problem = f"the argument {duplicates[0]!r} is given twice; give it once, by its name"
            raise recording.error(f"step {step_name!r}: {problem}")
        arguments = {**by_position, **keywords}
        sources = {parameter: recording.source(parameter, value) for parameter, value in arguments.items()}
        if each is None:
            return recording.add(ToolStep(step_name, sources, tool=tool, template_bindings=bindings, **options))
        return recording.add(ListStep(step_name, sources, tool=tool, each=items, **options))

    return StepCall(recording, label, call)


def _unknown_option(tool: Any, label: str, name: str) -> str:
    """Return the error for a name that is no option of `step`. It may be an argument of the tool."""
    parameters = read_signature(tool, f"tool {label!r}").names if callable(tool) else frozenset()
    if name in parameters or (isinstance(tool, str) and closest(name, StepOptions.__annotations__) is None):
        shown = repr(tool) if isinstance(tool, str) else label
        cause = f"{name!r} is an argument of the tool {label!r}, and no option of the step"
        return f"{cause}; write step({shown})({name}=…)"
    return f"step({label}) has no option {name!r}{did_you_mean(name, StepOptions.__annotations__)}"


def _by_position(recording: Recording, name: str, tool: Any, values: Sequence[object]) -> dict[str, object]:
    """Return the positional values by the names of the tool's parameters."""
    if not values:
        return {}
    if isinstance(tool, str):
        raise recording.error(f"step {name!r}: a tool that is given by its name takes named arguments only")
    names = [parameter.published_name for parameter in read_signature(tool, f"tool {name!r}").parameters]
    if len(values) > len(names):
        raise recording.error(
            f"step {name!r}: {len(values)} values for {len(names)} parameters; give {', '.join(names)}"
        )
    return dict(zip(names, values, strict=False))


def fetch(name: str, uri: str, /, **values: object) -> None:
    """Describe a step that fetches a resource for the model to read.

    Args:
        name: The step's name.
        uri: The resource's URI; `{name}`s are replaced by `values`.
        values: Values or references. `when` and `after` are options of the step: see `step`.

    Raises:
        WorkflowError: Outside of a workflow function; a second step of this name; a value of another workflow.
    """
    recording = current_recording("fetch(…)")
    recording.add(Fetch(name, [uri], **recording.options(values)))


@overload
def ask_model[T](name: str, question: str, /, returns: type[T], **values: object) -> T: ...  # type: ignore[overload-overlap]
@overload
def ask_model(name: str, question: str, /, returns: object, **values: object) -> Any: ...
@overload
def ask_model(name: str, question: str, /, **values: object) -> str: ...
def ask_model(name: str, question: str, /, returns: object = str, **values: object) -> Any:
    """Describe a step whose result is an answer of the client's model.

    Args:
        name: The step's name, and the answer's.
        question: The question; `{name}`s are replaced by `values`.
        returns: The type of the answer.
        values: Values or references. `when` and `after` are options of the step: see `step`.

    Returns:
        A reference to the answer.

    Raises:
        WorkflowError: Outside of a workflow function; a second step of this name; a value of another workflow.
    """
    return _ask("ask_model(…)", name, question, returns, "model", values)


@overload
def ask_user[T](name: str, question: str, /, returns: type[T], **values: object) -> T: ...  # type: ignore[overload-overlap]
@overload
def ask_user(name: str, question: str, /, returns: object, **values: object) -> Any: ...
@overload
def ask_user(name: str, question: str, /, **values: object) -> str: ...
def ask_user(name: str, question: str, /, returns: object = str, **values: object) -> Any:
    """Describe a step whose result is an answer of the client's user: as `ask_model`.

    A client that supports elicitation shows a form, if the type fits into one. Otherwise the model asks its user.
    """
    return _ask("ask_user(…)", name, question, returns, "user", values)


def _ask(
    function: str, name: str, question: str, returns: Any, of: Literal["model", "user"], values: Mapping[str, object]
) -> Reference:
    recording = current_recording(function)
    return recording.add(Question(name, question, returns, of, **recording.options(values)))


@overload
def wait_for_callback[T](
    name: str,
    returns: type[T],
    /,
    *,
    within: timedelta,
    on_timeout: Literal["fail", "skip"] = ...,
    when: object = ...,
    after: Sequence[object] = ...,
) -> T: ...
@overload
def wait_for_callback(
    name: str,
    returns: object,
    /,
    *,
    within: timedelta,
    on_timeout: Literal["fail", "skip"] = ...,
    when: object = ...,
    after: Sequence[object] = ...,
) -> Any: ...
def wait_for_callback(
    name: str,
    returns: object,
    /,
    *,
    within: timedelta,
    on_timeout: Literal["fail", "skip"] = "fail",
    when: object = None,
    after: Sequence[object] = (),
) -> Any:
    """Describe a step that waits, without a running function, for a request of another system (docs/waiting.md). An
    earlier step gives that system the address: `ctx.callback_url(name)`.

    Args:
        name: The step's name.
        returns: The type of the request's body, which is the step's result.
        within: How long it waits.
        on_timeout: Whether the step fails after that, or is skipped.
        when: The step waits only if this condition holds.
        after: Earlier steps, by name or by reference, that must be settled before the wait begins.

    Returns:
        A reference to the body.

    Raises:
        WorkflowError: Outside of a workflow function; a second step of this name; a value of another workflow.
    """
    recording = current_recording("wait_for_callback(…)")
    callback = Callback(returns, within, on_timeout)
    return recording.add(Wait(name, callback, when=recording.condition(when), after=after))


def sleep_until(name: str, until: object, /, *, when: object = None, after: Sequence[object] = ()) -> None:
    """Describe a step that waits, without a running function, until a time (docs/waiting.md).

    Args:
        name: The step's name.
        until: A time in ISO 8601 with its offset from UTC, as a text or a reference; or a `timedelta`, which counts
            from the moment when the run reaches the step.
        when: The step waits only if this condition holds.
        after: Earlier steps, by name or by reference, that must be settled before the wait begins.

    Raises:
        WorkflowError: Outside of a workflow function; a second step of this name; a value of another workflow.
    """
    recording = current_recording("sleep_until(…)")
    sleep = until if isinstance(until, timedelta) else recording.source("until", until)
    recording.add(Wait(name, sleep=sleep, when=recording.condition(when), after=after))

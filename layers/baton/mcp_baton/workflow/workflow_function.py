"""Workflow functions: functions whose calls describe a workflow's steps (docs/workflows.md, Workflow functions)."""

import inspect
import re
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextvars import ContextVar
from datetime import timedelta
from typing import Annotated, Any, Concatenate, Final, Literal, NoReturn, TypedDict, Unpack, overload

from mcp_baton.exceptions import WorkflowError
from mcp_baton.protocol.json import Json
from mcp_baton.tools.approval import Approval
from mcp_baton.tools.arguments import Argument
from mcp_baton.tools.context import Context
from mcp_baton.tools.labels import name_of
from mcp_baton.tools.schema.signature import NO_ANNOTATION, Parameter, is_async, read_signature
from mcp_baton.tools.secrets import strings_in
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.description_call import describe, enclosing_block
from mcp_baton.workflow.reference import REFERENCE_TEXT, REFUSED_METHODS, Reference, reference_to, workflow_of
from mcp_baton.workflow.sources import (
    Condition,
    Constant,
    PromptArg,
    StepOutput,
    as_source,
    author_line,
    refusals,
    workflows_of,
)
from mcp_baton.workflow.steps.fetch import Fetch
from mcp_baton.workflow.steps.list_step import ListStep
from mcp_baton.workflow.steps.question import Question
from mcp_baton.workflow.steps.retry import Retry
from mcp_baton.workflow.steps.step import Step
from mcp_baton.workflow.steps.tool_step import WORKFLOW_NAME, ToolStep
from mcp_baton.workflow.steps.wait import Callback, Wait


class WorkflowOptions(TypedDict, total=False):
    """The options of `@server.workflow`, besides its name: see `Workflow`."""

    title: str
    """A name for people."""
    description: str
    """What it does; the docstring of the function by default."""
    durable: bool
    """Whether a run creates a task."""
    tool: bool
    """Whether a durable workflow is published as a tool, too."""
    ask: bool
    """Whether the client's user is asked for arguments that a step lacks."""
    background: bool
    """Whether a worker runs it for clients that support tasks."""
    parallel: int
    """How many independent steps run at the same time."""
    ttl: timedelta
    """How long its tasks live."""
    repeats: timedelta
    """How long after a slow reply an equal call of its tool gets the same task."""


class StepOptions(TypedDict, total=False):
    """The options of `step`, besides its name: see `ToolStep` and `ListStep`."""

    guidance: str
    """What a model should bear in mind when it makes this call itself; `{arg}` is replaced."""
    resources: Sequence[str]
    """URIs to fetch before the tool is called."""
    template_bindings: Mapping[str, Any]
    """Values or references for the `{name}`s in `resources`."""
    retryable: bool
    """Whether the same call may succeed if it is made again."""
    checkpoint: bool
    """Whether the state is written right after this step."""
    retry: Retry
    """How often the tool is called again within a run."""
    when: object
    """The step runs only if this condition holds: `order.total > 100`, `exists(x) & not_(y)`."""
    parallel: int
    """How many calls of a step with `each` run at the same time."""
    approval: Approval
    """A person must approve the call, if the tool has no approval itself."""
    after: Sequence[object]
    """Earlier steps, by name or by reference, that must be settled before this step starts."""


class _Recording:
    """The steps that a workflow function has described so far."""

    def __init__(self, workflow: str) -> None:
        self.workflow = workflow
        self.steps: list[Step] = []
        self.uncalled_steps: list[_StepCall] = []
        self.refusals: list[WorkflowError] = []

    def add(self, step: Step) -> Reference:
        """Add a step. Returns a reference to its result."""
        if (block := enclosing_block()) is not None:
            raise self.error(
                f"the step {step.name!r} is in a {block} block, which ends before a step runs; {_OUTSIDE[block]}"
            )
        if any(re.search(REFERENCE_TEXT, text) for text in _texts_of(step)):
            cause = (
                f"a text of the step {step.name!r} has a reference in it, which has no value before the workflow runs"
            )
            raise self.error(f"{cause}; pass the reference to the tool as an argument of its own")
        if any(other.name == step.name for other in self.steps):
            raise self.error(f"a second step is named {step.name!r}; give it another name: name='{step.name}_2'")
        self.steps.append(step)
        return reference_to(StepOutput(step.name), self.workflow)

    def source(self, name: str, value: object) -> Any:
        """Convert a value of a call to a data source."""
        if isinstance(value, Reference):
            other_workflow = workflow_of(value)
            if other_workflow is not None and other_workflow != self.workflow:
                raise self.error(
                    f"{name!r} is given a reference of the workflow {other_workflow!r}; "
                    "give this workflow an argument or a step of its own"
                )
        elif isinstance(value, Condition):
            raise self.error(f"{name!r} is given the condition {value}; give it to the step: step(tool, when=…)(…)")
        elif isinstance(value, Coroutine):
            value.close()
            raise self.error(
                f"{name!r} is given a call of an async function, which does not run here; write step(tool)(…)"
            )
        elif (reference := _reference_in(value)) is not None:
            raise self.error(
                f"{name!r} is given {reference!r} inside of a list or an object; give the tool a parameter for it, "
                "or let a tool build the value"
            )
        return as_source(value)

    def options(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of a step without a tool: `when`, `after`, and the other values as data sources."""
        sources = {name: self.source(name, value) for name, value in values.items() if name not in ("when", "after")}
        when, after = self.condition(values.get("when")), values.get("after", ())
        return {"template_bindings": sources, "when": when, "after": after}

    def condition(self, value: object) -> object:
        """Check the condition of a step, and return it.

        Raises:
            WorkflowError: It uses a reference of another workflow.
        """
        workflow = next((name for name in workflows_of(value) if name != self.workflow), None)
        if workflow is not None:
            raise self.error(
                f"when: the condition uses a reference of the workflow {workflow!r}; use this workflow's own"
            )
        return value

    def error(self, cause: str, line: str | None = None) -> WorkflowError:
        error = WorkflowError(self.workflow, f"{line or author_line()}: {cause}")
        self.refusals.append(error)
        return error


_OUTSIDE: Final = {
    "try": "catch the error in the tool and return what went wrong, or try again with step(tool, retry=…)",
    "with": "open it in the tool, or give it to the tool by Depends",
}


def _texts_of(step: Step) -> Iterator[str]:
    """The texts that the author has given to a step."""
    yield from step.texts
    for part in step.sources:
        if isinstance(part, Constant):
            yield from strings_in(part.value)


def _reference_in(value: object) -> Reference | None:
    """Find a reference inside of a list or an object."""
    if isinstance(value, Reference):
        return value
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return next((reference for item in items if (reference := _reference_in(item)) is not None), None)


_recording: Final[ContextVar[_Recording | None]] = ContextVar("recording", default=None)


def _current(function: str) -> _Recording:
    recording = _recording.get()
    if recording is None:
        cause = f"{author_line()} calls {function} outside of a workflow function"
        raise WorkflowError("?", f"{cause}; move it into a function with @server.workflow")
    return recording


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
    recording = _current("step(…)")
    step_name = name or (tool if isinstance(tool, str) else name_of(tool))
    if not isinstance(tool, str) and (arguments := sorted(options.keys() - StepOptions.__annotations__.keys())):
        parameters = read_signature(tool, f"tool {name_of(tool)!r}").names if callable(tool) else frozenset()
        if arguments[0] in parameters:
            cause = f"{arguments[0]!r} is an argument of the tool {name_of(tool)!r}, and no option of the step"
            raise recording.error(f"{cause}; write step({name_of(tool)})({arguments[0]}=…)")
    bindings = options.pop("template_bindings", {})
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

    return _StepCall(recording, tool if isinstance(tool, str) else name_of(tool), call)


class _StepCall:
    """What `step(tool)` returns. Only a call of it adds the step."""

    __slots__ = ("_call", "_line", "_recording", "_tool")

    def __init__(self, recording: _Recording, tool: str, call: Callable[..., Reference]) -> None:
        self._recording, self._tool, self._call, self._line = recording, tool, call, author_line()
        recording.uncalled_steps.append(self)

    def __call__(self, *values: object, **keywords: object) -> Reference:
        if any(step is self for step in self._recording.uncalled_steps):
            self._recording.uncalled_steps = [step for step in self._recording.uncalled_steps if step is not self]
        return self._call(*values, **keywords)

    def error(self) -> WorkflowError:
        return self._recording.error(f"step({self._tool}) has no call; write step({self._tool})(…)", self._line)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        raise self.error()

    def _refuse(self, *_values: object) -> NoReturn:
        raise self.error()

    __hash__ = object.__hash__


for _method in (*REFUSED_METHODS, "getitem", "eq", "ne", "lt", "le", "gt", "ge", "and", "rand", "or", "ror"):
    if _method not in ("call", "hash"):
        setattr(_StepCall, f"__{_method}__", _StepCall._refuse)  # noqa: SLF001 - completes the class


def _by_position(recording: _Recording, name: str, tool: Any, values: Sequence[object]) -> dict[str, object]:
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
    recording = _current("fetch(…)")
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
    recording = _current(function)
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
    recording = _current("wait_for_callback(…)")
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
    recording = _current("sleep_until(…)")
    sleep = until if isinstance(until, timedelta) else recording.source("until", until)
    recording.add(Wait(name, sleep=sleep, when=recording.condition(when), after=after))


def workflow_of_function(
    function: Callable[..., object], name: str | None, tools: Mapping[str, Any], options: WorkflowOptions
) -> Workflow:
    """Create the workflow that a function describes. The function is called once, with a reference for each
    parameter."""
    name = name or name_of(function)
    location = f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}"
    if is_async(function):
        raise WorkflowError(name, f"{location}: a workflow function describes steps and waits for none; write def")
    signature = read_signature(function, f"workflow {name!r}")
    if signature.context or signature.dependencies:
        raise WorkflowError(
            name, f"{location}: a workflow function has no Context and no Depends; give them to the tools that it calls"
        )
    text, descriptions = _documentation(function.__doc__ or "")
    arguments = tuple(_argument(parameter, descriptions) for parameter in signature.parameters)
    recording = _Recording(name)
    references = {
        parameter.name: reference_to(PromptArg(argument.name), name)
        for parameter, argument in zip(signature.parameters, arguments, strict=True)
    }
    token, refusals_token = _recording.set(recording), refusals.set(recording.refusals)
    try:
        return_value = describe(name, function, references, tools, recording.steps)
    finally:
        _recording.reset(token)
        refusals.reset(refusals_token)
    for error in recording.refusals:
        raise error
    for uncalled_step in recording.uncalled_steps:
        raise uncalled_step.error()
    if inspect.isgenerator(return_value):
        raise WorkflowError(name, f"{location}: a workflow function runs once, to its end; leave out yield")
    if return_value is not None:
        raise WorkflowError(
            name, f"{location}: a workflow function returns nothing, because the task has all results; leave out return"
        )
    setattr(function, WORKFLOW_NAME, name)
    return Workflow(
        name=name,
        arguments=arguments,
        steps=recording.steps,
        **{"description": text, **options},  # type: ignore[arg-type]
    )


def _argument(parameter: Parameter, descriptions: Mapping[str, str]) -> Argument:
    notes = getattr(parameter.annotation, "__metadata__", ())
    declaration = next((note for note in notes if isinstance(note, Argument)), Argument(""))
    kind: Any = parameter.value_type
    notes = getattr(kind, "__metadata__", ())
    if notes:
        other_notes = [note for note in notes if not isinstance(note, str | Argument)]
        kind = kind.__origin__
        for note in other_notes:
            kind = Annotated[kind, note]
    default: Json = declaration.default if parameter.default is NO_ANNOTATION else parameter.default_value
    return Argument(
        parameter.published_name,
        declaration.description or parameter.description or descriptions.get(parameter.name, ""),
        required=parameter.required and declaration.default is None,
        type=str if kind is Any else kind,
        default=default,
        secret=declaration.secret,
        other_names=parameter.accepted_names[1:],
    )


_SECTION: Final = re.compile(r"\n[ \t]*(?:Args|Arguments|Raises|Returns|Yields|Notes?|Examples?):[ \t]*(?=\n|$)")
_ENTRY: Final = re.compile(r"(?P<indent>[ \t]*)\*{0,2}(?P<name>\w+)(?:[ \t]*\([^)]*\))?:[ \t]*(?P<text>.*)")


def _documentation(docstring: str) -> tuple[str, dict[str, str]]:
    """Split a docstring in Google style.

    Returns:
        The text as the end of the sentence "I want to …", and the description of each parameter.
    """
    docstring = f"\n{inspect.cleandoc(docstring)}"
    text, *sections = _SECTION.split(docstring)
    titles = [title.strip(" \t\n:") for title in _SECTION.findall(docstring)]
    descriptions: dict[str, str] = {}
    for title, section in zip(titles, sections, strict=True):
        if title in ("Args", "Arguments"):
            name, margin = "", None
            for line in section.splitlines():
                entry = _ENTRY.fullmatch(line)
                if entry and (margin is None or len(entry["indent"]) <= margin):
                    name, margin = entry["name"], len(entry["indent"])
                    descriptions[name] = entry["text"].strip()
                elif name and line.strip():
                    descriptions[name] = f"{descriptions[name]} {line.strip()}"
    text = text.strip()
    if text[1:2].islower() or text[1:2] == " ":
        text = text[:1].lower() + text[1:]
    return text.removesuffix(".") if text.count(".") == 1 else text, descriptions

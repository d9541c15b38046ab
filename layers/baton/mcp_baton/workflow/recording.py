"""What the call of a workflow function has described so far (docs/workflows.md, Workflow functions)."""

import re
import sys
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from types import CodeType, FrameType
from typing import Any, Final, NoReturn

from mcp_baton.exceptions import WorkflowError
from mcp_baton.tools.secrets import strings_in
from mcp_baton.workflow.description_call import enclosing_block, shadowed_name
from mcp_baton.workflow.reference import REFERENCE_TEXT, REFUSED_METHODS, Reference, workflow_of
from mcp_baton.workflow.secrets import contains_argument
from mcp_baton.workflow.sources import (
    Condition,
    Constant,
    StepOutput,
    as_source,
    author_line,
    recording_of_function,
    source_of,
    workflows_of,
)
from mcp_baton.workflow.steps.step import Step

SECRET_PARAMETERS: Final = dict[CodeType, Collection[str]]()
"""The secret parameters of workflow functions. Another workflow function may call these."""


class Recording:
    """The steps that a workflow function has described so far. `secrets` are the workflow's secret arguments."""

    def __init__(self, workflow: str, secrets: Collection[str]) -> None:
        self.workflow, self.secrets = workflow, secrets
        self._frames: list[FrameType] = []
        self.steps: list[Step] = []
        self.uncalled_steps: dict[int, StepCall] = {}
        self.refusals: list[WorkflowError] = []

    def add(self, step: Step) -> Reference:
        """Add a step. Returns a reference to its result."""
        if (block := enclosing_block()) is not None:
            raise self.error(
                f"the step {step.name!r} is in a {block} block, which ends before a step runs; {_OUTSIDE[block]}"
            )
        texts = list(_texts_of(step))
        if any(re.search(REFERENCE_TEXT, text) for text in texts):
            cause = f"a text of the step {step.name!r} has a reference in it, which has no value before the workflow"
            raise self.error(f"{cause} runs; pass the reference to the tool as an argument of its own")
        for name in (shadowed_name(text, step.template_bindings) for text in texts):
            if name is not None:
                cause = f"{{{name}}} in a text means an argument of the workflow, and not the {name!r} of this function"
                raise self.error(f"{cause}; rename {name!r}, or pass it to the tool as an argument of its own")
        if (exposed := self._exposed_secret()) is not None:
            cause = f"the argument {exposed!r} is secret, and is given a value that is not; give it a secret argument"
            raise self.error(cause)
        if any(other.name == step.name for other in self.steps):
            raise self.error(f"a second step is named {step.name!r}; give it another name: name='{step.name}_2'")
        self.steps.append(step)
        return Reference(StepOutput(step.name), self.workflow)

    def _exposed_secret(self) -> str | None:
        """The secret parameter of a workflow function that was called with another value than a secret argument. Each
        call is checked at its first step: it may use the parameter's name for another value later."""
        frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the documented way to the caller's frame
        while frame is not None:
            names = SECRET_PARAMETERS.get(frame.f_code, ())
            if names and frame not in self._frames:
                self._frames.append(frame)
                for name in names:
                    source = source_of(frame.f_locals.get(name))
                    if source is not None and not contains_argument(source, self.secrets):
                        return name
            frame = frame.f_back
        return None

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
            raise self.error(
                f"{name!r} is given the condition {value.text}; give it to the step: step(tool, when=…)(…)"
            )
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
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        value = [getattr(value, name, None) for name in value.__dataclass_fields__]
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return next((reference for item in items if (reference := _reference_in(item)) is not None), None)


def current_recording(function: str) -> Recording:
    recording: Recording | None = recording_of_function.get()
    if recording is None:
        cause = f"{author_line()} calls {function} outside of a workflow function"
        raise WorkflowError("?", f"{cause}; move it into a function with @server.workflow, which Baton calls")
    return recording


class StepCall:
    """What `step(tool)` returns. Only a call of it adds the step."""

    __slots__ = ("_call", "_line", "_recording", "_tool")

    def __init__(self, recording: Recording, tool: str, call: Callable[..., Reference]) -> None:
        self._recording, self._tool, self._call, self._line = recording, tool, call, author_line()
        recording.uncalled_steps[id(self)] = self

    def __call__(self, /, *values: object, **keywords: object) -> Reference:
        self._recording.uncalled_steps.pop(id(self), None)
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
        setattr(StepCall, f"__{_method}__", StepCall._refuse)  # noqa: SLF001 - completes the class

"""What all kinds of steps have in common (docs/workflows.md). A workflow and a run know only this."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple, Self

from mcp_baton.definition_lines import note_definition
from mcp_baton.protocol.json import Json, dumps
from mcp_baton.tasks.ids import text_digest
from mcp_baton.tasks.record import TaskRecord
from mcp_baton.tools.approval import Approval
from mcp_baton.tools.arguments import Argument
from mcp_baton.tools.labels import OptionType, type_faults, value_text
from mcp_baton.tools.templates import placeholders
from mcp_baton.workflow.host import Skip
from mcp_baton.workflow.reference import Reference
from mcp_baton.workflow.sources import (
    SOURCES,
    Condition,
    PromptArg,
    Source,
    StepOutput,
    TaskVariable,
    condition_of,
    parts_of,
    source_json,
    source_of,
)
from mcp_baton.workflow.steps.retry import Retry

_OPTION_TYPES: Final[Mapping[str, OptionType]] = {
    "guidance": (str | None, "write a text, in which {name} is an argument of the workflow"),
    "retryable": (bool | None, "write True, or leave it out"),
    "checkpoint": (bool | None, "write True, or when=… for a condition"),
}
"""Only some kinds have these options."""

NO_SOURCES: Final[Mapping[str, Source]] = MappingProxyType({})


class UsedSource(NamedTuple):
    """A source that a step uses, in one of its fields: for a parameter, or for a name in a text."""

    field: str
    name: str
    source: Source


class Step:
    """The base of the kinds of steps. A step cannot be changed.

    The constructors check nothing: `server.check()` and `handler(server)` report what is wrong.

    Attributes:
        name: Unique in its workflow.
        binding: The name under which later steps refer to this step's output; the step's own unless given.
        when: The step runs only if this condition holds; otherwise it is skipped (docs/workflows.md, Conditions).
        after: The names of earlier steps that must be settled before this step starts, even if it uses nothing of them.
            Matters only with `Workflow.parallel`.
        faults: What is wrong with the arguments of the constructor, each with the correction. They have been left out.
    """

    name: str
    binding: str
    when: Condition | None
    after: tuple[str, ...]
    faults: tuple[str, ...]

    # What only some kinds have.
    tool: str | None = None
    arguments: Mapping[str, Source] = NO_SOURCES
    resources: Sequence[str] = ()
    template_bindings: Mapping[str, Source] = NO_SOURCES
    guidance: str | None = None
    retryable: bool = False
    checkpoint: bool = False
    retry: Retry | None = None
    approval: Approval | None = None
    returns: Any = None
    """The type of the result of a step without a tool."""

    has_value: bool = True
    """Whether the step has a result once it is completed."""

    client_can_do: ClassVar[bool] = True
    """Whether a client can do the step itself: call its tool, or read its resources."""

    in_thread: ClassVar[bool] = True
    """Whether the step runs in another thread if steps run at the same time."""

    def __init__(
        self,
        name: object,
        *,
        when: object,
        after: Sequence[Any],
        binding: str | None = None,
        arguments: object = None,
        resources: Any = (),
        template_bindings: object = None,
        faults: Iterable[str] = (),
        **fields: object,
    ) -> None:
        causes = [] if isinstance(name, str) else ["its name is not a text; write one, such as 'refund'"]
        wrong_types = type_faults(fields, _OPTION_TYPES)
        causes += *faults, *wrong_types.values()
        fields |= dict.fromkeys(wrong_types)
        text = _text(name)
        if isinstance(resources, str) or not isinstance(resources, Iterable):
            causes.append(f"resources is a list of URIs; write resources=[{resources!r}]")
            resources = ()
        elif wrong := [resource for resource in resources if not isinstance(resource, str)]:
            remedy = "write a text such as 'docs://{topic}', and give the value of the name in its braces"
            causes.append(f"{value_text(wrong[0])} is not a URI; {remedy}")
            resources = ()
        try:
            condition = None if when is None else condition_of(when)
        except TypeError as error:
            condition = None
            causes.append(f"when: {error}")
        self.__dict__.update(
            fields,
            name=text,
            arguments=_sources_by_name(arguments, causes),
            resources=tuple(resources),
            template_bindings=_sources_by_name(template_bindings, causes),
            binding=binding or text,
            when=condition,
            after=_step_names(after, causes),
            faults=tuple(causes),
        )
        note_definition(self)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a step cannot be changed: {name}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def __getitem__(self, field: str | int) -> Reference:
        """A field of this step's output, as a source for a later step: `find["shelf"]`."""
        return Reference(StepOutput(self.binding))[field]

    def replace(self, **fields: object) -> Self:
        """A copy with other values in these fields."""
        copy = object.__new__(type(self))
        own = {name: value for name, value in vars(self).items() if name != "fingerprint"}
        copy.__dict__.update(own, **fields)
        return copy

    def __eq__(self, other: object) -> bool:
        """Whether another step does the same."""
        return isinstance(other, Step) and type(self) is type(other) and self._comparable == other._comparable

    @property
    def _comparable(self) -> dict[str, object]:
        """The fields, with sources as JSON: `==` on sources makes a condition."""
        return {
            name: source_json(value) if isinstance(value, (Condition, Mapping, *SOURCES)) else value
            for name, value in vars(self).items()
            if name not in ("faults", "fingerprint")
        }

    __hash__ = object.__hash__

    # How a run runs it. `run` is the `OpenRun`, and `this` the `StepRun`, which imports this module.

    def may_start(self, run: Any, this: Any) -> Any:
        """Note when the step begins; or return why it cannot begin now (a `Stop`): too little time is left, or another
        run has the task or could take it soon."""
        return run.begin(this, run.host)

    def start(self, run: Any, this: Any) -> Any:  # noqa: ARG002 - other kinds need the run
        """What `perform` does next; `None` if the step is settled or stopped already, or calls its tool several
        times."""
        return this

    def perform(self, run: Any, this: Any, host: Any) -> None:
        """Do the step, perhaps in another thread, and note in `this` how it ended. This does not change the run."""
        raise NotImplementedError

    def end(self, run: Any, this: Any) -> None:
        """Note in the run how the step ended. A checkpoint is written."""
        if this.outcome is not None:
            run.settle(this)
        if this.stop is not None:
            run.stop_at(this)
        elif self.checkpoint:
            run.write_checkpoint(self)

    def replay(self, run: Any, this: Any) -> None:
        """Add to the record of a step that is completed what a run shows of it."""

    def why_skipped(self, task: TaskRecord) -> Skip:  # noqa: ARG002 - a wait needs the task
        """Why an earlier run has skipped the step."""
        return Skip.CONDITION

    # What it uses

    @property
    def used_sources(self) -> list[UsedSource]:
        """The sources that the step uses, those of its condition last."""
        return [
            *(UsedSource("arguments", name, source) for name, source in self.arguments.items()),
            *(UsedSource("template_bindings", name, source) for name, source in self.template_bindings.items()),
            *(UsedSource(name, name, source) for name, source in self.own_sources.items()),
            *(UsedSource("when", "when", source) for compared in self.comparisons for source in compared.operands),
        ]

    @property
    def own_sources(self) -> Mapping[str, Source]:
        """The sources that only this kind of step has, by their field."""
        return NO_SOURCES

    @property
    def comparisons(self) -> list[Condition]:
        return [] if self.when is None else list(self.when.comparisons)

    @property
    def sources(self) -> list[Source]:
        """All data sources that the step uses: of `first_of`, each one."""
        return [part for _, _, source in self.used_sources for part in parts_of(source)]

    def uses(self, binding: str) -> bool:
        """Whether one of the step's sources is the output of the step with this binding."""
        return any(isinstance(source, StepOutput) and source.binding == binding for source in self.sources)

    def follows(self, other: "Step", setters: Mapping[str, tuple[str, ...]]) -> bool:
        """Whether the step needs something of an earlier step.

        Args:
            setters: The tools that set a task variable, by its name, as in `Workflow`.
        """
        if other.name in self.after or self.uses(other.binding):
            return True
        tools_of = [setters.get(source.name) for source in self.sources if isinstance(source, TaskVariable)]
        return other.tool is not None and any(not tools or other.tool in tools for tools in tools_of)

    def read_after(self, resource: str) -> bool:
        """Whether a resource of the step is fetched after its tool, because its URI needs the tool's output."""
        sources = (self.template_bindings.get(name) for name in placeholders(resource))
        return any(isinstance(source, StepOutput) and source.binding == self.binding for source in sources)

    # What it is

    @property
    def label(self) -> dict[str, str]:
        """The member of the task's progress that says what the step is."""
        return {}

    @property
    def texts(self) -> list[str]:
        """The texts that the author has given to the step."""
        return [self.name, self.guidance or "", *self.resources]

    @property
    def may_be_skipped(self) -> bool:
        return self.when is not None

    @property
    def longest_wait_ms(self) -> int:
        """How long the step waits at most, milliseconds; 0 if it does not wait, or until a time that a run computes."""
        return 0

    @property
    def parts(self) -> list[Json]:
        """What the step does, without its texts."""
        sources, bindings = map(source_json, (self.arguments, self.template_bindings))
        when: list[Json] = [] if self.when is None else [{"when": source_json(self.when)}]
        return [self.name, self.tool, sources, self.binding, list(self.resources), bindings, *self.own_parts, *when]

    @property
    def own_parts(self) -> list[Json]:
        """The parts that only this kind of step has."""
        return []

    def output_schema(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """The JSON Schema of the step's output, from that of its tool's output."""
        return schema

    # What is wrong with it, in its workflow (`StepContext`, which imports this module)

    def tool_faults(self, context: Any) -> Iterable[str]:  # noqa: ARG002 - other kinds need the context
        """What is wrong with the step's tool and its parameters."""
        return ()

    def has_misplaced_option(self, context: Any) -> bool:  # noqa: ARG002 - other kinds need the context
        """Whether an option of the step is among the arguments of its tool. Other errors of the step may follow from
        it."""
        return False

    def own_faults(self, context: Any) -> Iterable[str]:  # noqa: ARG002 - other kinds need the context
        """What is wrong with that which only this kind of step has."""
        return ()

    @property
    def max_calls(self) -> int:
        """How often the step is called at most if each call fails cleanly."""
        return self.retry.attempts if self.retry else 1 + self.retryable

    def may_repeat(self, error: BaseException | None) -> bool:
        """Whether the step may be called again after its tool has raised this."""
        return self.retryable or (self.retry is not None and isinstance(error, self.retry.on))

    @cached_property
    def fingerprint(self) -> str:
        """Eight hex digits that change with what the step does, but not with its texts."""
        return text_digest(dumps(self.parts))[:8]


def _sources_by_name(sources: Any, faults: list[str]) -> Mapping[str, Source]:
    """Sources as a step keeps them: steps, arguments and references are replaced by what they refer to."""
    if sources and not isinstance(sources, Mapping):
        faults.append(_no_map(sources))
        return NO_SOURCES
    return MappingProxyType({name: source_from(value) for name, value in (sources or {}).items()})


def source_from(value: Any) -> Any:
    if isinstance(value, Step):
        return StepOutput(value.binding)
    return PromptArg(value.name) if isinstance(value, Argument) else source_of(value)


def _step_names(after: Any, faults: list[str]) -> tuple[str, ...]:
    """The names of the steps in `after`: one, or several."""
    is_one = isinstance(after, str | Step | Reference) or not isinstance(after, Iterable)
    names: list[str] = []
    for value in () if after is None else (after,) if is_one else after:
        source = value if isinstance(value, Step) else source_of(value)
        name = source.name if isinstance(source, Step) else source.binding if isinstance(source, StepOutput) else source
        if isinstance(name, str):
            names.append(_text(name))
        else:
            faults.append(f"after={value_text(value)} is not a step; give the result of an earlier step, or its name")
    return tuple(names)


def _text(value: object) -> str:
    """A name as a plain text: the value of a `str` that is an `Enum`, whose own text is the name of the member."""
    return str.__str__(value) if isinstance(value, str) else str(value)


def _no_map(value: object) -> str:
    names = list(value) if isinstance(value, list | tuple | set | frozenset) else [value]
    texts = [name for name in names if isinstance(name, str)]
    inner = ", ".join(f"{name!r}: prompt_arg({name!r})" for name in texts) or "'…': prompt_arg('…')"
    return f"arguments={value_text(value)} is not a map of parameters to data sources; write arguments={{{inner}}}"

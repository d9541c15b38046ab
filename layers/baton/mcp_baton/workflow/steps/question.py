"""A step whose result is the answer to a question (docs/workflows.md, Questions)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from mcp_baton.hints import did_you_mean
from mcp_baton.protocol.json import Json
from mcp_baton.tools.arguments import NAME, is_portable_name
from mcp_baton.tools.templates import placeholders
from mcp_baton.workflow.host import Host
from mcp_baton.workflow.step_run import StepRun
from mcp_baton.workflow.steps.context import StepContext
from mcp_baton.workflow.steps.open_run import OpenRun
from mcp_baton.workflow.steps.step import Step


class Question(Step):
    """A question to the client's model or user. The answer is the step's result.

    Attributes:
        name: Unique in its workflow. It is the answer's name, too.
        question: The question. `{name}` is replaced from `template_bindings`, else by a prompt argument.
        returns: The type of the answer: any type that pydantic knows.
        of: Who answers: `model` or `user`.
        template_bindings: Sources for the `{name}`s in the question.
        binding: The name under which later steps refer to the answer; the step's own unless given.
        when: The question is asked only if this condition holds (docs/workflows.md, Conditions).
        after: As for `ToolStep`.
    """

    question: str
    returns: Any
    of: Literal["model", "user"]

    client_can_do = False
    in_thread = False

    def __init__(
        self,
        name: str,
        question: str,
        returns: Any = str,
        of: Literal["model", "user"] = "model",
        *,
        template_bindings: Mapping[str, Any] | None = None,
        binding: str | None = None,
        when: object = None,
        after: Sequence[Any] = (),
    ) -> None:
        faults: list[str] = []
        if not isinstance(question, str) or not question:
            shown = getattr(question, "__name__", repr(question))
            remedy = "give the name, then the question: 'reader', 'Who borrows the book?'"
            faults.append(f"{shown} is given as the question, which is a text; {remedy}")
            question = ""
        if of not in ("model", "user"):
            faults.append(f"of={of!r} is not possible; write of='model' or of='user'")
        if isinstance(returns, str):
            faults.append(f"returns={returns!r} is text, not a type; write returns={returns}")
            returns = str
        if isinstance(returns, list | tuple | set | dict):
            values = ", ".join(map(repr, returns))
            faults.append(f"returns={returns!r} is not a type; write returns=Literal[{values}]")
            returns = str
        super().__init__(
            name,
            binding=binding,
            when=when,
            after=after,
            question=question,
            returns=returns,
            of=of,
            template_bindings=template_bindings,
            faults=faults,
        )

    def own_faults(self, context: StepContext) -> Iterator[str]:
        if not context.workflow.has_workflow_tool:
            yield "its question is answered through the workflow's tool; leave out tool=False and durable=False"
        if self.name in context.arguments:
            yield "it asks a question and has the name of an argument; give the question another name"
        if not is_portable_name(self.name):
            yield f"it asks a question, and its name is the answer's name: {NAME}; write the name before the question"
        names = [*self.template_bindings, *context.arguments]
        for name in sorted(placeholders(self.question).difference(names)):
            yield f"nothing fills {{{name}}} in its question{did_you_mean(name, names)}"

    def perform(self, run: OpenRun, this: StepRun, host: Host) -> None:
        """A question that has no answer stays open, with all others that can be asked now."""
        this.stop = run.known.answers_pause(self, host).without_secrets(run.secrets.hide_text)

    @property
    def label(self) -> dict[str, str]:
        return {"ask": self.of}

    @property
    def texts(self) -> list[str]:
        return [*super().texts, self.question]

    @property
    def own_parts(self) -> list[Json]:
        return [str(self.returns)]

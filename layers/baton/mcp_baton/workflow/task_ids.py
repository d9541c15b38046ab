"""How a model names the task that its calls belong to: by an argument of each (docs/workflows.md, As a tool). Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from mcp_baton.protocol.json import Json, JsonObject, dumps_spaced
from mcp_baton.workflow.definition import TASK_ACTION, TASK_ID, Workflow
from mcp_baton.workflow.secrets import stand_in


class Handle(Struct, frozen=True):
    """A task's id, for texts that carry it.

    Attributes:
        task_id: The task's id.
        taken_by: Whether a tool of this name takes it: one with a parameter `task_id` of its own does not.
        twin: The tool that goes on with the task; `None` where the workflow is none.
        secrets: The workflow's required secret arguments: whoever goes on with a task has to give them again.
    """

    task_id: str
    taken_by: Callable[[str], bool]
    twin: str | None
    secrets: tuple[str, ...] = ()

    def on(self, tool: str, arguments: Mapping[str, Json]) -> dict[str, Json]:
        """A call's arguments with the task's id among them."""
        return {**arguments, TASK_ID: self.task_id} if self.taken_by(tool) else dict(arguments)

    def going_on(self) -> list[JsonObject]:
        """The call that lets the server go on, as `next` lists it; none without a twin."""
        return [] if self.twin is None else [{"tool": self.twin, "arguments": self.arguments}]

    def finishing(self) -> list[JsonObject]:
        """The call that completes a task whose steps are all settled, as `next` lists it; none without a twin."""
        return [] if self.twin is None else [{"tool": self.twin, "arguments": {TASK_ID: self.task_id}}]

    def offer(self, prompt: str, secrets: Sequence[str] = (), *, begin: str = "Or ") -> str:
        """The sentence that says how the server goes on. Without a twin, by the prompt of this name.

        Args:
            prompt: The prompt.
            secrets: The secret arguments, which are not stored.
            begin: How the sentence begins, with the space after it; empty if it has no other beginning.
        """
        again = f" Give {', '.join(secrets)} again with it: what is secret is not stored." if secrets else ""
        how = f"get the prompt {prompt}" if self.twin is None else f"call {self.twin}"
        begun = f"{begin}{how}"
        return f"{begun[0].upper()}{begun[1:]} with {self._named} to let the server go on.{again}"

    def finish(self) -> str:
        """The sentence that says how a task ends whose steps are all done."""
        if self.twin is None:
            return "The client completes the task."
        return f"Call {self.twin} with {dumps_spaced({TASK_ID: self.task_id})} to finish."

    @property
    def _named(self) -> str:
        return dumps_spaced(self.arguments)

    @property
    def arguments(self) -> dict[str, Json]:
        """The arguments by which the workflow's tool continues the task."""
        return naming(self.task_id, self.secrets)


def naming(task_id: str, secrets: Iterable[str]) -> dict[str, Json]:
    """The arguments by which a workflow goes on with a task: its id, and stand-ins of what has to be given again."""
    return {TASK_ID: task_id, **{name: stand_in(name) for name in secrets}}


def looking_at(task_id: str, workflow: Workflow | None) -> str:
    """The call that shows a task and changes nothing: the part of a sentence that begins with the verb."""
    if workflow is None or not workflow.has_workflow_tool:
        return f"send tasks/get with {dumps_spaced({'taskId': task_id})}"
    return f"call {workflow.name} with {dumps_spaced({TASK_ID: task_id, TASK_ACTION: 'show'})}"


def secrets_of(workflow: Workflow) -> tuple[str, ...]:
    """The secret arguments that whoever goes on with a task of this workflow has to give again."""
    return tuple(argument.name for argument in workflow.arguments if argument.secret and argument.required)

"""How a task is named in calls that continue it, and in texts about them."""

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from mcp_baton.exceptions import StoreError
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.record import TaskRecord
from mcp_baton.tools.arguments import TASK_ID
from mcp_baton.tools.secrets import secret_placeholder
from mcp_baton.workflow.definition import TASK_ACTION, Workflow
from mcp_baton.workflow.definition_changes import given_secrets
from mcp_baton.workflow.ended_run import EndedRun
from mcp_baton.workflow.server_view import ServerView

NO_ARGUMENTS: Final[JsonObject] = MappingProxyType({})


class Handle(Struct, frozen=True):
    """A task's id and the calls that continue the task, for texts.

    Attributes:
        accepts_id: Whether a tool of this name accepts the id. A tool with its own parameter `task_id` does not.
        extra_arguments: Arguments that the task does not have, so that they must be given.
        given: The arguments of the task; of these, the secret ones must be given again.
    """

    task_id: str
    workflow: Workflow
    accepts_id: Callable[[str], bool] = lambda _: False
    extra_arguments: Mapping[str, Json] = NO_ARGUMENTS
    given: Collection[str] = ()

    @property
    def tool(self) -> str | None:
        """The workflow's tool, which continues the task; `None` if it has none."""
        return self.workflow.name if self.workflow.has_workflow_tool else None

    @property
    def arguments(self) -> dict[str, Json]:
        """The arguments that continue the task: its id, those that must be given again, and a text for each secret."""
        secrets = (argument for argument in self.workflow.arguments if argument.secret)
        names = (argument.name for argument in secrets if argument.required or argument.name in self.given)
        return {TASK_ID: self.task_id, **self.extra_arguments, **{name: secret_placeholder(name) for name in names}}

    def call(self, arguments: JsonObject | None = None) -> list[JsonObject]:
        """The call of the workflow's tool with these arguments, by default those that let the server continue; none
        without a workflow tool."""
        arguments = self.arguments if arguments is None else arguments
        return [] if self.tool is None else [{"tool": self.tool, "arguments": arguments}]

    @property
    def cancel_arguments(self) -> dict[str, Json]:
        """The arguments of the call that ends the task."""
        return {TASK_ID: self.task_id, TASK_ACTION: "cancel"}


def handle_of(server: ServerView, workflow: Workflow, task: TaskRecord, run: EndedRun | None = None) -> Handle:
    """Return the handle of a task; of one that was run just now without another read of its arguments."""
    try:
        given = run.known.arguments if run else given_secrets(workflow, task)
    except StoreError:
        given = workflow.secrets

    def accepts_id(tool: str) -> bool:
        return not server.tools[tool].has_parameter(TASK_ID)

    return Handle(task.task_id, workflow, accepts_id, given=given)

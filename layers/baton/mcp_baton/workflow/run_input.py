"""How a workflow is invoked, and the task that is created for it."""

from collections.abc import Mapping
from typing import cast

from msgspec import Struct, field

from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.ids import new_token
from mcp_baton.tasks.record import PROGRESS, SALT, Claim, NewTask, StepStatus
from mcp_baton.tasks.starts import Start
from mcp_baton.tools.secrets import stored_arguments
from mcp_baton.workflow.definition import Workflow


class RunInput(Struct, frozen=True):
    """The input of a run: the arguments, the owner and the answers.

    Attributes:
        owner: The owner of the task; `None` for an unauthenticated caller.
        nulls: The arguments that were null, which a text cannot express.
        start: The stored start of the call, whose task this run creates; `None` if repeated calls are not found.
        ignored: The arguments of a resume that do not replace the stored ones, and empty answers.
    """

    texts: Mapping[str, str]
    arguments: Mapping[str, Json]
    owner: str | None = None
    ttl_ms: int | None = None
    nulls: frozenset[str] = frozenset()
    answers: Mapping[str, JsonObject] = field(default_factory=dict)
    start: Start | None = None
    ignored: tuple[str, ...] = ()

    @property
    def stored_texts(self) -> dict[str, Json]:
        """The arguments as a task stores them, for a resume."""
        return {name: None if name in self.nulls else text for name, text in self.texts.items()}


def new_task(workflow: Workflow, run_input: RunInput, owner: str, claim: Claim | None) -> NewTask:
    """The task to create for a workflow.

    Args:
        claim: The claim of the first run; `None` if a worker will claim the task.
    """
    progress = workflow.progress([StepStatus.PENDING] * len(workflow.steps))
    variables: dict[str, Json] = {PROGRESS: cast("JsonObject", progress)}
    if workflow.secrets:
        variables[SALT] = new_token()
    return NewTask(
        owner=owner,
        variables=variables,
        workflow=workflow.name,
        definition=workflow.fingerprint,
        arguments=stored_arguments(run_input.stored_texts, workflow.secrets),
        ttl_ms=run_input.ttl_ms,
        claim=claim,
        task_id=None if run_input.start is None else run_input.start.task_id,
    )

"""A step that fetches resources for the model to read (docs/workflows.md, Steps)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mcp_baton.workflow.host import Host
from mcp_baton.workflow.step_run import StepRun
from mcp_baton.workflow.steps.context import StepContext
from mcp_baton.workflow.steps.open_run import OpenRun
from mcp_baton.workflow.steps.step import Step


class Fetch(Step):
    """A step that fetches resources for the model to read. It has no result.

    Attributes:
        name: Unique in its workflow.
        resources: The URIs; `{name}` is replaced from `template_bindings`, else by a prompt argument.
        template_bindings: Sources for the `{name}`s in `resources`.
        guidance: A note for a model that reads the resources; `{arg}` is replaced.
        checkpoint: Write all results right after this step.
        when: The resources are fetched only if this condition holds (docs/workflows.md, Conditions).
        after: As for `ToolStep`.
    """

    has_value = False

    def __init__(
        self,
        name: str,
        resources: Sequence[str],
        template_bindings: Mapping[str, Any] | None = None,
        *,
        guidance: str | None = None,
        retryable: bool = False,
        checkpoint: bool = False,
        when: object = None,
        after: Sequence[Any] = (),
    ) -> None:
        super().__init__(
            name,
            when=when,
            after=after,
            resources=resources,
            template_bindings=template_bindings,
            guidance=guidance,
            retryable=retryable,
            checkpoint=checkpoint,
        )

    def tool_faults(self, context: StepContext) -> Iterator[str]:
        del context
        if not self.resources:
            yield "it has no resources; give it at least one"

    def perform(self, run: OpenRun, this: StepRun, host: Host) -> None:
        if (failed := run.fetch_before(this, host)) is not None:
            run.fail(this, failed)
            return
        missing = run.known.missing_uri(self)
        # Reading the resources may have taken so long that another run has the task by now.
        if (stop := run.check_claim(self, host) or missing) is not None:
            run.stop_before(this, stop)
        else:
            run.succeed(this, None)

    def replay(self, run: OpenRun, this: StepRun) -> None:
        run.fetch_again(this)

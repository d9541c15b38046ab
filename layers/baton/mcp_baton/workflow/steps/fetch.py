"""A step that fetches resources for the model to read (docs/workflows.md, Steps)."""

from collections.abc import Mapping, Sequence
from typing import Any

from mcp_baton.workflow.steps.step import Step, sources_by_name, uris


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
        faults: list[str] = []
        super().__init__(
            name,
            binding=None,
            when=when,
            after=after,
            resources=uris(resources, faults),
            template_bindings=sources_by_name(template_bindings, faults),
            guidance=guidance,
            retryable=retryable,
            checkpoint=checkpoint,
            faults=faults,
        )

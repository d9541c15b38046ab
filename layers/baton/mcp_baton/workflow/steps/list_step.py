"""A step that calls a tool for each element of a list (docs/workflows.md, Lists)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from mcp_baton.protocol.json import Json
from mcp_baton.tools.approval import Approval
from mcp_baton.workflow.sources import Source, as_source, source_json
from mcp_baton.workflow.steps.retry import Retry
from mcp_baton.workflow.steps.step import source_from
from mcp_baton.workflow.steps.tool_step import ToolStep


class ListStep(ToolStep):
    """A step that calls a tool for each element of a list. Its output is the list of results.

    The other arguments are those of `ToolStep`; it fetches no resources.

    Attributes:
        arguments: Sources by the tool's parameter. `item()` is the current element.
        each: A source of a list.
        parallel: How many calls run at the same time: 1 to 100.
    """

    each: Source
    parallel: int

    def __init__(
        self,
        name: str | Callable[..., object],
        arguments: Mapping[str, Any] | None = None,
        *,
        each: Any,
        parallel: int = 1,
        tool: str | Callable[..., object] = "",
        binding: str | None = None,
        guidance: str | None = None,
        retryable: bool = False,
        checkpoint: bool = False,
        retry: Retry | None = None,
        when: object = None,
        after: Sequence[Any] = (),
        approval: Approval | None = None,
    ) -> None:
        super().__init__(
            name,
            arguments,
            tool=tool,
            binding=binding,
            guidance=guidance,
            retryable=retryable,
            checkpoint=checkpoint,
            retry=retry,
            when=when,
            after=after,
            approval=approval,
        )
        self.__dict__.update(each=as_source(source_from(each)), parallel=parallel)

    @property
    def own_sources(self) -> list[tuple[str, Source]]:
        return [("each", self.each)]

    def map_sources(self, change: Callable[[Source], Source]) -> Self:
        return super().map_sources(change).replace(each=change(self.each))

    @property
    def options(self) -> tuple[object, ...]:
        return *super().options, self.parallel

    @property
    def own_parts(self) -> list[Json]:
        return [{"each": source_json(self.each)}]

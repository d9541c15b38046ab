"""A step that calls nothing and ends with a callback or at a time (docs/waiting.md)."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Literal, Self

from msgspec import Struct

from mcp_baton.exceptions import RegistrationError
from mcp_baton.protocol.json import Json
from mcp_baton.workflow.sources import Source, as_source, source_json, source_text
from mcp_baton.workflow.steps.step import Step, source_from
from mcp_baton.workflow.times import duration_text, milliseconds


class Callback(Struct, frozen=True):
    """A result that an external system sends to a waiting step (docs/waiting.md).

    Attributes:
        returns: The type of the callback's body: any type that pydantic knows. The body is the step's result.
        within: How long the step waits after the run has reached it.
        on_timeout: What happens after that: the step fails, or is skipped (`skip`).

    Raises:
        RegistrationError: `within` is no time, or `on_timeout` or `returns` has another value.
    """

    returns: Any
    within: timedelta
    on_timeout: Literal["fail", "skip"] = "fail"

    def __post_init__(self) -> None:
        if not isinstance(self.within, timedelta) or self.within <= timedelta():
            raise RegistrationError(f"Callback: within={self.within!r} is no time; write within=timedelta(days=3)")
        if self.on_timeout not in ("fail", "skip"):
            raise RegistrationError(f"Callback: on_timeout={self.on_timeout!r} is not possible; write 'fail' or 'skip'")
        if isinstance(self.returns, str):
            raise RegistrationError(f"Callback: returns={self.returns!r} is text; write the type {self.returns}")

    @property
    def timed_out(self) -> str:
        return f"timed out: no callback within {duration_text(self.within)}"


class Wait(Step):
    """A wait, without a running function. It has a callback or a time.

    Attributes:
        name: Unique in its workflow.
        callback: The step's output is the body of a request to `ctx.callback_url(name)`.
        sleep: The step ends this long after the run has reached it, or at the time that this source has: ISO 8601 with
            an offset.
        binding: The name under which later steps refer to the callback's body; the step's own unless given.
        when: The step waits only if this condition holds (docs/workflows.md, Conditions).
        after: As for `ToolStep`.
    """

    callback: Callback | None
    sleep: timedelta | Source | None

    client_can_do = False

    def __init__(
        self,
        name: str,
        callback: Callback | None = None,
        *,
        sleep: Any = None,
        binding: str | None = None,
        when: object = None,
        after: Sequence[Any] = (),
    ) -> None:
        super().__init__(
            name,
            binding=binding,
            when=when,
            after=after,
            callback=callback,
            has_value=callback is not None,
            returns=callback.returns if callback else None,
            sleep=sleep if sleep is None or isinstance(sleep, timedelta) else as_source(source_from(sleep)),
        )

    @property
    def waits_for(self) -> Literal["callback", "time"]:
        return "time" if self.callback is None else "callback"

    @property
    def wait_text(self) -> str:
        """What the step does: `waits for 24 hours`."""
        if self.callback is not None:
            return f"waits for a callback, for {duration_text(self.callback.within)}"
        if isinstance(self.sleep, timedelta):
            return f"waits for {duration_text(self.sleep)}"
        return "" if self.sleep is None else f"waits until {source_text(self.sleep)}"

    @property
    def longest_wait_ms(self) -> int:
        wait = self.callback.within if self.callback else self.sleep
        return milliseconds(wait) if isinstance(wait, timedelta) else 0

    @property
    def may_be_skipped(self) -> bool:
        return super().may_be_skipped or (self.callback is not None and self.callback.on_timeout == "skip")

    @property
    def time_source(self) -> Source | None:
        """The source of the time until which the step waits, if it has one."""
        return None if isinstance(self.sleep, timedelta) else self.sleep

    @property
    def own_sources(self) -> list[tuple[str, Source]]:
        return [] if self.time_source is None else [("sleep", self.time_source)]

    def map_sources(self, change: Callable[[Source], Source]) -> Self:
        copy = super().map_sources(change)
        return copy if self.time_source is None else copy.replace(sleep=change(self.time_source))

    @property
    def label(self) -> dict[str, str]:
        return {"wait": self.waits_for}

    @property
    def options(self) -> tuple[object, ...]:
        sleep = self.sleep if self.time_source is None else source_json(self.time_source)
        return *super().options, self.callback, sleep

    @property
    def own_parts(self) -> list[Json]:
        # The end of a wait that has started stays when the definition changes.
        return [{"wait": self.waits_for, "returns": str(self.callback.returns) if self.callback else None}]

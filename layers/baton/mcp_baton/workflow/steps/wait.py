"""A step that calls nothing and ends with a callback or at a time (docs/waiting.md)."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final, Literal

from msgspec import Struct

from mcp_baton.exceptions import StoreError
from mcp_baton.protocol.json import Json
from mcp_baton.tasks.record import WAIT_PREFIX, StepStatus, TaskRecord, statuses_of, timestamp
from mcp_baton.tools.outcomes import Failed, Failure, Succeeded
from mcp_baton.tools.templates import placeholders
from mcp_baton.workflow.host import Skip, Skipped
from mcp_baton.workflow.pause import Waiting
from mcp_baton.workflow.secrets import contains_argument
from mcp_baton.workflow.sources import Constant, Source, as_source, source_text
from mcp_baton.workflow.step_run import StepRun
from mcp_baton.workflow.steps.context import StepContext
from mcp_baton.workflow.steps.open_run import OpenRun
from mcp_baton.workflow.steps.step import Step, source_from
from mcp_baton.workflow.times import EXAMPLE, duration_text, milliseconds, time_of


class Callback(Struct, frozen=True):
    """A result that an external system sends to a waiting step (docs/waiting.md).

    Attributes:
        returns: The type of the callback's body: any type that pydantic knows. The body is the step's result.
        within: How long the step waits after the run has reached it.
        on_timeout: What happens after that: the step fails, or is skipped (`skip`).
    """

    returns: Any
    within: timedelta
    on_timeout: Literal["fail", "skip"] = "fail"

    @property
    def faults(self) -> Iterator[str]:
        """Which fields have another value, each with the correction."""
        if not isinstance(self.within, timedelta) or self.within <= timedelta():
            yield f"within={self.within!r} is not a time; write within=timedelta(days=3)"
        if self.on_timeout not in ("fail", "skip"):
            yield f"on_timeout={self.on_timeout!r} is not possible; write 'fail' or 'skip'"
        if isinstance(self.returns, str):
            yield f"returns={self.returns!r} is text; write the type {self.returns}"

    @property
    def timed_out(self) -> str:
        return f"timed out: no callback within {duration_text(self.within)}"


_NO_MOMENTS: Final = frozenset({"date", "duration", "time"})
"""Formats of texts that are no time to wait for."""


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
            faults=callback.faults if callback else (),
        )

    def own_faults(self, context: StepContext) -> Iterator[str]:
        if not context.workflow.durable:
            yield "it waits, and the workflow has no tasks; leave out durable=False"
        if (self.sleep is None) is (self.callback is None):
            yield "it waits for a callback or a time; give it one of callback=… and sleep=…"
        if isinstance(self.sleep, timedelta) and self.sleep <= timedelta():
            yield f"its time {self.sleep!r} is over at once; give a time of more than 0 s"
        source = self.time_source
        if source is None:
            return
        if contains_argument(source, context.workflow.secrets):
            yield "its time is a secret argument, and is stored; give it another source"
        remedy = f"give a timedelta, or a time in ISO 8601 such as {EXAMPLE}"
        kinds = context.kinds_of(source)
        if kinds is not None and "string" not in kinds:
            yield f"its time {source_text(source)} is {' or '.join(sorted(kinds))}, and not a text; {remedy}"
        formats = context.formats_of(source)
        if formats and formats <= _NO_MOMENTS:
            name = " or a ".join(sorted(map(str, formats)))
            yield f"its time {source_text(source)} is a {name}, and no moment; {remedy}"
        match source:
            case Constant(str(text)) if not placeholders(text) and isinstance(error := time_of(text), str):
                yield error

    def may_start(self, run: OpenRun, this: StepRun) -> None:
        """A wait calls nothing, so it needs no time."""

    def start(self, run: OpenRun, this: StepRun) -> None:
        """Settle the step, or stop at it. When the wait ends is stored with the run's own write."""
        now_ms = run.now_ms()
        until_ms = run.known.decide_wait(self, now_ms)
        if isinstance(until_ms, int) and until_ms > now_ms:
            until_ms = run.end_of_wait(until_ms, now_ms)
        if isinstance(until_ms, str):
            run.fail(this, Failed(until_ms))
            self.end(run, this)
        elif not isinstance(until_ms, int):
            this.stop = until_ms.without_secrets(run.secrets.hide_text)
            run.stop_at(this)
        elif until_ms > now_ms:
            run.variables.note(f"{WAIT_PREFIX}{self.name}", until_ms)
            self._stop_until(run, until_ms)
        elif self.callback is None:
            this.outcome = Succeeded(None)
            self.end(run, this)
        else:
            self._time_out(run, this, self.callback, until_ms)

    def why_skipped(self, task: TaskRecord) -> Skip:
        """A step that has waited was skipped at the end of its wait. Without a condition, it can have been skipped for
        nothing else."""
        has_waited = self.when is None or f"{WAIT_PREFIX}{self.name}" in task.variables
        return Skip.NO_CALLBACK if self.callback is not None and has_waited else Skip.CONDITION

    def _stop_until(self, run: OpenRun, until_ms: int) -> None:
        run.stop_at(StepRun(self, stop=Waiting(self.name, self.waits_for, timestamp(until_ms), "")))

    def _time_out(self, run: OpenRun, this: StepRun, callback: Callback, until_ms: int) -> None:
        """End a wait for a callback that has timed out.

        This is written at once: if a callback came first, the run continues with it. Later steps never see an end that
        is not stored.
        """
        if callback.on_timeout == "skip":
            this.outcome = Skipped(Skip.NO_CALLBACK)
        else:
            run.fail(this, Failed(callback.timed_out, kind=Failure.TIMED_OUT))
        self.end(run, this)
        if (over := run.write()) is not None:
            run.stop_at(StepRun(self, stop=over))
            return
        is_completed = run.task is not None and statuses_of(run.task).get(self.name) is StepStatus.COMPLETED
        if run.is_written and not is_completed:
            return
        run.reopen(self)
        self._stop_until(run, until_ms)
        if run.is_written:
            with suppress(StoreError):  # the next run reads the callback
                run.take_settled(self)

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
    def own_sources(self) -> Mapping[str, Source]:
        return {} if self.time_source is None else {"sleep": self.time_source}

    @property
    def label(self) -> dict[str, str]:
        return {"wait": self.waits_for}

    @property
    def own_parts(self) -> list[Json]:
        # The end of a wait that has started stays when the definition changes.
        return [{"wait": self.waits_for, "returns": str(self.callback.returns) if self.callback else None}]

"""A step that calls a tool for each element of a list (docs/workflows.md, Lists)."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Unpack, cast

from msgspec import Struct, field, structs

from mcp_baton.exceptions import StoreError
from mcp_baton.protocol.json import Json
from mcp_baton.tasks.record import TRIED_PREFIX, timestamp
from mcp_baton.tools.outcomes import Failed, Failure, Outcome, Succeeded
from mcp_baton.workflow.list_elements import ListElements, failed_items
from mcp_baton.workflow.pause import (
    ApprovalDenied,
    ApprovalRequired,
    DeadlineExceeded,
    FailedItem,
    StepFailed,
    UnapprovedItem,
    Waiting,
    pause_after,
)
from mcp_baton.workflow.secrets import contains_argument
from mcp_baton.workflow.sources import Constant, Item, Source, StepOutput, as_source, parts_of, source_json, source_text
from mcp_baton.workflow.step_run import StepRun
from mcp_baton.workflow.steps.context import StepContext, width_fault
from mcp_baton.workflow.steps.open_run import OpenRun
from mcp_baton.workflow.steps.step import Step, source_from
from mcp_baton.workflow.steps.tool_step import CallOptions, ToolStep


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
        **options: Unpack[CallOptions],
    ) -> None:
        super().__init__(name, arguments, tool=tool, binding=binding, **options)
        self.__dict__.update(each=as_source(source_from(each)), parallel=parallel)

    def own_faults(self, context: StepContext) -> Iterator[str]:
        each = self.each
        if self.resources or self.template_bindings:
            yield "each=… calls a tool for each element, so the step has a tool and no resources; make two steps"
        if problem := width_fault(self.parallel):
            yield f"{problem}, to a step with each=…"
        if contains_argument(each, context.workflow.secrets):
            yield "each=… is a secret argument, and the elements of a list are stored; give it another source"
        kinds = context.kinds_of(each)
        if kinds is not None and "array" not in kinds:
            yield f"each={source_text(each)} is {' or '.join(sorted(kinds))}, and not a list; give it a list"
        if isinstance(each, StepOutput) and each.binding in context.earlier_steps:
            parts = [part for source in self.arguments.values() for part in parts_of(source) if isinstance(part, Item)]
            for part in parts:
                for field in self.elements_of(part):
                    if isinstance(field, StepOutput):
                        yield from context.path_faults(field, context.earlier_steps[each.binding], part)

    def elements_of(self, source: Source) -> list[Source]:
        """Return what `item()` is, as far as it is known before a run. Return another source as it is."""
        if not isinstance(source, Item):
            return [source]
        if isinstance(self.each, StepOutput):
            return [StepOutput(self.each.binding, ".".join(filter(None, (self.each.path, "0", source.path))))]
        elements = self.each.value if isinstance(self.each, Constant) and isinstance(self.each.value, list) else []
        different_elements = {repr(element): element for element in elements}.values()
        return [Constant(element) for element in different_elements if source.path is None]

    def output_schema(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"type": "array", "items": schema, "$defs": schema.get("$defs", {})}

    def start(self, run: OpenRun, this: StepRun) -> None:
        """Begin the list. `next_call` gives the calls of its elements."""
        items = run.known.decide_items(self, run.host.required(self.tool))
        if isinstance(items, ListElements):
            # Elements are stored even without results: a later run uses the same ones.
            items.is_changed = items.stored is None
            items.version = run.task.version if run.task else 0
            run.items[self.name] = items
            run.lists[self.name] = ListRun(this, self, items, items.open, self._stored_retries(run, items))
            self._end_if_done(run)
        elif isinstance(items, str):
            run.fail(this, Failed(items))
            self.end(run, this)
        else:
            this.stop = items.without_secrets(run.secrets.hide_text)
            run.stop_at(this)

    def _stored_retries(self, run: OpenRun, items: ListElements) -> dict[int, tuple[int, int]]:
        stored = run.variables.get(f"{TRIED_PREFIX}{self.name}")
        if self.retry is None or items.replaced or not isinstance(stored, Mapping):
            return {}
        times = cast("Mapping[str, tuple[int, int]]", stored)
        return {int(index): (int(number), int(until_ms)) for index, (number, until_ms) in times.items()}

    def next_call(self, run: OpenRun) -> StepRun | None:
        """The call of the next element; `None` if it cannot start, or if a continuation has its result."""
        list_run = run.lists[self.name]
        if list_run.waiting[0] in list_run.items.done:
            del list_run.waiting[0]
            self._end_if_done(run)
            return None
        until_ms = list_run.retry_ms(list_run.waiting[0])
        if until_ms > run.now_ms():
            list_run.stops[list_run.waiting.pop(0)] = Waiting(self.name, "time", timestamp(until_ms), "")
            self._end_if_done(run)
            return None
        this = StepRun(self, index=list_run.waiting[0])
        stop = run.begin(this, run.host)
        if stop is None:
            del list_run.waiting[0]
            return this
        run.stop_at(StepRun(self, stop=stop))
        self._end_if_done(run)
        return None

    def replay(self, run: OpenRun, this: StepRun) -> None:
        """The calls of elements are not shown."""

    def end(self, run: OpenRun, this: StepRun) -> None:
        """Note how the call of an element ended, or the whole list."""
        if this.index is None:
            Step.end(self, run, this)
            return
        list_run = run.lists[self.name]
        until_ms = run.next_attempt_ms(this) if this.failed and self.retry else None
        if until_ms is not None:
            self._note_retry(run, this.index, this.attempts, until_ms)
            list_run.stops[this.index] = Waiting(self.name, "time", timestamp(until_ms), "")
        else:
            if this.failed or this.outcome:
                self._note_retry(run, this.index, 0, 0)
            list_run.note(this)
            if isinstance(this.stop, ApprovalRequired | ApprovalDenied):
                list_run.stops[this.index] = this.stop
            elif this.stop is not None:
                run.stop_at(StepRun(self, stop=this.stop))
        self._end_if_done(run)

    def _note_retry(self, run: OpenRun, index: int, attempts: int, until_ms: int) -> None:
        """Note that the next attempt of an element's call waits; or, without attempts, that it does not."""
        retries = run.lists[self.name].retries
        if attempts:
            retries[index] = attempts, until_ms
        elif retries.pop(index, None) is None:
            return
        run.variables.note(
            f"{TRIED_PREFIX}{self.name}", {str(element): list(times) for element, times in retries.items()}
        )

    def earlier_attempts(self, run: OpenRun, this: StepRun) -> int:
        if this.index is None:
            return 0
        of_list: ListRun = run.lists[self.name]
        attempts, _ = of_list.retries.get(this.index, (0, 0))
        return attempts

    def _end_if_done(self, run: OpenRun) -> None:
        """Settle the step if its calls have all ended. A list with a checkpoint is also written from time to time."""
        list_run = run.lists[self.name]
        if list_run.failed and self.name in run.stops and isinstance(run.stops[self.name].stop, DeadlineExceeded):
            # The model has to know of the failed calls, because the next run makes them again, too.
            list_run.waiting.clear()
            del run.stops[self.name]
        if list_run.waiting or self.name in run.running or self.name in run.stops:
            # The results of a list grow, so not each of them is written at once.
            if self.checkpoint and list_run.unwritten >= self.parallel:
                run.write_checkpoint(self)
        elif list_run.stop is not None and not list_run.failed:
            run.stop_at(StepRun(self, stop=list_run.stop))
        else:
            this = list_run.this
            this.outcome, this.stop, this.timing = list_run.outcome(), list_run.pause(), run.timing(this)
            this.attempts, this.calls = list_run.attempts, list_run.calls
            self.end(run, this)

    @property
    def own_sources(self) -> Mapping[str, Source]:
        return {"each": self.each}

    @property
    def own_parts(self) -> list[Json]:
        return [{"each": source_json(self.each)}]


class ListRun(Struct):
    """The calls of a list in this run.

    Attributes:
        this: The run of the whole step.
        waiting: The elements whose calls have not started.
        calls: For how many elements the tool was called, with `attempts` in all.
        unwritten: How many results were not written.
        is_lost: Whether its results are together too large to be stored, so that only its end is written.
        stops: Why calls were not made, by element, if the calls of other elements can still be made.
        retries: The calls whose next attempts wait, by element: how often the tool was called, and until when the next
            attempt waits, epoch milliseconds.
    """

    this: StepRun
    step: ListStep
    items: ListElements
    waiting: list[int]
    retries: dict[int, tuple[int, int]] = field(default_factory=dict)
    failed: dict[int, Failed] = field(default_factory=dict)
    calls: int = 0
    attempts: int = 0
    unwritten: int = 0
    is_lost: bool = False
    stops: dict[int, ApprovalRequired | Waiting | ApprovalDenied] = field(default_factory=dict)

    def note(self, this: StepRun) -> None:
        """Note how the call of an element ended."""
        if this.index is not None and this.failed is not None:
            self.failed[this.index] = this.failed
        elif this.index is not None and isinstance(this.outcome, Succeeded):
            self.items.known[this.index] = this.outcome.value
            if not self.is_lost:
                self.items.is_changed = True
                self.unwritten += 1
        if this.outcome is not None and this.attempts:
            self.calls += 1
            self.attempts += this.attempts

    @property
    def stop(self) -> ApprovalRequired | Waiting | ApprovalDenied | None:
        """Why the list has stopped. It can continue as long as a decision or a time is awaited, so it waits for that,
        and for the earliest time. Of equal reasons, that of the first element counts, whichever call ended first."""
        stop = min((stop for _, stop in sorted(self.stops.items())), key=_urgency, default=None)
        if isinstance(stop, Waiting | None) or self.unapproved_count == 1:
            return stop
        return structs.replace(stop, unapproved_count=self.unapproved_count, unapproved=self.unapproved)

    @property
    def unapproved_count(self) -> int:
        return sum(not isinstance(stop, Waiting) for stop in self.stops.values())

    @property
    def unapproved(self) -> tuple[UnapprovedItem, ...]:
        """The calls that were not made because no person has approved them."""
        by_id: dict[str, UnapprovedItem] = {}
        for index, stop in sorted(self.stops.items()):
            if not isinstance(stop, Waiting) and not stop.of_other and stop.approval_id not in by_id:
                by_id[stop.approval_id] = UnapprovedItem(
                    index, stop.approval_id, stop.audience, stop.message, stop.expires_at, stop.reason
                )
        return tuple(by_id.values())

    @property
    def waits_ms(self) -> list[int]:
        """Until when attempts wait that this run has not made. Another attempt may be due, but not approved."""
        return [stop.until_ms for stop in self.stops.values() if isinstance(stop, Waiting)]

    def retry_ms(self, index: int) -> int:
        """Until when the next attempt of an element's call waits, epoch milliseconds; 0 if it does not."""
        return self.retries.get(index, (0, 0))[1]

    def outcome(self) -> Outcome:
        if not self.failed:
            try:
                return Succeeded(self.items.in_order)
            except StoreError as error:  # continuations have supplied some of the results
                return Failed(f"each: stored results cannot be read: {error}")
        return Failed(self._error())

    def _error(self) -> str:
        errors = {index: failure.error for index, failure in self.failed.items()}
        return failed_items(errors, len(errors), self.items, self.unapproved_count)

    def pause(self) -> StepFailed | None:
        """The pause after all calls have ended; `None` if all of them have succeeded."""
        if not self.failed:
            return None
        step, failures = self.step, self.failed.values()
        error_ids = [failure.error_id for failure in failures]
        total_failure = Failed(
            self._error(),
            asks_client=any(failure.asks_client for failure in failures),
            cause=next((failure.cause for failure in failures if failure.is_final), None),
            error_id=error_ids[0] if all(error_ids) else None,
            kind=Failure.TIMED_OUT
            if any(failure.kind is Failure.TIMED_OUT for failure in failures)
            else Failure.RAISED,
        )
        pause = pause_after(total_failure, step, step.name, step.tool)
        failed_calls = tuple(
            FailedItem(index, failure.error, failure.refused, failure.asks_client)
            for index, failure in sorted(self.failed.items())
        )
        return structs.replace(
            pause,
            failed_items=failed_calls,
            failed_count=len(failed_calls),
            unapproved_count=self.unapproved_count,
            unapproved=self.unapproved,
        )


def _urgency(stop: ApprovalRequired | Waiting | ApprovalDenied) -> tuple[int, int]:
    order = (ApprovalRequired, Waiting, ApprovalDenied)
    return order.index(type(stop)), stop.until_ms if isinstance(stop, Waiting) else stop.of_other

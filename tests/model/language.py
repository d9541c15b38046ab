"""The workflow language as one plain interpreter, as a person would write it from docs/workflows.md, docs/approvals.md
and docs/waiting.md. It imports nothing from the package.

A `Task` is a workflow's task. Each method is one event, and says what happened: a run, a call of a client, an answer, a
decision, a callback. Between events, nothing happens, and `due` says when the next wait ends.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tests.model.plan import (
    PIN,
    Condition,
    Line,
    Plan,
    Source,
    Value,
    World,
    equal,
    is_number,
    is_same,
    key_of,
    needs_approval,
    outputs_of,
    value_of,
)

SETTLED = ("completed", "skipped")
LONGEST_WAIT_S = 100.0
"""A longer wait of a `Retry` does not fit into an invocation."""

WAITING_APPROVALS = 20
"""How many approvals of a task may wait at the same time."""


@dataclass(frozen=True)
class Stop:
    """Why a step stopped.

    Attributes:
        questions: Of `answersRequired`: the questions that have no answer.
        failed: Of a list: the elements whose calls failed.
        suspends: Whether the step continues without its client.
    """

    step: str
    type: str
    questions: tuple[str, ...] = ()
    failed: tuple[int, ...] = ()
    is_final: bool = False

    @property
    def suspends(self) -> bool:
        return self.type in ("approvalRequired", "waiting")


class Stopped(Exception):
    """The step cannot run now. Raised with the type of the pause reason."""


class Failed(Exception):
    """The step's call failed."""


class Missing(Exception):
    """A source has no value. Raised with the type of the pause reason."""


class NotGiven(Exception):
    """An optional argument of the workflow was left out."""


@dataclass
class Request:
    """An approval of one call of one step, or of an element of its list.

    Attributes:
        state: `waiting`, `approved`, `denied` or `withdrawn`.
        until: When it expires.
        uses: How often the call was made with it.
        may_be_used: How often the call may be made with it.
        definition: The step. An approval does not cover a changed one.
    """

    place: str
    tool: str
    arguments: dict[str, Value]
    until: float
    may_be_used: int
    definition: str
    state: str = "waiting"
    uses: int = 0


@dataclass
class Task:
    """A workflow's task, and what its events did."""

    plan: Plan
    world: World
    in_background: bool = False
    status: str = "working"
    statuses: dict[str, str] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)
    lists: dict[str, tuple[list[Value], dict[int, Value]]] = field(default_factory=dict)
    stops: list[Stop] = field(default_factory=list)
    calls: list[tuple[str, dict[str, Value]]] = field(default_factory=list)
    made: dict[str, dict[str, Value]] = field(default_factory=dict)
    early: dict[str, Value] = field(default_factory=dict)
    variables: dict[str, Value] = field(default_factory=dict)
    ends: dict[str, float] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    failures: dict[str, int] = field(default_factory=dict)
    reads: dict[str, int] = field(default_factory=dict)
    extras: dict[str, Value] = field(default_factory=dict)
    last_plan: Plan | None = None

    def __post_init__(self) -> None:
        self.statuses = self.statuses or {line.name: "pending" for line in self.plan.lines}

    # A run

    def run(self, now: float, meanwhile: Line | None = None) -> None:
        """Run each step that can run. Without `parallel`, stop at the first one that cannot. `meanwhile` is a step that
        a call of the client completes during the run. The run does not notice it before its end."""
        if self.status != "working":
            return
        self.forget_waits()
        stops: dict[str, Stop] = {}
        for name in [line.name for line in self.plan.lines if line.name in self.early]:
            if self.may_settle(self.plan.line(name)):
                self.statuses[name], self.values[name] = "completed", self.early.pop(name)
        while (line := self.next_line(stops)) is not None:
            try:
                self.run_line(line, now)
            except Stopped as stop:
                stops[line.name] = Stop(line.name, *stop.args)
        if meanwhile is not None:
            self.client_calls(meanwhile.tool, self.arguments_of(meanwhile, None), now)
        self.stops = self.with_questions([stops[line.name] for line in self.plan.lines if line.name in stops])
        if all(map(self.is_settled, self.statuses)):
            self.status = "completed"
        # The run after a form would make a failed call again, which the client's model has to decide.
        is_failed = any(stop.type == "toolError" and self.plan.line(stop.step).kind == "tool" for stop in self.stops)
        if self.world.form and not is_failed and any(stop.questions for stop in self.stops):
            self.fill_form(now)

    def forget_waits(self) -> None:
        """A changed call waits for nothing that the earlier one waited for, and its attempts are counted from 1."""
        lines = {line.name: line for line in self.plan.lines}
        for line in self.last_plan.lines if self.last_plan else ():
            if line.kind == "tool" and not is_same(line, lines.get(line.name)):
                self.ends.pop(line.name, None)
                self.attempts.pop(line.name, None)
        self.last_plan = self.plan

    def fill_form(self, now: float) -> None:
        """The user answers the open questions of a form, and the run goes on."""
        questions = next(stop.questions for stop in self.stops if stop.questions)
        names = [name for name in questions if self.plan.line(name).kind == "user"]
        for name in names:
            self.answer(name, self.world.answers[name])
        if names:
            self.run(now)

    def move(self, plan: Plan) -> bool:
        """A run with another definition: the task moves to it, unless it differs in settled steps. Returns whether."""
        lines = {line.name: line for line in plan.lines}
        if any(self.is_settled(line.name) and not is_same(line, lines.get(line.name)) for line in self.plan.lines):
            return False
        self.plan = plan
        self.statuses = {line.name: self.statuses.get(line.name, "pending") for line in plan.lines}
        return True

    def next_line(self, stops: dict[str, Stop]) -> Line | None:
        open_lines = [line for line in self.plan.lines if not self.is_settled(line.name) and line.name not in stops]
        return next((line for line in open_lines if all(map(self.is_settled, self.needs(line)))), None)

    def is_settled(self, step: str) -> bool:
        return self.statuses[step] in SETTLED

    def needs(self, line: Line) -> set[str]:
        """The steps that must be settled before a step starts (docs, Parallel steps)."""
        earlier = self.plan.lines[: self.plan.lines.index(line)]
        if self.plan.parallel == 1:
            return {other.name for other in earlier}
        needs = {name for source in line.sources for name in outputs_of(source)} | set(line.after)
        for source in line.sources:
            variable = source[1] if source[0] == "default" else source
            if variable[0] == "variable":
                needs |= {other.name for other in earlier if self.sets(other, variable[1])}
        return needs

    def sets(self, line: Line, variable: str) -> bool:
        return line.kind == "tool" and self.plan.tools[line.tool].sets == variable

    def run_line(self, line: Line, now: float) -> None:
        """Run one step. Its condition comes first: an answer or a callback for a skipped step is ignored."""
        try:
            if line.when is not None and not self.holds(line.when):
                self.statuses[line.name] = "skipped"
                if line.name in self.early and line.kind == "tool":
                    self.extras[line.tool] = self.early[line.name]
                self.early.pop(line.name, None)
                return
            value = self.early.pop(line.name) if line.name in self.early else self.value_for(line, now)
        except Missing as missing:
            raise Stopped(missing.args[0]) from None
        except Failed as failed:
            self.statuses[line.name] = "failed"
            raise Stopped("toolError", (), *failed.args) from None
        if self.statuses[line.name] != "skipped":
            self.statuses[line.name], self.values[line.name] = "completed", value

    def decided(self, line: Line) -> bool | None:
        """Whether the condition of a step holds; `None` if that is not known yet."""
        try:
            return line.when is None or self.holds(line.when)
        except Missing:
            return None

    def value_for(self, line: Line, now: float) -> Value:
        match line.kind:
            case "model" | "user":
                self.question_values(line)
                raise Stopped("answersRequired")
            case "fetch":
                self.question_values(line)
                self.reads[line.name] = self.reads.get(line.name, 0) + 1
                if self.reads[line.name] <= self.world.unreadable.get(line.name, 0):
                    raise Failed
                return None
            case "callback" | "sleep":
                return self.wait(line, now)
        if line.each is not None:
            return self.run_list(line, now)
        return self.call_step(line, None, self.arguments_of(line, None), now)

    def question_values(self, line: Line) -> None:
        """Check that the values are known. A question shows that an argument was left out; a URI needs it."""
        for source in line.arguments.values():
            try:
                self.resolve(source)
            except NotGiven:
                if line.kind == "fetch":
                    raise Missing("unresolvableParams") from None

    def question_text(self, line: Line) -> str:
        """A question with its values. Texts are shown as they are, other values as JSON."""
        text = f"Number for {line.name}"
        for source in line.arguments.values():
            try:
                value = self.resolve(source)
                shown = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
            except NotGiven:
                shown = "(not given)"
            text += f" with {shown}"
        return f"{text}?"

    def with_questions(self, stops: list[Stop]) -> list[Stop]:
        """The first pause `answersRequired` lists every open question whose values are known, if it is asked for
        certain. The others list their own."""
        all_questions = self.questions
        first = next((stop.step for stop in stops if stop.type == "answersRequired"), None)
        return [
            Stop(stop.step, stop.type, all_questions if stop.step == first else (stop.step,))
            if stop.type == "answersRequired"
            else stop
            for stop in stops
        ]

    @property
    def ahead(self) -> "Task":
        """The task with the steps as skipped that the next run skips, because their conditions are false."""
        task = replace(self, statuses=dict(self.statuses))
        for line in self.plan.lines:
            if not task.is_settled(line.name) and task.decided(line) is False:
                task.statuses[line.name] = "skipped"
        return task

    @property
    def questions(self) -> tuple[str, ...]:
        """All open questions whose values are known."""
        return tuple(line.name for line in self.plan.lines if self.ahead.is_asked(line))

    def is_asked(self, line: Line) -> bool:
        if line.kind not in ("model", "user") or self.is_settled(line.name) or line.name in self.early:
            return False
        try:
            self.question_values(line)
        except Missing:
            return False
        return self.decided(line) is True

    # Waits

    def wait(self, line: Line, now: float) -> Value:
        """A wait ends once: with its callback or at its time, which counts from the first run that reaches the step."""
        if now < self.ends.setdefault(line.name, now + line.within_s):
            raise Stopped("waiting")
        if line.kind == "callback" and not line.skips:
            self.statuses[line.name] = "failed"
            raise Stopped("toolError", (), (), True)
        if line.kind == "callback":
            self.statuses[line.name] = "skipped"
        return None

    # Calls

    def call_step(self, line: Line, index: int | None, arguments: dict[str, Value], now: float) -> Value:
        """Call a step's tool, again after a `ToolError` if it has a `Retry` (docs, Trying again)."""
        place = line.name if index is None else f"{line.name}[{index}]"
        if now < self.ends.get(place, now):
            raise Stopped("waiting")
        number = 1 + self.attempts.get(place, 0)
        while True:
            try:
                value = self.call_once(line, place, line.tool, arguments, now)
            except Failed:
                wait_s = line.retry.wait_s if line.retry else 0
                is_last = line.retry is None or number >= line.retry.attempts or self.plan.tools[line.tool].masked
                if is_last or (wait_s > LONGEST_WAIT_S and not self.in_background):
                    self.attempts.pop(place, None)
                    raise
                if wait_s > LONGEST_WAIT_S:
                    self.ends[place], self.attempts[place] = now + wait_s, number
                    raise Stopped("waiting") from None
                number += 1
            else:
                self.made[place] = arguments
                return value

    def call(self, tool: str, arguments: dict[str, Value]) -> Value:
        self.calls.append((tool, arguments))
        key = key_of([tool, arguments])
        self.failures[key] = self.failures.get(key, 0) + 1
        if self.failures[key] <= self.plan.tools[tool].fails:
            raise Failed
        value = value_of(tool, arguments)
        variable = self.plan.tools[tool].sets
        if variable is not None:
            self.variables[variable] = value["n"]
        return value

    def run_list(self, line: Line, now: float) -> list[Value]:
        """Call the tool for each element without a result. If some calls fail or stop, the others are still made."""
        elements, results = self.begun_list(line)
        failed: list[int] = []
        stops: list[Stopped] = []
        for index, element in enumerate(elements):
            try:
                if index not in results:
                    results[index] = self.call_step(line, index, self.arguments_of(line, element), now)
            except (Failed, Missing):
                failed.append(index)
            except Stopped as stopped:
                stops.append(stopped)
        if failed:
            raise Failed(tuple(failed))
        if stops:
            # The list can continue as long as a decision or a time is awaited.
            awaited = [stop for kind in ("approvalRequired", "waiting") for stop in stops if stop.args[0] == kind]
            raise next(iter(awaited), stops[0])
        del self.lists[line.name]
        return [results[index] for index in range(len(elements))]

    def begun_list(self, line: Line) -> tuple[list[Value], dict[int, Value]]:
        """The elements of the first run and their results. The arguments matter only if there is a call."""
        begun = self.lists.get(line.name) or (self.resolved_list(line), {})
        if begun[0] != []:
            self.check_shared_arguments(line)
        if isinstance(begun[0], Missing):
            raise begun[0]
        if not isinstance(begun[0], list):
            raise Failed(())
        self.lists[line.name] = begun
        return begun

    def check_shared_arguments(self, line: Line) -> None:
        """The arguments that are the same in all calls of a list have values, so that no call is refused."""
        lacks_x = "x" not in line.arguments
        for name, source in line.arguments.items():
            try:
                if source[0] != "item":
                    self.resolve(source)
            except NotGiven:
                lacks_x = lacks_x or name == "x"
        if lacks_x:
            raise Missing("schemaMismatch")

    def resolved_list(self, line: Line) -> Value:
        try:
            return self.resolve_given(line.each)
        except Missing as missing:
            return missing

    def resolve_given(self, source: Source) -> Value:
        try:
            return self.resolve(source)
        except NotGiven:
            return None

    def arguments_of(self, line: Line, element: Value) -> dict[str, Value]:
        """A call's arguments. One that the client left out is left out here, too; the tool's default replaces it."""
        arguments: dict[str, Value] = {}
        for name, source in line.arguments.items():
            try:
                arguments[name] = self.resolve(source, element)
            except NotGiven:
                continue
        if "x" not in arguments:
            raise Missing("schemaMismatch")
        return {"y": 0, **arguments}

    # Approvals

    def call_once(self, line: Line | None, place: str, tool: str, arguments: dict[str, Value], now: float) -> Value:
        """Make a call, unless it needs an approval and has none. An approval is used once. After a clean failure it can
        be used again: with a `Retry` for its attempts, with `retryable` alone once."""
        request = self.request_of(line, place, tool, arguments, now)
        is_clean = False
        try:
            return self.call(tool, arguments)
        except Failed:
            is_repeated = line is not None and line.retry is not None and not self.plan.tools[tool].masked
            is_clean = line is not None and (line.retryable or is_repeated)
            raise
        finally:
            if request is not None:
                request.uses += 1
                request.may_be_used = request.may_be_used if is_clean else request.uses

    def request_of(
        self, line: Line | None, place: str, tool: str, arguments: dict[str, Value], now: float
    ) -> Request | None:
        """The approval of a call; `None` if it needs none. A call without one stops, and requests it."""
        approval = self.plan.tools[tool].approval or (line.approval if line else None)
        if approval is None or not needs_approval(approval, arguments):
            return None
        uses = 1 if line is None else line.retry.attempts if line.retry else 1 + line.retryable
        definition = "" if line is None else repr((line.arguments, line.when, line.each))
        wanted = Request(place, tool, arguments, now + approval.expires_s, uses, definition)
        request = self.request_like(wanted, now)
        if request is None:
            if len(self.waiting_requests(now)) < WAITING_APPROVALS:
                self.requests.append(wanted)
            raise Stopped("approvalRequired")
        if request.state == "denied":
            raise Stopped("approvalDenied", (), (), True)
        if request.state != "approved":
            raise Stopped("approvalRequired")
        return request

    def request_like(self, wanted: Request, now: float) -> Request | None:
        """The request for a call that still counts. A denial stays; an expired or used one does not count."""
        for request in reversed(self.requests):
            call = request.place, request.arguments, request.definition
            if call == (wanted.place, wanted.arguments, wanted.definition):
                if request.state == "denied":
                    return request
                is_over = now >= request.until or request.uses >= request.may_be_used
                return None if is_over else request
        return None

    def waiting_requests(self, now: float) -> list[Request]:
        return [request for request in self.requests if request.state == "waiting" and now < request.until]

    # Values

    def resolve(self, source: Source, element: Value = None) -> Value:
        match source:
            case ("constant", value):
                return self.filled(value)
            case ("argument", name) if name in self.world.arguments:
                return self.world.arguments[name]
            case ("argument", _):
                raise NotGiven
            case ("secret",):
                return PIN
            case ("default", inner, value):
                return self.resolved_or(inner, value, element)
            case ("item", path):
                return followed(element, path)
            case ("variable", name) if name in self.variables:
                return self.variables[name]
            case ("output", step, path):
                return followed(self.output(step), path)
        raise Missing("unresolvableParams")

    def resolved_or(self, source: Source, value: Value, element: Value) -> Value:
        """The value of a source, or another one in place of a missing one. An open step may still give a value."""
        if not all(map(self.is_settled, outputs_of(source))):
            raise Missing("unresolvedDependency")
        try:
            return self.resolve(source, element)
        except (Missing, NotGiven):
            return value

    def output(self, step: str) -> Value:
        """A step's result. One that came early does not count yet."""
        if self.statuses[step] == "completed":
            return self.values[step]
        raise Missing("unresolvedDependency")

    def filled(self, value: Value) -> Value:
        """A fixed text, with each argument of the workflow in place of its `{name}`."""
        if not isinstance(value, str):
            return value
        for name, argument in self.world.arguments.items():
            value = value.replace("{" + name + "}", str(argument))
        return value

    def holds(self, condition: Condition) -> bool:
        match condition:
            case ("not", inner):
                return not self.holds(inner)
            case ("and", left, right):
                return self.holds(left) and self.holds(right)
            case ("or", left, right):
                return self.holds(left) or self.holds(right)
            case ("exists", source):
                return self.exists(source)
            case ("in", source, values):
                return any(equal(self.resolve_given(source), value) for value in self.resolve_given(values))
        operator, *sources = condition
        left, right = map(self.resolve_given, sources)
        if operator in ("==", "!="):
            return equal(left, right) is (operator == "==")
        if not (is_number(left) and is_number(right)) and not (isinstance(left, str) and isinstance(right, str)):
            raise Missing("unresolvableParams")
        return bool({"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[operator])

    def exists(self, source: Source) -> bool:
        """Whether a source has a value. A step that is still open may give it one."""
        missing = object()
        return self.resolved_or(source, missing, None) is not missing

    # Calls of clients

    def client_calls(self, tool: str, arguments: dict[str, Value], now: float, name: str = "") -> str:
        """A continuation: the tool runs, and the result is recorded in the step that the call names, or that it means.
        Returns that step, or an empty text for an extra call. Raises `Stopped` if the tool must not run, and `Failed`
        if it fails.

        Args:
            name: What follows the task's id: a step `s0`, or an element of its list `s0/3`.
        """
        arguments = {"y": 0, **arguments}
        named = self.named(tool, name)
        line, index, is_certain = (*named, True) if named else self.match(tool, arguments)
        if self.plan.tools[tool].only_in and (line is None or not self.is_turn(line)):
            raise Stopped("refused")
        guard, place = line, "" if line is None else line.name if index is None else f"{line.name}[{index}]"
        if not is_certain and (line is None or line.approval is None):
            guarded = [other for other in self.plan.lines if other.tool == tool and other.approval]
            guard, place = (line, place) if not guarded else (guarded[0], "")
        try:
            value = self.call_once(guard, place, tool, arguments, now)
        except Failed:
            if line is None or self.is_skipped(line) or self.has_result(line, index):
                self.extras[tool] = None
                raise
            self.record_failure(line, index)
            raise
        if line is None or self.is_skipped(line):
            self.extras[tool] = value
            return ""
        self.record_value(line, index, value)
        self.made[place] = arguments
        return line.name

    def named(self, tool: str, name: str) -> tuple[Line, int | None] | None:
        """The step that a call names, or the element of its list. Any other name is ignored."""
        step, slash, index = name.partition("/")
        line = next((line for line in self.plan.lines if line.name == step and line.tool == tool), None)
        if line is None or bool(slash) is (line.each is None):
            return None
        return (line, int(index) if slash else None) if not slash or int(index) < self.count_elements(line) else None

    def count_elements(self, line: Line) -> int:
        try:
            elements = self.lists[line.name][0] if line.name in self.lists else self.resolve_given(line.each)
        except Missing:
            elements = None
        if self.has_result(line, None):
            elements = self.early.get(line.name, self.values.get(line.name))
        return len(elements) if isinstance(elements, list) else 0

    def is_turn(self, line: Line) -> bool:
        is_open = not self.is_settled(line.name)
        return is_open and all(map(self.is_settled, self.needs(line))) and self.decided(line) is True

    def is_skipped(self, line: Line) -> bool:
        """Whether a step is skipped, or will be."""
        return not self.has_result(line, None) and (self.is_settled(line.name) or self.decided(line) is False)

    def has_result(self, line: Line, index: int | None) -> bool:
        """Whether a step has a result, or an element of its list."""
        is_done = self.statuses[line.name] == "completed" or line.name in self.early
        return is_done or (index is not None and index in self.lists.get(line.name, ([], {}))[1])

    def record_value(self, line: Line, index: int | None, value: Value) -> None:
        if index is not None and self.has_result(line, None):
            values = self.early if line.name in self.early else self.values
            values[line.name] = [*values[line.name][:index], value, *values[line.name][index + 1 :]]
            return
        if index is not None:
            if line.name not in self.lists:
                self.lists[line.name] = (self.resolve_given(line.each), {})
            elements, results = self.lists[line.name]
            results[index] = value
            if len(results) < len(elements):
                failed = tuple(other for other in self.failed_elements(line) if other != index)
                if self.failed_elements(line):
                    self.replace_stop(line, Stop(line.name, "toolError", (), failed) if failed else None)
                return
            del self.lists[line.name]
            value = [results[position] for position in range(len(elements))]
        self.early.pop(line.name, None)
        if self.decided(line) is None and not all(map(self.is_settled, self.needs(line))):
            # Steps that are still open decide whether it counts.
            self.statuses[line.name], self.early[line.name] = "pending", value
        else:
            self.statuses[line.name], self.values[line.name] = "completed", value
        self.replace_stop(line, None)

    def record_failure(self, line: Line, index: int | None) -> None:
        failed: set[int] = set()
        if self.plan.parallel == 1:
            self.stops = [stop for stop in self.stops if stop.step == line.name]
        if index is None:
            self.statuses[line.name] = "failed"
        else:
            failed = {*self.failed_elements(line), index}
        self.replace_stop(line, Stop(line.name, "toolError", (), tuple(sorted(failed))))

    def failed_elements(self, line: Line) -> tuple[int, ...]:
        return next((stop.failed for stop in self.stops if stop.step == line.name), ())

    def replace_stop(self, line: Line, stop: Stop | None) -> None:
        others = [other for other in self.stops if other.step != line.name]
        names = [other.name for other in self.plan.lines]
        self.stops = sorted([*others, *([stop] if stop else [])], key=lambda stop: names.index(stop.step))

    def match(self, tool: str, arguments: dict[str, Value]) -> tuple[Line | None, int | None, bool]:
        """The step, and the element of its list, that a call with a bare id means; and whether its arguments say so
        (docs, Which step a continuation means)."""
        lines = [line for line in self.plan.lines if line.tool == tool and not self.is_skipped(line)]
        for line in lines:
            for index, element in self.open_calls(line):
                known = self.known_arguments(line, element)
                if known and self.is_equal(known, arguments):
                    return line, index, True
        plain = [line for line in lines if line.each is None]
        done = [line for line in reversed(plain) if self.has_result(line, None)]
        for line in done:
            if self.is_call_of(line, arguments):
                return line, None, True
        open_lines = [line for line in plain if line not in done]
        return next(iter([*open_lines, *done]), None), None, False

    def open_calls(self, line: Line) -> Iterator[tuple[int | None, Value]]:
        """The call of an open step, or those of the open elements of its list."""
        if line.each is not None:
            yield from self.open_elements(line)
        elif not self.has_result(line, None):
            yield None, None

    def is_call_of(self, line: Line, arguments: dict[str, Value]) -> bool:
        """Whether a completed step was called with equal arguments. Its secret ones do not count. A call that was
        hidden for another step's secret equals none."""
        secrets = {name for name, source in line.arguments.items() if source == ("secret",)}
        made = self.made.get(line.name, {})
        known = self.known_arguments(line, None)
        if any(name in made and known.get(name) != made[name] for name in self.secret_in_others(line) - secrets):
            return False
        return {name: value for name, value in made.items() if name not in secrets} == {
            name: value for name, value in arguments.items() if name not in secrets
        }

    def secret_in_others(self, line: Line) -> set[str]:
        others = [other for other in self.plan.lines if other.tool == line.tool and other is not line]
        return {name for other in others for name, source in other.arguments.items() if source == ("secret",)}

    def is_equal(self, known: dict[str, Value], arguments: dict[str, Value]) -> bool:
        return all(name in arguments and arguments[name] == value for name, value in known.items())

    def known_arguments(self, line: Line, element: Value) -> dict[str, Value]:
        """The arguments of a call that can be resolved now, without secret ones."""
        known: dict[str, Value] = {}
        for name, source in line.arguments.items():
            if source == ("secret",):
                continue
            try:
                known[name] = self.resolve(source, element)
            except (Missing, NotGiven):
                continue
        return known

    def open_elements(self, line: Line) -> Iterator[tuple[int, Value]]:
        if line.each is None or self.has_result(line, None):
            return
        try:
            elements, results = self.lists.get(line.name) or (self.resolve_given(line.each), {})
        except Missing:
            return
        if isinstance(elements, list):
            yield from ((index, element) for index, element in enumerate(elements) if index not in results)

    # People, other systems and the clock

    def answer(self, step: str, value: Value) -> None:
        """An answer counts in the run that its call starts. One for a skipped question is ignored."""
        if not self.is_settled(step):
            self.early[step] = value

    def may_settle(self, line: Line) -> bool:
        """Whether an answer or a callback settles its step, although the run may not have reached it."""
        is_due = self.plan.parallel == 1 or all(map(self.is_settled, self.needs(line)))
        return is_due and self.decided(line) is True

    def decide(self, request: Request, decision: str) -> None:
        request.state = decision

    def call_back(self, step: str, body: Value) -> None:
        """A callback may come before the run reaches its step; then the step does not wait."""
        line = self.plan.line(step)
        if step in self.ends or (line.when is None and (self.plan.parallel == 1 or not self.needs(line))):
            self.statuses[step], self.values[step] = "completed", body
        elif not self.is_settled(step):
            self.early[step] = body

    def cancel(self) -> None:
        """The client ends the task. Its approvals are withdrawn."""
        self.status = "cancelled"
        for request in self.requests:
            if request.state == "waiting":
                request.state = "withdrawn"

    def due(self, now: float) -> float | None:
        """When the first wait of a stopped step ends: a sleep, the limit of a callback, the next attempt of a call, or
        an approval that expires."""
        waiting = {stop.step for stop in self.stops}
        ends = [end for place, end in self.ends.items() if place.partition("[")[0] in waiting]
        ends += [request.until for request in self.waiting_requests(now)]
        return min((end for end in ends if end > now), default=None)

    @property
    def suspends(self) -> bool:
        """Whether a task in the background continues by itself: all that it needs is a person, a callback or a time."""
        return self.status == "working" and bool(self.stops) and all(stop.suspends for stop in self.stops)

    @property
    def is_stuck(self) -> bool:
        """Whether nothing can complete the workflow: a person has denied a call, a callback has not come, or a value is
        missing that a question, a resource, or the condition of a call that clients cannot make needs."""
        return any(stop.is_final or self.lacks_value(stop) for stop in self.stops)

    def lacks_value(self, stop: Stop) -> bool:
        if stop.type not in ("unresolvableParams", "unresolvedDependency"):
            return False
        line = self.plan.line(stop.step)
        if line.kind != "tool":
            return True
        is_callable = line.each is None and not self.plan.tools[line.tool].only_in
        return not is_callable and self.decided(line) is None


def followed(value: Value, path: str | None) -> Value:
    for key in path.split(".") if path else ():
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isdigit() and int(key) < len(value):
            value = value[int(key)]
        else:
            raise Missing("unresolvableParams")
    return value

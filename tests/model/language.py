"""The workflow language as one plain interpreter, as a person would write it from docs/workflows.md, docs/approvals.md
and docs/waiting.md. It imports nothing from the package.

A `Task` is a workflow's task. Each method is one event, and says what happened: a run, a call of a client, an answer, a
decision, a callback. Between events, nothing happens, and `due` says when the next wait ends.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.model.plan import (
    Approval,
    Condition,
    Line,
    Plan,
    Source,
    Value,
    World,
    key_of,
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
        type: The type of the pause reason.
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
    """

    place: str
    tool: str
    arguments: dict[str, Value]
    until: float
    may_be_used: int
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
    answers: dict[str, Value] = field(default_factory=dict)
    callbacks: dict[str, Value] = field(default_factory=dict)
    variables: dict[str, Value] = field(default_factory=dict)
    ends: dict[str, float] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    failures: dict[str, int] = field(default_factory=dict)
    reads: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.statuses = self.statuses or {line.name: "pending" for line in self.plan.lines}

    # A run

    def run(self, now: float) -> None:
        """Run each step that can run. Without `parallel`, stop at the first one that cannot."""
        if self.status != "working":
            return
        stops: dict[str, Stop] = {}
        while (line := self.next_line(stops)) is not None:
            try:
                self.run_line(line, now)
            except Stopped as stop:
                stops[line.name] = Stop(line.name, *stop.args)
        self.stops = [self.with_questions(stops[line.name]) for line in self.plan.lines if line.name in stops]
        if all(status in SETTLED for status in self.statuses.values()):
            self.status = "completed"

    def next_line(self, stops: dict[str, Stop]) -> Line | None:
        for line in self.plan.lines:
            if self.is_settled(line.name) or line.name in stops:
                if self.plan.parallel == 1 and line.name in stops:
                    return None
                continue
            if all(map(self.is_settled, self.needs(line))):
                return line
            if self.plan.parallel == 1:
                return None
        return None

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
        if not self.holds_for(line):
            self.statuses[line.name] = "skipped"
            self.values.pop(line.name, None)
            return
        try:
            value = self.value_for(line, now)
        except Missing as missing:
            raise Stopped(missing.args[0]) from None
        except Failed as failed:
            self.statuses[line.name] = "failed"
            raise Stopped("toolError", (), *failed.args) from None
        if self.statuses[line.name] != "skipped":
            self.statuses[line.name], self.values[line.name] = "completed", value

    def holds_for(self, line: Line) -> bool:
        try:
            return line.when is None or self.holds(line.when)
        except Missing as missing:
            raise Stopped(missing.args[0]) from None

    def value_for(self, line: Line, now: float) -> Value:
        match line.kind:
            case "model" | "user":
                self.question_values(line)
                if line.name not in self.answers:
                    raise Stopped("answersRequired")
                return self.answers[line.name]
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

    def with_questions(self, stop: Stop) -> Stop:
        """The pause `answersRequired` lists every open question whose values are known, if it is asked for certain."""
        if stop.type != "answersRequired":
            return stop
        questions = tuple(line.name for line in self.plan.lines if self.is_asked(line))
        return Stop(stop.step, stop.type, questions)

    def is_asked(self, line: Line) -> bool:
        if line.kind not in ("model", "user") or self.is_settled(line.name) or line.name in self.answers:
            return False
        try:
            self.question_values(line)
            return line.when is None or self.holds(line.when)
        except Missing:
            return False

    # Waits

    def wait(self, line: Line, now: float) -> Value:
        """A wait ends once: with its callback or at its time, which counts from the first run that reaches the step."""
        if line.kind == "callback" and line.name in self.callbacks:
            return self.callbacks[line.name]
        if now < self.ends.setdefault(line.name, now + line.within_s):
            raise Stopped("waiting")
        if line.kind == "callback" and not line.skips:
            raise Stopped("toolError", (), (), True) if self.fail(line) else AssertionError
        if line.kind == "callback":
            self.statuses[line.name] = "skipped"
        return None

    def fail(self, line: Line) -> bool:
        self.statuses[line.name] = "failed"
        return True

    # Calls

    def call_step(self, line: Line, index: int | None, arguments: dict[str, Value], now: float) -> Value:
        """Call a step's tool, again after a `ToolError` if it has a `Retry` (docs, Trying again)."""
        place = line.name if index is None else f"{line.name}[{index}]"
        if now < self.ends.get(place, now):
            raise Stopped("waiting")
        number = 1 + self.attempts.pop(place, 0)
        while True:
            self.permit(line, place, line.tool, arguments, now)
            try:
                value = self.call(line.tool, arguments)
            except Failed:
                wait_s = line.retry.wait_s if line.retry else 0
                if line.retry is None or number >= line.retry.attempts or self.plan.tools[line.tool].masked:
                    raise
                if wait_s > LONGEST_WAIT_S and not self.in_background:
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
            raise stops[0]
        del self.lists[line.name]
        return [results[index] for index in range(len(elements))]

    def begun_list(self, line: Line) -> tuple[list[Value], dict[int, Value]]:
        """The elements of the first run and their results. The arguments matter only if there is a call."""
        begun = self.lists.get(line.name) or (self.resolved_list(line), {})
        for source in line.arguments.values():
            if source[0] != "item" and begun[0] != []:
                self.resolve_given(source)
        if isinstance(begun[0], Missing):
            raise begun[0]
        if not isinstance(begun[0], list):
            raise Failed(())
        self.lists[line.name] = begun
        return begun

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

    def permit(
        self,
        line: Line | None,
        place: str,
        tool: str,
        arguments: dict[str, Value],
        now: float,
        *,
        is_client: bool = False,
    ) -> None:
        """Stop, unless the call needs no approval or has one. A call uses its approval up. With a `Retry` it covers all
        attempts, and with `retryable` a second call, as long as the calls fail cleanly."""
        approval = self.plan.tools[tool].approval or (line.approval if line else None)
        if approval is None or not needs_approval(approval, arguments):
            return
        request = self.request_for(place, tool, arguments, now)
        if request is not None and request.uses and is_client:
            request.may_be_used, request = request.uses, None
        if request is None:
            if len(self.waiting_requests(now)) < WAITING_APPROVALS:
                uses = 1 if line is None else line.retry.attempts if line.retry else 2 if line.retryable else 1
                self.requests.append(Request(place, tool, arguments, now + approval.expires_s, uses))
            raise Stopped("approvalRequired")
        if request.state == "denied":
            raise Stopped("approvalDenied", (), (), True)
        if request.state != "approved":
            raise Stopped("approvalRequired")
        request.uses += 1

    def request_for(self, place: str, tool: str, arguments: dict[str, Value], now: float) -> Request | None:
        """The request for a call that still counts. A denial stays; an expired or used one does not count."""
        for request in reversed(self.requests):
            if (request.place, request.tool, request.arguments) == (place, tool, arguments):
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
            case ("default", inner, value):
                try:
                    return self.resolve(inner, element)
                except (Missing, NotGiven):
                    return value
            case ("item", path):
                return followed(element, path)
            case ("variable", name) if name in self.variables:
                return self.variables[name]
            case ("output", step, path):
                return followed(self.output(step), path)
        raise Missing("unresolvableParams")

    def output(self, step: str) -> Value:
        """A step's result. An answer or a callback that came early is known, unless the step may be skipped."""
        if self.statuses[step] == "completed":
            return self.values[step]
        early = {**self.answers, **self.callbacks}
        if step in early and self.plan.line(step).when is None:
            return early[step]
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
        for step in outputs_of(source):
            if not self.is_settled(step):
                raise Missing("unresolvedDependency")
        try:
            self.resolve(source)
        except (Missing, NotGiven):
            return False
        return True

    # Calls of clients

    def client_calls(self, tool: str, arguments: dict[str, Value], now: float) -> str:
        """A continuation: the tool runs, and the result is recorded in the step that matches best. Returns that step,
        or an empty text for an extra call. Raises `Stopped` if it needs an approval, and `Failed` if it fails."""
        arguments = {"y": 0, **arguments}
        line, index = self.match(tool, arguments)
        place = "" if line is None else line.name if index is None else f"{line.name}[{index}]"
        self.permit(line, place, tool, arguments, now, is_client=True)
        try:
            value = self.call(tool, arguments)
        except Failed:
            if line is None or self.statuses[line.name] == "completed":
                raise
            self.record_failure(line, index)
            raise
        if line is None:
            return ""
        self.record_value(line, index, value)
        self.made[place] = arguments
        return line.name

    def record_value(self, line: Line, index: int | None, value: Value) -> None:
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
        self.statuses[line.name], self.values[line.name] = "completed", value
        self.replace_stop(line, None)

    def record_failure(self, line: Line, index: int | None) -> None:
        failed: set[int] = set()
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

    def match(self, tool: str, arguments: dict[str, Value]) -> tuple[Line | None, int | None]:
        """The step, and the element of its list, that a call means (docs, Which step a continuation means)."""
        lines = [line for line in self.plan.lines if line.tool == tool and self.statuses[line.name] != "skipped"]
        lines = [line for line in lines if not self.is_ruled_out(line)]
        plain = [line for line in lines if line.each is None]
        if len(lines) == 1 and plain:
            return plain[0], None
        equals = list(self.equal_places(lines, arguments))
        if equals:
            return max(equals, key=lambda match: match[0])[1:]
        open_lines = [line for line in plain if not self.is_settled(line.name)]
        done = [line for line in reversed(plain) if self.statuses[line.name] == "completed"]
        repeated = [line for line in done if self.made.get(line.name) == arguments]
        if repeated:
            return repeated[0], None
        possible = list(self.possible_places(lines, arguments))
        if possible:
            return possible[0]
        failed = [line for line in open_lines if self.statuses[line.name] == "failed"]
        return next(iter([*failed, *open_lines, *done]), None), None

    def equal_places(self, lines: list[Line], arguments: dict[str, Value]) -> Iterator[tuple[int, Line, int | None]]:
        """The open steps and elements whose known arguments equal those of a call, with how many are known."""
        for line in lines:
            if line.each is None and not self.is_settled(line.name):
                known = self.known_arguments(line, None)
                if (known or not line.arguments) and self.is_equal(known, arguments):
                    yield len(known), line, None
            for index, element in self.open_elements(line):
                known = self.known_arguments(line, element)
                if known and self.is_equal(known, arguments):
                    yield len(known), line, index

    def possible_places(self, lines: list[Line], arguments: dict[str, Value]) -> Iterator[tuple[Line, int | None]]:
        """The open steps that a call does not contradict, and the elements of which nothing is known, unless the call
        repeats that of another element."""
        for line in lines:
            if line.each is None:
                is_open = not self.is_settled(line.name)
                if is_open and self.is_equal(self.known_arguments(line, None), arguments):
                    yield line, None
                continue
            elements, results = self.lists.get(line.name) or ([], {})
            if not any(self.known_arguments(line, elements[index]) == arguments for index in results):
                yield from (
                    (line, index)
                    for index, element in self.open_elements(line)
                    if not self.known_arguments(line, element)
                )

    def is_ruled_out(self, line: Line) -> bool:
        """Whether the condition of an open step is known to be false."""
        try:
            return not self.is_settled(line.name) and line.when is not None and not self.holds(line.when)
        except Missing:
            return False

    def is_equal(self, known: dict[str, Value], arguments: dict[str, Value]) -> bool:
        return all(name in arguments and arguments[name] == value for name, value in known.items())

    def known_arguments(self, line: Line, element: Value) -> dict[str, Value]:
        known: dict[str, Value] = {}
        for name, source in line.arguments.items():
            try:
                known[name] = self.resolve(source, element)
            except (Missing, NotGiven):
                continue
        if known and "y" not in line.arguments:
            known["y"] = 0
        return known

    def open_elements(self, line: Line) -> Iterator[tuple[int, Value]]:
        if line.each is None or self.is_settled(line.name):
            return
        try:
            elements, results = self.lists.get(line.name) or (self.resolve_given(line.each), {})
        except Missing:
            return
        if isinstance(elements, list):
            yield from ((index, element) for index, element in enumerate(elements) if index not in results)

    # People, other systems and the clock

    def answer(self, step: str, value: Value) -> None:
        """An answer counts when the run reaches its question. One for a skipped question is ignored."""
        if not self.is_settled(step):
            self.answers[step] = value

    def decide(self, request: Request, decision: str) -> None:
        request.state = decision

    def call_back(self, step: str, body: Value) -> None:
        """A callback may come before the run reaches its step; then the step does not wait."""
        if not self.is_settled(step):
            self.callbacks[step] = body

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
        """Whether nothing can complete the workflow: a person has denied a call, a callback has not come, or a question
        or a resource needs a value that does not exist."""
        needs_value = ("unresolvableParams", "unresolvedDependency")
        return any(
            stop.is_final or (stop.type in needs_value and self.plan.line(stop.step).kind != "tool")
            for stop in self.stops
        )


def needs_approval(approval: Approval, arguments: dict[str, Value]) -> bool:
    x = arguments["x"]
    return approval.above is None or not isinstance(x, int | float) or x > approval.above


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def equal(left: Value, right: Value) -> bool:
    """Equal as JSON: `true` is not 1."""
    return key_of(left) == key_of(right)


def followed(value: Value, path: str | None) -> Value:
    for key in path.split(".") if path else ():
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isdigit() and int(key) < len(value):
            value = value[int(key)]
        else:
            raise Missing("unresolvableParams")
    return value

"""Plans and worlds of the model: plain data, without any import from the package.

A source is `("constant", value)`, `("argument", name)`, `("secret",)`, `("output", step, path)`,
`("default", source, value)`, `("item", path)` or `("variable", name)`. A condition is `(operator, source, source)`,
`("exists", source)`, `("not", condition)`, `("and", condition, condition)` or `("or", condition, condition)`. Paths are
dotted, or `None`.
"""

import json
from dataclasses import dataclass, field
from typing import Any, Literal
from zlib import crc32

type Source = Any
type Condition = Any
type Value = Any

MINUTE, HOUR = 60.0, 3600.0
PIN = "pin-48151623"
"""The value of the secret argument `pin`."""


@dataclass
class Approval:
    """Which calls of a tool, or of a step, a person must approve.

    Attributes:
        above: Only calls whose argument `x` is a number above this; `None` for all calls.
        expires_s: How long an approval can be decided and used.
    """

    above: int | None = None
    expires_s: float = 24 * HOUR


@dataclass
class Tool:
    """A tool: `x` is required, `y` is optional with the default 0.

    Attributes:
        fails: How often a call with certain arguments fails before it succeeds.
        callback: The step for which it makes an address.
        sets: The task variable that it sets, to the value's `n`.
        only_in: Whether clients cannot call it.
        slow_s: How long a call takes.
        masked: Whether a failure is an exception whose text is hidden.
    """

    name: str
    approval: Approval | None = None
    fails: int = 0
    callback: str | None = None
    sets: str | None = None
    only_in: bool = False
    slow_s: float = 0.0
    masked: bool = False


@dataclass
class Retry:
    """How often a failed tool is called, and the wait between two calls."""

    attempts: int
    wait_s: float


@dataclass
class Line:
    """A step.

    Attributes:
        kind: `tool`, `fetch`, `model` (a question to the model), `user` (one to the user), `callback` or `sleep`.
        arguments: Sources by the tool's parameter; of a `fetch` or a question, the value of `{v}`.
        within_s: How long a callback is waited for, or a sleep lasts.
        skips: Whether a callback that does not come skips the step.
    """

    name: str
    kind: str = "tool"
    tool: str = ""
    arguments: dict[str, Source] = field(default_factory=dict)
    when: Condition = None
    each: Source = None
    parallel: int = 1
    after: tuple[str, ...] = ()
    retryable: bool = False
    retry: Retry | None = None
    checkpoint: bool = False
    approval: Approval | None = None
    within_s: float = 0.0
    skips: bool = False

    @property
    def sources(self) -> list[Source]:
        """All sources, those of the condition included."""
        return [*self.arguments.values(), *sources_of(self.when), *([] if self.each is None else [self.each])]

    @property
    def may_be_skipped(self) -> bool:
        return self.when is not None or self.skips


@dataclass
class Plan:
    """A workflow with the argument `a` (required), `b` (optional) and, with `secret`, `pin`.

    Attributes:
        way: How a client starts it: `prompt`, `tool` or `task` (the workflow's tool in the background).
    """

    lines: list[Line]
    tools: dict[str, Tool]
    parallel: int = 1
    way: str = "tool"
    era: Literal["2025", "2026"] = "2026"
    secret: bool = False

    def line(self, name: str) -> Line:
        return next(line for line in self.lines if line.name == name)


@dataclass
class World:
    """What happens around a plan.

    Attributes:
        arguments: The workflow's arguments.
        answers: The answer to each question.
        early: The questions whose answers the first call has.
        form: Whether a user answers forms; otherwise the client has declared none.
        denied, expiring: The steps whose approvals are denied, or decided too late.
        silent: The callbacks that never come.
        unreadable: How often the resource of a `fetch` cannot be read at first.
        seed: Chooses what the driver does.
        kills: How often a function is killed.
        changes: How often another definition is deployed while the task waits.
        meanwhile: What happens during runs, in the call of a tool: a `call` of the client, or a `callback`.
        gives: The value that the client's model gives for each missing argument; `None` for different values.
    """

    arguments: dict[str, Value] = field(default_factory=lambda: {"a": 1})
    answers: dict[str, int] = field(default_factory=dict)
    early: tuple[str, ...] = ()
    form: bool = False
    denied: tuple[str, ...] = ()
    expiring: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    unreadable: dict[str, int] = field(default_factory=dict)
    seed: int = 0
    kills: int = 0
    changes: int = 0
    meanwhile: str = ""
    gives: int | None = None


def sources_of(condition: Condition) -> list[Source]:
    match condition:
        case None:
            return []
        case ("not", inner):
            return sources_of(inner)
        case ("and" | "or", left, right):
            return [*sources_of(left), *sources_of(right)]
    return list(condition[1:])


def outputs_of(source: Source) -> set[str]:
    """The steps whose results a source uses."""
    match source:
        case ("output", step, _):
            return {step}
        case ("default", inner, _):
            return outputs_of(inner)
    return set()


def is_same(line: Line, other: Line | None) -> bool:
    """Whether a step is the same in another definition."""
    names = ("kind", "tool", "arguments", "when", "each", "within_s")
    return other is not None and all(getattr(line, name) == getattr(other, name) for name in names)


def needs_approval(approval: Approval, arguments: dict[str, Value]) -> bool:
    x = arguments["x"]
    return approval.above is None or not isinstance(x, int | float) or x > approval.above


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def equal(left: Value, right: Value) -> bool:
    """Equal as JSON: `true` is not 1."""
    return key_of(left) == key_of(right)


def key_of(value: Value) -> str:
    return json.dumps(value, sort_keys=True)


def value_of(tool: str, arguments: dict[str, Value]) -> Value:
    """The result of a tool for these arguments."""
    number = crc32(f"{tool} {key_of(arguments)}".encode())
    return {"n": number % 10, "list": [number % 7 + index for index in range(number // 7 % 4)], "even": number % 2 == 0}


def resource_of(value: str) -> str:
    return f"text of {value}"

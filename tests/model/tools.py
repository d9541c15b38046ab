"""What the tools and resources of a plan's server do, and the calls that they have noted."""

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from mcp_baton import Context, ToolError
from tests.model.plan import Plan, Value, World, key_of, resource_of, value_of


@dataclass
class Tools:
    """The tools of a plan.

    Attributes:
        meanwhile: What happens once, in the next call of another tool than this.
    """

    plan: Plan
    world: World
    sleep: Any = None
    calls: list[tuple[str, dict[str, Value]]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    failures: dict[str, int] = field(default_factory=dict)
    reads: dict[str, int] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)
    meanwhile: tuple[str, Callable[[], None]] | None = None

    def call(self, ctx: Context, name: str, x: Value, y: Value) -> Value:
        tool, arguments = self.plan.tools[name], {"x": x, "y": y}
        with self.lock:
            self.calls.append((name, arguments))
            self.keys.append(ctx.idempotency_key)
            key = key_of([name, arguments])
            self.failures[key] = self.failures.get(key, 0) + 1
            other, self.meanwhile = self.meanwhile, None
            if other is not None and other[0] == name:
                other, self.meanwhile = None, other
        if other is not None:
            other[1]()
        if self.failures[key] <= tool.fails:
            raise (
                RuntimeError(f"{name} has no time for {x}") if tool.masked else ToolError(f"{name} has no time for {x}")
            )
        value = value_of(name, arguments)
        if ctx.task is not None and tool.sets is not None:
            ctx.task[tool.sets] = value["n"]
        if ctx.task is not None and tool.callback is not None:
            ctx.callback_url(tool.callback)
        return value

    def read(self, step: str, v: str) -> str:
        with self.lock:
            self.reads[step] = self.reads.get(step, 0) + 1
        if self.reads[step] <= self.world.unreadable.get(step, 0):
            raise ToolError(f"{step} cannot be read now")
        return resource_of(v)

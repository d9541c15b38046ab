"""The tools of a server under test, as a copy that notes their calls and returns the results that a test sets."""

import asyncio
import copy
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from mcp_baton import Server
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.testing.answers import Answers
from mcp_baton.testing.function import Invocations
from mcp_baton.tools.outcomes import Succeeded
from mcp_baton.tools.prompt import Prompt
from mcp_baton.tools.resource import Resource
from mcp_baton.tools.schema.schema import InputSchema
from mcp_baton.tools.tool import Tool

_arguments: ContextVar[JsonObject] = ContextVar("mcp_baton.testing.arguments")
"""The arguments of the next call, as they were sent."""


@dataclass(slots=True)
class FixedResult:
    """The result of a tool that does not run. `times` is the number of calls; `None` for all."""

    value: object
    error: BaseException | type[BaseException] | None
    times: int | None

    def produce(self) -> object:
        if self.error is not None:
            raise self.error
        return self.value


@dataclass(slots=True)
class Script:
    """The calls of one version of a server, and the results and hooks that a test has set for them."""

    tools: frozenset[str]
    answers: Answers
    invocations: Invocations
    _calls: dict[str, list[dict[str, Json]]] = field(default_factory=dict)
    _fixed: dict[str, FixedResult] = field(default_factory=dict)
    _hooks: dict[str, Callable[[], object]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def calls(self, tool: str) -> list[dict[str, Json]]:
        self.check(tool)
        return [dict(arguments) for arguments in self._calls.get(tool, ())]

    def replace(self, tool: str, fixed_result: FixedResult) -> None:
        self.check(tool)
        self._fixed[tool] = fixed_result

    def set_hook(self, tool: str, happens: Callable[[], object]) -> None:
        self.check(tool)
        self._hooks[tool] = happens

    def check(self, tool: str) -> None:
        if tool not in self.tools:
            raise ValueError(f"the server has no tool {tool!r}; it has {', '.join(sorted(self.tools)) or 'none'}")

    def instrument(self, server: Server) -> Server:
        instrumented = copy.copy(server)
        instrumented.tools = {name: InstrumentedTool(tool, self) for name, tool in server.tools.items()}
        instrumented.resources = {uri: self._instrument(resource) for uri, resource in server.resources.items()}
        instrumented.prompts = {name: self._instrument(prompt) for name, prompt in server.prompts.items()}
        instrumented.completions = {**server.completions}
        return instrumented

    def _instrument[Item: Prompt | Resource](self, item: Item) -> Item:
        instrumented = copy.copy(item)
        instrumented.function = self.wrap(item)
        return instrumented

    def wrap(self, item: Tool | Prompt | Resource) -> Callable[..., object]:
        function: Callable[..., Any] = item.function

        def plain(**arguments: Any) -> object:
            fixed_result = self._begin(item, arguments)
            self._run_hook(item)
            value = function(**arguments) if fixed_result is None else fixed_result.produce()
            self._end(item)
            return value

        async def asynchronous(**arguments: Any) -> object:
            fixed_result = self._begin(item, arguments)
            await asyncio.to_thread(self._run_hook, item)
            value = await function(**arguments) if fixed_result is None else fixed_result.produce()
            self._end(item)
            return value

        return asynchronous if item.signature.is_async else plain

    def _begin(self, item: Tool | Prompt | Resource, arguments: dict[str, Any]) -> FixedResult | None:
        self.invocations.raise_if_killed()
        if item.signature.context in arguments:
            self.answers.record_keys(arguments[item.signature.context])
        if not isinstance(item, Tool):
            return None
        invocation = self.invocations.current
        with self._lock:
            if invocation is None or not invocation.is_repeat:
                self._calls.setdefault(item.name, []).append(copy.deepcopy(dict(_arguments.get())))
            fixed_result = self._fixed.get(item.name)
            if fixed_result is None or fixed_result.times == 0:
                return None
            if fixed_result.times is not None:
                fixed_result.times -= 1
            return fixed_result

    def _run_hook(self, item: Tool | Prompt | Resource) -> None:
        with self._lock:
            happens = self._hooks.pop(item.name, None) if isinstance(item, Tool) else None
        if happens is not None:
            happens()

    def _end(self, item: Tool | Prompt | Resource) -> None:
        if isinstance(item, Tool):
            self.invocations.note_action(item.name)


class InstrumentedTool(Tool):
    """A tool that notes its calls and values. It shares the signature of the original."""

    def __init__(self, tool: Tool, script: Script) -> None:
        vars(self).update(vars(tool))
        self.function = script.wrap(tool)
        self.input = InstrumentedInput(tool.input)
        self._invocations = script.invocations

    def outcome(self, returned: object) -> Succeeded:
        outcome = super().outcome(returned)
        invocation = self._invocations.current
        if invocation is not None:
            invocation.values.append(outcome.value)
        return outcome


class InstrumentedInput(InputSchema):
    """A tool's input schema that notes the arguments as they were sent."""

    def __init__(self, schema: InputSchema) -> None:
        self._schema = schema
        vars(self).update(vars(schema))

    def bind(self, arguments: JsonObject) -> dict[str, Any]:
        bound = self._schema.bind(arguments)
        _arguments.set(arguments)
        return bound

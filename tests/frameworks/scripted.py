"""Scripted models: they make their first calls and then follow what their framework shows them.

A model that decodes strictly can only write arguments that match the schema that it was sent, and it must write each
required one. So each model here does that, and fails if the framework leaves it no way to write its call.
"""

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import jsonschema_rs

from tests.frameworks.model_api import DONE, JsonDict, Turn
from tests.hosts.model import Model
from tests.hosts.phrases import Call

TOGETHER: Final = 20
FAILED: Final = re.compile(r"try again|retry|empty content|\berror\b|failed", re.IGNORECASE)
"""What frameworks write if a call has failed."""

FINISH: Final = "final_answer"
"""The tool with which models of smolagents end."""


@dataclass(frozen=True, slots=True)
class Script:
    """What a model and its user do in a session.

    Attributes:
        calls: The model's first calls.
        answers: What the user knows, by the name of an argument.
        follows: Whether the model follows the instructions in a result.
        repeats: Whether the model repeats its calls if it is told that they have failed.
    """

    calls: tuple[Call, ...] = ()
    answers: Mapping[str, str] = field(default_factory=dict)
    follows: bool = False
    repeats: bool = False


BORROW: Final = Script((Call("borrow", {"title": "Walden", "weeks": 3}),), {"reader": "Kim"}, follows=True)
SCRIPTS: Final = {
    "look": Script(),
    "plain": Script((Call("find_book", {"title": "Walden"}),)),
    "failing": Script((Call("find_book", {"title": "Nope"}),)),
    "nothing": Script((Call("send_reminder", {"reader": "Kim"}),), repeats=True),
    "together": Script(tuple(Call("label", {"number": number}) for number in range(TOGETHER))),
    "borrow": BORROW,
    "restart": BORROW,
    "refund": Script((Call("refund_order", {"order_id": "A-17"}),), follows=True),
    "monthly": Script(
        (Call("monthly_report", {"month": "2026-09"}),), {"summary": "Headphones sold best."}, follows=True
    ),
    "regional": Script((Call("regional_report", {"month": "2026-09"}),), follows=True),
    "slow": Script((Call("fulfil", {"order": "A-1"}),), follows=True, repeats=True),
}


@dataclass
class SeenByModel:
    """What one model has seen and done in a session, which a test asserts on."""

    tools_seen: dict[str, JsonDict] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def tools(self) -> Mapping[str, JsonDict]:
        return self.tools_seen

    def call(self, call: Call) -> str:
        """Frameworks make the calls of a model after it has written them."""
        raise NotImplementedError


@dataclass
class Models:
    """The models of all sessions of a framework.

    Attributes:
        before: Called before the second message of a model, by the name of its script.
        report: Called if a model tells its user that a person has to decide.
    """

    before: Mapping[str, Callable[[], object]] = field(default_factory=dict)
    report: Callable[[], object] = lambda: None
    sessions: dict[str, SeenByModel] = field(default_factory=dict)
    _models: dict[str, Model] = field(default_factory=dict)

    def respond(self, turn: Turn) -> Sequence[Call]:
        script = SCRIPTS[turn.script]
        if turn.script not in self._models:
            self.sessions[turn.script] = SeenByModel()
            self._models[turn.script] = Model(self.sessions[turn.script], script.answers, report=self.report)
        session = self.sessions[turn.script]
        session.tools_seen = {plain_name(name): schema for name, schema in turn.tools.items()}
        if turn.number:
            session.texts += map(readable, turn.shown)
        if turn.number == 1:
            self.before.get(turn.script, lambda: None)()
        calls = self._next_calls(script, session, self._models[turn.script], turn)
        if not calls and FINISH in turn.tools:
            return [Call(FINISH, {"answer": DONE})]
        first = session.calls[0].arguments if session.calls else {}
        names = {plain_name(name): name for name in turn.tools}
        assert {call.tool for call in calls} <= names.keys(), f"the model needs {calls} and has {list(names)}"
        session.calls += calls
        return [Call(names[call.tool], writable(call, session.tools_seen[call.tool], first)) for call in calls]

    def _next_calls(self, script: Script, session: SeenByModel, model: Model, turn: Turn) -> Sequence[Call]:
        if turn.number == 0:
            return script.calls
        text = session.texts[-1]
        is_told_how = "all " in text.lower() and "to let the server continue" in text
        if script.repeats and FAILED.search(text) and not is_told_how:
            return script.calls
        if not script.follows:
            return ()
        call = model.next_call(text, session.calls[-1])
        return () if call is None else (call,)


def plain_name(name: str) -> str:
    """Return the server's name of a tool. Semantic Kernel puts the name of its plugin before it."""
    return name.rpartition("-")[2]


QUOTED: Final = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)


def readable(text: str) -> str:
    """Return a text as a model reads it. LlamaIndex and Semantic Kernel show the representations of Python objects."""
    if "TextContent(" not in text:
        return text
    return "\n".join(ast.literal_eval(quoted) for quoted in QUOTED.findall(text))


def writable(call: Call, schema: JsonDict, first: JsonDict) -> JsonDict:
    """Return the arguments with a value for everything that the schema requires: what the call leaves out is null. If
    null is not allowed, it is an object without members or what the model wrote in its first call.

    Raises:
        AssertionError: the schema does not allow the call, so a model that decodes strictly could not make it.
    """
    schema = standard(schema)
    arguments = {name: value for name, value in first.items() if name in without_null(schema)} | call.arguments
    arguments = {**completed(arguments, schema)}
    errors = [f"{error.instance_path}: {error.message}" for error in jsonschema_rs.iter_errors(schema, arguments)]
    assert not errors, f"a model cannot write {call} as {json.dumps(schema)}: {errors}"
    return arguments


def without_null(schema: JsonDict) -> set[str]:
    """Return the required parameters that cannot be null."""
    properties = schema.get("properties", {})
    return {name for name in schema.get("required", ()) if not allows_null(properties[name])}


def allows_null(schema: JsonDict) -> bool:
    kinds = schema.get("type", ())
    return (
        kinds == "null"
        or (not isinstance(kinds, str) and "null" in kinds)
        or any(map(allows_null, schema.get("anyOf", ())))
    )


def completed(value: Any, schema: JsonDict) -> Any:
    """Add what is required and missing."""
    if not isinstance(value, dict):
        return value
    options = [schema, *schema.get("anyOf", ())]
    properties = {name: part for option in options for name, part in option.get("properties", {}).items()}
    required: dict[str, Any] = {name: None for option in options for name in option.get("required", ())}
    for name in required:
        if properties[name].get("type") == "object":
            required[name] = {}
    return {name: completed(part, properties.get(name, {})) for name, part in (required | value).items()}


def standard(node: Any) -> Any:
    """Return a schema of Gemini as JSON Schema: types in capitals, and `nullable`."""
    if isinstance(node, list):
        return [standard(part) for part in node]
    if not isinstance(node, dict):
        return node
    result = {key: standard(value) for key, value in node.items()}
    kind = result.get("type")
    if isinstance(kind, str) and kind.isupper():
        result["type"] = kind.lower()
        if result.get("nullable"):
            return {"anyOf": [result, {"type": "null"}]}
    return result

"""Checks for errors that occur only when a workflow or a tool runs. `baton check` reports them, too."""

import ast
import builtins
import dis
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import CodeType, ModuleType
from typing import Any, Final

from mcp_baton.hints import did_you_mean
from mcp_baton.local.faults import Mistake, Site, SourceDefinitions, function_site
from mcp_baton.server.server import Server
from mcp_baton.tools.secrets import strings_in
from mcp_baton.tools.templates import as_text, placeholders
from mcp_baton.tools.tool import Tool
from mcp_baton.workflow.checking import output_of
from mcp_baton.workflow.definition import Step, ToolFunction, Workflow
from mcp_baton.workflow.resolve import kinds_at
from mcp_baton.workflow.secrets import contains_argument
from mcp_baton.workflow.sources import Condition, Constant, FirstOf, PromptArg, Source, StepOutput

SCALARS: Final = {"number", "integer", "boolean"}
NAMES: Final = {
    "string": "a string",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
SAMPLES: Final[Mapping[str, tuple[Any, ...]]] = {
    "string": ("", "text"),
    "number": (1.5,),
    "integer": (1, 0),
    "boolean": (True,),
    "array": ([],),
    "object": ({},),
    "null": (None,),
}
"""Values of each JSON type: a validator of the author may accept another type than the one in the schema."""


@dataclass(frozen=True)
class WorkflowChecks:
    """The checks of a workflow's steps against the schemas of their tools."""

    server: Server
    workflow: Workflow
    definitions: SourceDefinitions

    def errors(self) -> Iterator[Mistake]:
        for step, tool in self._calls:
            for name, source in step.arguments.items():
                problem = self._constant(tool, name, source) or self._mismatch(tool, name, source, certain=True)
                if problem is not None:
                    yield self._fault(step, *problem)

    def suggestions(self) -> Iterator[Mistake]:
        arguments = [argument.name for argument in self.workflow.arguments]
        for step in self.workflow.steps:
            for text, hint in _unfilled_in([step.guidance or ""], arguments):
                remedy = hint or "the workflow has no arguments"
                yield self._fault(step, f"no argument fills {text} in its guidance", remedy)
        for step, tool in self._calls:
            for name, source in step.arguments.items():
                problem = self._mismatch(tool, name, source, certain=False)
                if problem is not None:
                    yield self._fault(step, *problem)
            yield from self._missing(step, tool)
            yield from self._unfilled(step, arguments)
            yield from self._nulls(step, tool)
            yield from self._unknown_callbacks(step, tool)
            yield from self._returned_secrets(step, tool)
        if self.workflow.durable:
            yield from self._unknown_outputs()
        yield from self._direct_calls()

    @cached_property
    def _tools(self) -> dict[str, Tool | None]:
        return {step.name: self._tool_of(step) for step in self.workflow.steps}

    def _tool_of(self, step: Step) -> Tool | None:
        tools = self.server.tools
        if isinstance(step.tool, ToolFunction):
            function = step.tool.function
            return next((tool for tool in tools.values() if tool.decorated == function), None)
        return tools.get(step.tool or "")

    @property
    def _calls(self) -> Iterator[tuple[Step, Tool]]:
        for step in self.workflow.steps:
            tool = self._tools[step.name]
            if tool is not None:
                yield step, tool

    def _fault(self, step: Step, problem: str, remedy: str) -> Mistake:
        label = f"workflow {self.workflow.name!r}, step {step.name!r}"
        return Mistake(f"{label}: {problem}", remedy, self.definitions.site(self.workflow.name, step.name))

    def _constant(self, tool: Tool, name: str, source: Source) -> tuple[str, str] | None:
        if not isinstance(source, Constant) or placeholders(as_text(source.value)):
            return None
        problem = _problem(tool, name, source.value)
        if problem is None:
            return None
        return f"{tool.name!r} refuses {source.value!r} for {name!r}: {problem}", f"give {name!r} a value of its type"

    def _mismatch(self, tool: Tool, name: str, source: Source, *, certain: bool) -> tuple[str, str] | None:
        """Return the problem if a value is of a type that the parameter does not take.

        A text is not certain to fail for a number, because `"5"` is converted.
        """
        accepted, produced = _kinds(lambda: tool.input_schema, name), self._kinds_of(source)
        if accepted is None or produced is None or produced & accepted:
            return None
        if accepted & SCALARS and produced & SCALARS:
            return None
        may_convert = bool(accepted & SCALARS) and "string" in produced
        if may_convert and (certain or isinstance(source, PromptArg)):
            return None
        if not may_convert and not certain:
            return None
        if certain and any(_problem(tool, name, sample) is None for kind in produced for sample in SAMPLES[kind]):
            return None
        takes = f"{name!r} of {tool.name!r} takes {_kinds_text(accepted)}"
        problem = f"{self._source_text(source)} is {_kinds_text(produced)}, and {takes}"
        return problem, "give another field, or change one of the types"

    def _source_text(self, source: Source) -> str:
        if isinstance(source, PromptArg):
            return f"the argument {source.name!r}"
        if not isinstance(source, StepOutput):
            return "the value"
        producer = self.workflow.bound(source.binding)
        tool = self._tools[producer.name]
        output = f"the output of {tool.name!r}" if tool else f"the answer {producer.name!r}"
        return f"the field {source.path!r} of {output}" if source.path else output

    def _kinds_of(self, source: Source) -> set[str] | None:
        """Return the JSON types that a source can have; `None` if they are unknown."""
        if isinstance(source, PromptArg):
            argument = next(argument for argument in self.workflow.arguments if argument.name == source.name)
            return _kinds(lambda: _schema_of(argument.type), None) if argument.required else None
        if not isinstance(source, StepOutput):
            return None
        producer = self.workflow.bound(source.binding)
        if (request := producer.ask or producer.callback) is not None:
            return _kinds(lambda: _schema_of(request.returns), source.path)
        tool = self._tools[producer.name]
        output = tool.output if tool else None
        return None if output is None else _kinds(lambda: output_of(producer, output.value_schema), source.path)

    def _missing(self, step: Step, tool: Tool) -> Iterator[Mistake]:
        """Yield required parameters without a value. Guidance shows that the model is meant to fill them in."""
        required = schema_or_empty(lambda: tool.input_schema).get("required", [])
        names = [name for name in required if name not in step.arguments]
        if names and not step.guidance:
            texts, first = " and ".join(map(repr, names)), names[0]
            yield self._fault(
                step,
                f"nothing supplies {texts} of {tool.name!r}, so the run pauses here until the model calls the tool",
                f"give {first!r} a value, or let ask_model({first!r}, '…') or ask_user({first!r}, '…') supply it; "
                "if the pause is intended, say so in guidance",
            )

    def _unfilled(self, step: Step, arguments: list[str]) -> Iterator[Mistake]:
        """Yield placeholders in fixed texts that no argument fills."""
        for name, source in step.arguments.items():
            texts = strings_in(source.value) if isinstance(source, Constant) else ()
            for placeholder, hint in _unfilled_in(texts, arguments):
                remedy = "give the tool a parameter for it; a fixed text takes only arguments of the workflow"
                problem = f"no argument fills {placeholder} in the text for {name!r}, so {step.tool!r} gets it as it is"
                yield self._fault(step, problem, hint if hint.startswith(_HINTS) else remedy)

    def _nulls(self, step: Step, tool: Tool) -> Iterator[Mistake]:
        """Yield fields that may be null although the author has provided for a missing value: null is a value."""
        tested, compared = (
            {(source.binding, source.path) for source in _operands(step.when, operator)}
            for operator in ("exists", "!=")
        )
        for name, source in step.arguments.items():
            sources = source.sources if isinstance(source, FirstOf) else (source,)
            accepted = _kinds(lambda: tool.input_schema, name) if name in tool.signature.required else None
            if accepted is None or "null" in accepted:
                continue
            for part in sources:
                if not isinstance(part, StepOutput) or (place := (part.binding, part.path)) in compared:
                    continue
                if (isinstance(source, FirstOf) or place in tested) and "null" in (self._kinds_of(part) or ()):
                    problem = f"{self._source_text(part)} may be null, which counts as a value, and {name!r} of "
                    remedy = "test it with when=… != None, or let the tool accept null"
                    yield self._fault(step, f"{problem}{tool.name!r} does not accept null", remedy)

    def _unknown_callbacks(self, step: Step, tool: Tool) -> Iterator[Mistake]:
        """Yield addresses that a tool makes for a step that does not wait for a callback."""
        names = [other.name for other in self.workflow.steps if other.callback is not None]
        for call in _calls_within(tool):
            values = [*call.args[:1], *(keyword.value for keyword in call.keywords if keyword.arg == "step")]
            if not isinstance(call.func, ast.Attribute) or call.func.attr != "callback_url":
                continue
            for name in (value.value for value in values if isinstance(value, ast.Constant)):
                if name not in names:
                    hint = did_you_mean(name, names).removeprefix("; ") or f"add wait_for_callback({name!r}, …)"
                    problem = (
                        f"{tool.name!r} makes the address of {name!r}, which is no step here that waits for a callback"
                    )
                    yield self._fault(step, problem, hint)

    def _returned_secrets(self, step: Step, tool: Tool) -> Iterator[Mistake]:
        """Yield secret arguments that a tool returns, because results are stored and shown whole."""
        names = {name for name, source in step.arguments.items() if contains_argument(source, self.workflow.secrets)}
        published_names = {parameter.name: parameter.published_name for parameter in tool.signature.parameters}
        for name in sorted(names & {published_names.get(name, "") for name in _returned_names(tool)}):
            problem = f"{tool.name!r} returns {name!r}, which is a secret argument, and results are stored and shown"
            yield self._fault(step, problem, f"leave {name!r} out of what the tool returns")

    def _unknown_outputs(self) -> Iterator[Mistake]:
        """Yield paths into outputs of unknown form: a typing error in them is found only when the workflow runs."""
        for step in self.workflow.steps:
            for source in (*step.arguments.values(), *step.template_bindings.values()):
                if not isinstance(source, StepOutput) or not source.path:
                    continue
                tool = self._tools[self.workflow.bound(source.binding).name]
                if tool is not None and tool.output is None:
                    yield self._fault(
                        step,
                        f"the fields of the output of {tool.name!r} are not known, so {source.path!r} is not checked",
                        f"give {tool.name!r} a return type with fields: a dataclass, a typed dict or a model",
                    )

    def _direct_calls(self) -> Iterator[Mistake]:
        """Yield calls of tools in the body of a workflow function, which run once, while the file is loaded."""
        site = self.definitions.site(self.workflow.name)
        if site is None:
            return
        modules = list(sys.modules.values())
        module = next((module for module in modules if getattr(module, "__file__", None) == str(site.file)), None)
        if module is None:
            return
        for function in ast.walk(ast.parse(site.file.read_bytes())):
            if not isinstance(function, ast.FunctionDef) or site.line not in _decorator_lines(function):
                continue
            for call in _direct_calls_of(function):
                callee = getattr(module, call.func.id, None) if isinstance(call.func, ast.Name) else None
                tool = next((item for item in self.server.tools.values() if callee and item.decorated == callee), None)
                if tool is not None:
                    yield Mistake(
                        f"workflow {self.workflow.name!r} calls the tool {tool.name!r} directly: it runs once, while "
                        "the file is loaded",
                        f"write step({ast.unparse(call.func)})(…)",
                        Site(site.file, call.lineno),
                    )


def _operands(condition: object, operator: str) -> Iterator[StepOutput]:
    """Yield the outputs of steps to which a condition applies an operator."""
    if isinstance(condition, Condition):
        for operand in condition.operands:
            if isinstance(operand, StepOutput) and condition.operator == operator:
                yield operand
            yield from _operands(operand, operator)


_IN_BRACES: Final = re.compile(r"([^\W\d]\w*)(?:[.\[!].*|:\S.*)?", re.DOTALL)
"""What authors write in the braces of a text: a name, perhaps with a field or a format. JSON and CSS are no names."""

_HINTS: Final = ("did you mean", "write ")


def _unfilled_in(texts: Iterable[str], arguments: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the placeholders in texts that no argument fills, in braces, each with a hint."""
    for placeholder in sorted(frozenset[str]().union(*map(placeholders, texts)).difference(arguments)):
        match = _IN_BRACES.fullmatch(placeholder)
        if match is None:
            continue
        name, rest = match[1], placeholder.removeprefix(match[1])
        if rest and name in arguments:
            yield f"{{{placeholder}}}", f"write {{{name}}}: a text takes a whole argument, without a format"
        elif not rest:
            yield f"{{{placeholder}}}", did_you_mean(name, arguments).removeprefix("; ")
        elif not rest.startswith(":"):
            yield f"{{{placeholder}}}", "write an argument of the workflow; give a result to a parameter of the tool"


def _tree_of(function: object) -> ast.AST | None:
    """Return the syntax tree of a function; `None` if its source is not available."""
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function)))).body[0]  # type: ignore[arg-type]
    except (OSError, SyntaxError, TypeError, IndexError):
        return None


def _calls_within(tool: Tool) -> Iterator[ast.Call]:
    tree = _tree_of(tool.decorated)
    return (node for node in (ast.walk(tree) if tree else ()) if isinstance(node, ast.Call))


def _returned_names(tool: Tool) -> set[str]:
    """Return the names whose values a function returns: alone, in a list, an object, a text or a new instance."""
    tree, variables = _tree_of(tool.decorated), getattr(inspect.unwrap(tool.decorated), "__globals__", {})
    nodes: list[ast.AST] = [
        node.value for node in (ast.walk(tree) if tree else ()) if isinstance(node, ast.Return) and node.value
    ]
    names: set[str] = set()
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Compare) or (
            isinstance(node, ast.Call) and not isinstance(_named(node.func, variables), type)
        ):
            continue  # the result of a test or of a function is another value
        else:
            nodes += ast.iter_child_nodes(node)
    return names


def _named(node: ast.AST, variables: Mapping[str, Any]) -> object:
    return variables.get(node.id, getattr(builtins, node.id, None)) if isinstance(node, ast.Name) else None


def undefined_names(tool: Tool) -> Iterator[Mistake]:
    """Yield names that a tool uses and that neither its module nor Python defines."""
    function = inspect.unwrap(tool.decorated)
    codes, names = [getattr(function, "__code__", None)], set[str]()
    while codes:
        code = codes.pop()
        if isinstance(code, CodeType):
            instructions = dis.get_instructions(code)
            names |= {item.argval for item in instructions if item.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
            codes += code.co_consts
    known = getattr(function, "__globals__", {}).keys() | vars(builtins).keys()
    for name in sorted(names - known):
        remedy = "add the parameter ctx: Context" if name == "ctx" else f"define or import {name}"
        yield Mistake(f"tool {tool.name!r} uses {name!r}, which is not defined", remedy, function_site(tool.decorated))


def _decorator_lines(function: ast.FunctionDef) -> set[int]:
    decorators = function.decorator_list
    return {line for node in decorators for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}


def _problem(tool: Tool, name: str, value: Any) -> str | None:
    try:
        return tool.input.problem_with(name, value)
    except Exception:  # noqa: BLE001 - code of the author's type runs; another fault reports the error
        return None


def schema_or_empty(make: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    try:
        return make()
    except Exception:  # noqa: BLE001 - code of the author's type runs; another fault reports the error
        return {}


def _schema_of(kind: Any) -> Mapping[str, Any]:
    from pydantic import TypeAdapter

    return TypeAdapter[Any](kind).json_schema()


def _kinds(make: Callable[[], Mapping[str, Any]], path: str | None) -> set[str] | None:
    """Return the JSON types at a path of a schema; `None` if they are unknown."""
    kinds = kinds_at(schema_or_empty(make), path)
    return None if kinds is None or not kinds <= NAMES.keys() else kinds


def _kinds_text(kinds: set[str]) -> str:
    return " or ".join(NAMES[kind] for kind in sorted(kinds))


_VERBS: Final = "(get|post|put|patch|delete|head|options|request)"
_NO_REQUEST: Final = "(close|can_paginate|generate_presigned_post|generate_presigned_url|get_paginator|get_waiter)"
BLOCKING: Final = (
    (re.compile(r"time\.sleep"), "await asyncio.sleep(…)"),
    (re.compile(rf"requests\.(api\.|Session\(\)\.|sessions\.Session\(\)\.)?{_VERBS}"), ""),
    (re.compile(rf"httpx\.(Client\(\)\.)?{_VERBS}"), "use httpx.AsyncClient"),
    (re.compile(r"urllib\.request\.urlopen"), ""),
    (re.compile(rf"boto3\.(Session\(\)\.)?client\(\)\.(?!{_NO_REQUEST}$)\w+"), ""),
    (re.compile(r"boto3\.(Session\(\)\.)?resource\(\)\.\w+\(\)\.\w+"), ""),
    (re.compile(r"subprocess\.(run|call|check_call|check_output)"), "await asyncio.create_subprocess_exec(…)"),
    (re.compile(r"os\.system"), "await asyncio.create_subprocess_shell(…)"),
)
"""Calls that block, as a pattern of the whole dotted name, and what to write instead."""


def blocking_calls(tool: Tool) -> Iterator[Mistake]:
    """Yield calls in the function of an asynchronous tool that block its event loop."""
    function, site = inspect.unwrap(tool.decorated), function_site(tool.decorated)
    if not tool.signature.is_async or site is None:
        return
    tree = _tree_of(function)
    if tree is None:
        return
    names = _Names(getattr(function, "__globals__", {}))
    names.read(tree)
    for call in _direct_calls_of(tree):
        dotted_name = names.dotted(call.func)
        remedy = next((remedy for pattern, remedy in BLOCKING if pattern.fullmatch(dotted_name)), None)
        if remedy is not None:
            name = ast.unparse(call.func)
            yield Mistake(
                f"tool {tool.name!r} is asynchronous and calls {name}, which blocks its event loop: nothing else "
                "in it runs meanwhile",
                f"{remedy or f'await asyncio.to_thread({name}, …)'}, or write def in place of async def",
                Site(site.file, site.line + call.lineno - 1),
            )


def _direct_calls_of(function: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls that a function makes itself, without awaited ones and those in functions within it."""
    nodes: list[ast.AST] = list(getattr(function, "body", []))
    while nodes:
        node = nodes.pop(0)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            continue
        children = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.Await) and isinstance(node.value, ast.Call):
            children = list(ast.iter_child_nodes(node.value))
        elif isinstance(node, ast.Call):
            yield node
        nodes = children + nodes


class _Names:
    """The dotted names of modules, functions and clients, by the names that a function gives them."""

    def __init__(self, variables: Mapping[str, Any]) -> None:
        self._variables = variables
        self._local: dict[str, str] = {}

    def read(self, tree: ast.AST) -> None:
        """Note what the function imports, and the clients that it makes."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    package = alias.name.partition(".")[0]
                    self._local[alias.asname or package] = alias.name if alias.asname else package
            elif isinstance(node, ast.ImportFrom):
                self._local |= {(alias.asname or alias.name): f"{node.module}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                callee = self.dotted(node.value)
                self._local |= {target.id: callee for target in node.targets if isinstance(target, ast.Name)}
            elif isinstance(node, ast.withitem) and isinstance(node.optional_vars, ast.Name):
                self._local[node.optional_vars.id] = self.dotted(node.context_expr)

    def dotted(self, node: ast.AST) -> str:
        """Return the dotted name of a function. Calls within it, as in `boto3.client().get_object`, have `()`."""
        if isinstance(node, ast.Attribute):
            return f"{self.dotted(node.value)}.{node.attr}"
        if isinstance(node, ast.Call):
            return f"{self.dotted(node.func)}()"
        if not isinstance(node, ast.Name):
            return ""
        if node.id in self._local:
            return self._local[node.id]
        value = self._variables.get(node.id)
        if isinstance(value, ModuleType):
            return value.__name__
        kind = f"{type(value).__module__}.{type(value).__name__}"
        if kind.startswith("boto3.resources."):
            return "boto3.resource()" if kind.endswith("ServiceResource") else "boto3.resource().Table()"
        if kind.startswith("botocore.client."):
            return "boto3.client()"
        if kind in ("requests.sessions.Session", "httpx.Client"):
            return f"{kind}()"
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', node.id)}"

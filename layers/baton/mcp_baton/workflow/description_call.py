"""The one call of a workflow function, in which it describes its steps, and the Python that is refused there.

Python executes `is`, `match`, `isinstance` and `try` without asking a reference, so the result says nothing about its
value (docs/workflows.md, Workflow functions).
"""

import ast
import builtins
import dis
import inspect
import linecache
import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any, Final

from msgspec import Struct

from mcp_baton.exceptions import WorkflowError
from mcp_baton.tools.templates import placeholders
from mcp_baton.workflow.reference import IN_A_TOOL, REFERENCE_TEXT, Reference, no_value
from mcp_baton.workflow.sources import (
    USE_A_CONDITION,
    PromptArg,
    StepOutput,
    is_authors,
    recording_of_function,
    source_of,
)
from mcp_baton.workflow.steps.step import Step

_MONITOR: Final = 4
"""An identifier of `sys.monitoring` that no usual tool takes."""

_TESTS: Final = ("callable", "hasattr", "id", "isinstance", "type")
"""The builtin functions that say something about an object without asking it."""

_TEST_FUNCTIONS: Final = tuple(getattr(builtins, name) for name in _TESTS)
_TEST_OPCODES: Final = frozenset(
    dis.opmap[name]
    for name in (
        *("IS_OP", "POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE"),
        *("MATCH_CLASS", "MATCH_MAPPING", "MATCH_SEQUENCE"),
    )
)
_REFERENCE: Final = re.compile(rf"\bReference\b|{REFERENCE_TEXT}|can only join an iterable|on dataclass instances")
"""What an error of Python says about a reference. `str.join` replaces the error of the reference by its own."""
_HANDLER: Final = dis.opmap["PUSH_EXC_INFO"]
_WITH: Final = dis.opmap["WITH_EXCEPT_START"]

type _Node = ast.Compare | ast.Match | ast.Call


def describe(
    workflow: str,
    function: Callable[..., object],
    references: Mapping[str, Any],
    tools: Mapping[str, Any],
    steps: Sequence[Step],
) -> object:
    """Call a workflow function with its references. Returns what it returns.

    Args:
        tools: The server's tools as the author has decorated them, by name.
        steps: The steps that the call has described so far.

    If another program has taken the identifier of the monitor, direct calls of tools fail at the first use of the
    reference, and tests are not found. Tests are not found either in code without its source.

    Raises:
        WorkflowError: The function calls a tool directly, tests a reference, or uses a name before it is defined.
    """
    try:
        with _monitored(workflow, inspect.unwrap(function), tools, steps):
            return function(**references)
    except NameError as error:
        if (cause := _undefined(function, error)) is None:
            raise
        raise WorkflowError(workflow, cause) from error
    except (AttributeError, TypeError, ValueError) as error:
        if isinstance(error, WorkflowError) or not _REFERENCE.search(str(error)):
            raise
        cause = f"{_last_line(error)}: {error}. A reference has no value before the workflow runs; {IN_A_TOOL}"
        raise WorkflowError(workflow, cause) from error


def enclosing_block() -> str | None:
    """The kind of the block, `try` or `with`, in which the author's code makes the current call, if there is one.

    The block has ended before any step runs.
    """
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the documented way to the caller's frame
    while frame is not None and frame.f_code is not describe.__code__:
        if is_authors(frame) and (kind := _block(frame)) is not None:
            return kind
        frame = frame.f_back
    return None


def shadowed_name(text: str, filled: Collection[str]) -> str | None:
    """A `{name}` in a text that the step does not fill, and that is a parameter of the function with the text. The
    parameter is not the workflow's argument of this name, for example because the function is a helper."""
    names = placeholders(text).difference(filled)
    frame: FrameType | None = sys._getframe(1) if names else None  # noqa: SLF001 - the documented way to the caller's frame
    while frame is not None and frame.f_code is not describe.__code__:
        code, values = frame.f_code, frame.f_locals
        if is_authors(frame) and text in code.co_consts:
            for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
                source = source_of(values.get(name))
                if name in names and not (isinstance(source, PromptArg) and source.name == name):
                    return name
            return None
        frame = frame.f_back
    return None


def _block(frame: FrameType) -> str | None:
    """The kind of the block around a frame's current instruction: the exception table has its handler."""
    code = frame.f_code
    if not code.co_exceptiontable:
        return None
    bytecode: Any = dis.Bytecode(code)
    entries, offset = bytecode.exception_entries, frame.f_lasti
    while (entry := next((entry for entry in entries if entry.start <= offset < entry.end), None)) is not None:
        offset = entry.target
        if code.co_code[offset] == _HANDLER:
            return "with" if code.co_code[offset + 2] == _WITH else "try"
        # Otherwise the entry belongs to a comprehension. An outer block covers its handler.
    return None


def _last_line(error: Exception) -> str:
    """The author's last line in a traceback, as `FILE:LINE`."""
    trace, line = error.__traceback__, ""
    while trace is not None:
        if is_authors(trace.tb_frame):
            line = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return line


def _undefined(function: Callable[..., object], error: NameError) -> str | None:
    """The cause and the remedy for a name that the workflow function itself uses too early."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    code = inspect.unwrap(function).__code__
    if trace is None or trace.tb_frame.f_code not in (code, *code.co_consts):
        return None
    place, name = f"{code.co_filename}:{trace.tb_lineno}", error.name
    if name is None:  # it is a local variable, which only the text names
        name = str(error).partition("'")[2].partition("'")[0]
        return f"{place} uses {name!r} before it has a value; move the line that makes {name!r} before this one"
    if name == code.co_name:
        return f"{place}: a workflow cannot call itself; call a tool for each element: step(tool, each=…)(x=item())"
    return (
        f"{place} uses {name!r}, which is not defined yet; define or import it before the workflow, or give a tool by "
        "its name: step('…')"
    )


class _Test(Struct, frozen=True):
    """A test in the author's code: its operands, and what the error says about it."""

    node: _Node
    operands: tuple[ast.expr, ...]


@contextmanager
def _monitored(workflow: str, function: Any, tools: Mapping[str, Any], steps: Sequence[Step]) -> Iterator[None]:
    """Refuse direct calls of tools, which would run now and make constants, and tests of references.

    Uses `sys.monitoring`, which costs nothing outside of the tools' own code and of functions with tests.
    """
    if sys.monitoring.get_tool(_MONITOR) is not None:
        yield
        return
    names = {_code_of(tool): name for name, tool in tools.items()}
    names.pop(None, None)
    codes = list(_codes_of_the_author(function))
    tests = {code: _tests_by_offset(code) for code in codes}

    def reject_call(_code: CodeType, _offset: int, called: object, first: object) -> None:
        # The start of a coroutine function cannot be monitored: its call only makes a coroutine.
        code = _code_of(called) if isinstance(called, FunctionType | MethodType) else None
        caller = sys._getframe(1)  # noqa: SLF001 - the frame that makes the call
        if code in names:
            _reject_direct_call(workflow, names[code], caller)
        elif (name := _once(called, first)) is not None:
            cause = f"{_line(caller)} calls {name}, which runs once, now, and not when the workflow runs"
            _reject(workflow, f"{cause}; {_INSTEAD.get(name, IN_A_TOOL)}")

    def reject_start(code: CodeType, _offset: int) -> None:
        # Another function, such as `map`, has called the tool.
        _reject_direct_call(workflow, names[code], sys._getframe(1).f_back)  # noqa: SLF001 - the frame that called the tool

    def reject_test(code: CodeType, offset: int) -> None:
        for test in tests[code].get(offset, ()):
            _reject_test(workflow, test, sys._getframe(1), steps)  # noqa: SLF001 - the frame that executes the instruction

    events = sys.monitoring.events
    watched = dict.fromkeys(names, events.PY_START)
    for code in codes:
        watched[code] = watched.get(code, 0) | events.CALL | (events.INSTRUCTION if tests[code] else 0)
    callbacks = {events.PY_START: reject_start, events.CALL: reject_call, events.INSTRUCTION: reject_test}
    with _watching(callbacks, watched):
        yield


@contextmanager
def _watching(callbacks: Mapping[int, Any], watched: Mapping[CodeType, int]) -> Iterator[None]:
    """Call the callbacks of events in these codes."""
    monitoring = sys.monitoring
    monitoring.use_tool_id(_MONITOR, "mcp_baton")
    for event, callback in callbacks.items():
        monitoring.register_callback(_MONITOR, event, callback)
    for code, events in watched.items():
        monitoring.set_local_events(_MONITOR, code, events)
    try:
        yield
    finally:
        for code in watched:
            monitoring.set_local_events(_MONITOR, code, monitoring.events.NO_EVENTS)
        for event in callbacks:
            monitoring.register_callback(_MONITOR, event, None)
        monitoring.free_tool_id(_MONITOR)


def _code_of(function: Any) -> Any:
    """The code that an author has written for a function; `None` for an object without code."""
    return getattr(inspect.unwrap(function), "__code__", None)


def _reject_direct_call(workflow: str, name: str, caller: FrameType | None) -> None:
    if caller is not None:
        _reject(workflow, f"{_line(caller)} calls the tool {name!r} directly; write step({name})(…)")


def _reject(workflow: str, cause: str) -> None:
    recording = recording_of_function.get()
    if recording is None:
        return  # another thread runs the code
    error = WorkflowError(workflow, cause)
    recording.refusals.append(error)  # the function may catch it
    raise error


def _line(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


_ONCE: Final = frozenset(
    {
        *("time.sleep", "time.time", "time.time_ns", "asyncio.sleep"),
        *("datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today", "datetime.date.today"),
        *("uuid.uuid1", "uuid.uuid4", "posix.urandom"),
        *("secrets.token_bytes", "secrets.token_hex", "secrets.token_urlsafe", "secrets.randbelow"),
    }
)
"""Functions whose results are new for each run, which a workflow function would keep for all runs."""

_INSTEAD: Final = dict.fromkeys(("time.sleep", "asyncio.sleep"), "write sleep_until('…', timedelta(…))")


def _once(called: object, first: object) -> str | None:
    """The name of a function of `_ONCE`, or of one of `random`; `None` for others, also of a seeded generator.

    Args:
        first: The first argument. Python passes a method's object as such.
    """
    owner, name = getattr(called, "__self__", first), str(getattr(called, "__qualname__", ""))
    shared_generator = getattr(getattr(sys.modules.get("random"), "random", None), "__self__", _ONCE)
    is_random = owner is shared_generator or type(owner).__name__ == "SystemRandom"
    if is_random and name.startswith(("Random.", "SystemRandom.")):
        return f"random.{name.partition('.')[2]}"
    module = getattr(called, "__module__", None) or getattr(owner, "__module__", "")
    name = f"{str(module).partition('.')[0]}.{name}"
    return name if name in _ONCE else None


def _codes_of_the_author(function: Any) -> Iterator[CodeType]:
    """The codes of the function, of functions within it, and of the author's functions that these call."""
    folder = os.path.dirname(function.__code__.co_filename) + os.sep  # noqa: PTH120 - importing pathlib takes time
    waiting, visited = [(function.__code__, function.__globals__)], set[CodeType]()
    while waiting:
        code, variables = waiting.pop()
        if code in visited or not code.co_filename.startswith(folder) or "site-packages" in code.co_filename:
            continue
        visited.add(code)
        yield code
        waiting += ((part, variables) for part in code.co_consts if isinstance(part, CodeType))
        values = [variables[name] for name in code.co_names if name in variables]
        modules = [value for value in values if isinstance(value, ModuleType)]
        values += (vars(module).get(name) for module in modules for name in code.co_names)
        waiting += ((value.__code__, value.__globals__) for value in values if isinstance(value, FunctionType))


def _tests_by_offset(code: CodeType) -> dict[int, list[_Test]]:
    """The tests of a code by the offsets of their instructions; none if its source is not available."""
    if _TEST_OPCODES.isdisjoint(code.co_code[::2]) and set(_TESTS).isdisjoint(code.co_names):
        return {}
    linecache.checkcache(code.co_filename)
    try:
        tree = ast.parse("".join(linecache.getlines(code.co_filename)))
    except SyntaxError:  # the file has changed
        return {}
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Compare | ast.Match | ast.Call)]
    found = [(*_position(node), _Test(node, operands)) for node in nodes if (operands := _operands(node))]
    calls = {(first, last): [test] for first, last, test in found if isinstance(test.node, ast.Call)}
    tests = [entry for entry in found if not isinstance(entry[2].node, ast.Call)]
    by_offset: dict[int, list[_Test]] = {}
    for index, (line, end_line, column, end_column) in enumerate(code.co_positions()):
        if line is None or end_line is None or column is None or end_column is None:
            continue
        first, last = (line, column), (end_line, end_column)
        if code.co_code[2 * index] not in _TEST_OPCODES:
            matching = calls.get((first, last), [])
        else:
            around = [entry for entry in tests if entry[0] <= first and last <= entry[1]]
            # The jump of a test in a comprehension has the position of the comprehension's element.
            innermost = [max(around, key=lambda entry: entry[0])] if around else [t for t in tests if t[0][0] == line]
            matching = [test for _, _, test in innermost]
        if matching:
            by_offset[2 * index] = matching
            if index and code.co_code[2 * index - 2] == dis.EXTENDED_ARG:
                by_offset[2 * index - 2] = matching
    return by_offset


def _position(node: Any) -> tuple[tuple[int, int], tuple[int, int]]:
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)


def _operands(node: _Node) -> tuple[ast.expr, ...]:
    if isinstance(node, ast.Match):
        return (node.subject,)
    if isinstance(node, ast.Call):
        is_test = isinstance(node.func, ast.Name) and node.func.id in _TESTS
        return tuple(node.args[:1]) if is_test else ()
    pairs = zip(node.ops, pairwise((node.left, *node.comparators)), strict=True)
    return tuple(value for word, pair in pairs if isinstance(word, ast.Is | ast.IsNot) for value in pair)


def _reject_test(workflow: str, test: _Test, frame: FrameType, steps: Sequence[Step]) -> None:
    node = test.node
    if isinstance(node, ast.Call) and not any(_value(node.func, frame) is function for function in _TEST_FUNCTIONS):
        return
    for operand in test.operands:
        for part in operand.elts if isinstance(operand, ast.Tuple) else [operand]:
            value = _value(part, frame)
            if isinstance(part, ast.Call) and steps and _is_step(part, frame):
                value = Reference(StepOutput(steps[-1].binding))
            if isinstance(value, Reference):
                does, remedy = _described(node, part, value)
                raise no_value(value, does, remedy, workflow)


def _described(node: _Node, operand: ast.expr, value: Reference) -> tuple[str, str]:
    """What a test does with a reference, and what to write instead."""
    if isinstance(node, ast.Match):
        return "matches", USE_A_CONDITION
    if isinstance(node, ast.Call):
        return f"applies {ast.unparse(node.func)}(…) to", IN_A_TOOL
    text, other = ast.unparse(operand), next(part for part in (node.left, *node.comparators) if part is not operand)
    is_positive, constant = isinstance(node.ops[0], ast.Is), ast.unparse(other)
    if constant == "None" and isinstance(source_of(value), PromptArg):
        condition = f"not_(exists({text}))" if is_positive else f"exists({text})"
    else:
        condition = f"{text} {'==' if is_positive else '!='} {constant}"
    word = "is" if is_positive else "is not"
    return f"tests with {word!r}", f"give the condition to a step: step(tool, when={condition})"


def _is_step(node: ast.Call, frame: FrameType) -> bool:
    """Whether a call has just described a step: `step(tool)(…)`, `ask_user(…)`."""
    function = node.func.func if isinstance(node.func, ast.Call) else node.func
    return getattr(_value(function, frame), "__module__", None) == f"{__package__}.step_functions"


def _value(node: ast.expr, frame: FrameType) -> object:
    """The value of an expression that has no effect; `None` for others, and if it has no value yet."""
    if isinstance(node, ast.NamedExpr):
        node = ast.copy_location(ast.Name(node.target.id, ast.Load()), node)
    effects = (ast.Call, ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)
    if any(isinstance(part, effects) for part in ast.walk(node)):
        return None
    try:
        return eval(compile(ast.Expression(node), "<test>", "eval"), frame.f_globals, frame.f_locals)  # noqa: S307 - the author's own expression
    except Exception:  # noqa: BLE001 - code of the author may raise anything; its own execution reports it
        return None

"""The rooms of the package: which imports each may have, and which modules read the environment (CONTRIBUTING.md)."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "layers" / "baton" / "mcp_baton"
MODULES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
SOURCES = {module: (PACKAGE / module).read_text() for module in MODULES}

FEATURES = ("approvals", "callbacks", "background")
"""Rooms that own one feature each. They do not import each other."""

ROOMS = (
    "protocol",
    "transport",
    "tasks",
    "tools",
    "questions",
    "workflow",
    "approvals",
    "callbacks",
    "present",
    "console",
    "background",
    "server",
)
"""The rooms, in the order of their imports: each may import those before it."""

PARTS = {
    "state_keys.py": ("protocol",),
    "clients.py": ("protocol",),
    "observability.py": ("transport",),
    "open_telemetry.py": (),
}
"""Modules outside the rooms, and the rooms that they may import."""

SHARED = ("definition_lines", "exceptions", "hints", "settings", "telemetry")
"""Modules below all rooms."""

ROOTS = ("__init__.py", "aws.py", "features.py", "stores.py", "cli/*", "local/*", "public.py", "testing/*")
"""The composition roots. They may import any room."""

STORED = ("tasks/dynamodb/*", "*/*items.py", "stores.py")
"""The modules that know the items of the table: its primitives, and the items of each feature."""

NOT_DEPLOYED = ("cli/*", "local/*", "testing/*")
"""Modules that are not in the layer, so that their imports do not slow a cold start."""

AWS_SDK_USERS = (
    "tasks/dynamodb/retries.py",
    "state_keys.py",
    "aws.py",
    "clients.py",
    *NOT_DEPLOYED,
)
NETWORK = ("http", "httpx", "requests", "socket", "ssl", "urllib", "urllib3")
NETWORK_FREE = ("protocol/*", "tasks/*", "workflow/*", "server/*")
HARMLESS = frozenset({"http", "http.HTTPStatus", *(f"urllib.parse{name}" for name in ("", ".quote", ".unquote"))})
SLOW = (
    *("asyncio", "aws_lambda_powertools", "aws_xray_sdk", "boto3", "botocore", "http.client", "moto", "opentelemetry"),
    "pydantic",
)
"""Imports that slow a cold start. They are only allowed inside functions."""

ENVIRONMENT_READERS = ("settings.py", "aws.py", "cli/*", "local/*", "transport/runtime/__main__.py")


@dataclass(frozen=True, slots=True)
class Import:
    """One import: the full name, and whether it is inside a function or only for type checking."""

    name: str
    deferred: bool
    for_types: bool


def matches(module: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch(module, pattern) for pattern in patterns)


def is_within(name: str, packages: tuple[str, ...] | frozenset[str]) -> bool:
    """Return whether a dotted name is one of these packages or inside one."""
    return any(name == package or name.startswith(f"{package}.") for package in packages)


@cache
def imported(source: str) -> tuple[Import, ...]:
    return tuple(imports(ast.parse(source)))


def imports(tree: ast.AST, deferred: bool = False, for_types: bool = False) -> Iterator[Import]:
    """Yield every import under a node. `from a import b` yields both `a` and `a.b`, because `b` may be a module."""
    deferred = deferred or isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef)
    checks_types = isinstance(tree, ast.If) and ast.unparse(tree.test) == "TYPE_CHECKING"
    for node in ast.iter_child_nodes(tree):
        typed = for_types or (checks_types and node in getattr(tree, "body", []))
        match node:
            case ast.Import():
                yield from (Import(alias.name, deferred, typed) for alias in node.names)
            case ast.ImportFrom():
                # Relative imports are not used, so the name is in no room.
                source = node.module or "" if not node.level else "mcp_baton.relative"
                yield Import(source, deferred, typed)
                yield from (Import(f"{source}.{alias.name}", deferred, typed) for alias in node.names)
            case ast.expr():
                continue
            case _:
                yield from imports(node, deferred, typed)


def below(room: str) -> tuple[str, ...]:
    """Return the rooms that a room may import, itself included."""
    before = ROOMS[: ROOMS.index(room)]
    return (*(name for name in before if not (room in FEATURES and name in FEATURES)), room)


def upward(module: str, imports_found: Sequence[Import]) -> Iterator[str]:
    """Yield imports from a room that this room must not import."""
    if matches(module, ROOTS) or module.removesuffix(".py") in SHARED:
        return
    room = module.split("/", maxsplit=1)[0]
    if room not in ROOMS and room not in PARTS:
        yield "is in no room: move it to one, or give it a rule of its own in this test"
        return
    allowed = PARTS[room] if room in PARTS else below(room)
    allowed_packages = tuple(f"mcp_baton.{name}" for name in (*allowed, *SHARED))
    for item in imports_found:
        if is_within(item.name, ("mcp_baton",)) and not (
            is_within(item.name, allowed_packages) or item.name == "mcp_baton"
        ):
            yield f"{room} must not know {item.name}"


def shared_imports(module: str, imports_found: Sequence[Import]) -> Iterator[str]:
    """Check the shared modules, which are below all rooms. They may import types from above, but nothing else."""
    if module.removesuffix(".py") in SHARED:
        allowed_packages = tuple(f"mcp_baton.{name}" for name in (*SHARED, "protocol"))
        for item in imports_found:
            if item.name.startswith("mcp_baton.") and not (item.for_types or is_within(item.name, allowed_packages)):
                yield f"imports {item.name} from above"


def restricted_imports(module: str, imports_found: Sequence[Import]) -> Iterator[str]:
    """Yield imports that are only allowed in some modules."""
    uses_aws = matches(module, AWS_SDK_USERS)
    for item in imports_found:
        # Only the composition roots choose a store. All other modules receive one.
        if is_within(item.name, ("mcp_baton.tasks.dynamodb",)) and not (uses_aws or matches(module, STORED)):
            yield f"chooses its own store: {item.name}"
        if is_within(item.name, ("boto3", "botocore", "moto")) and not uses_aws:
            yield f"talks to AWS itself: {item.name}"
        if is_within(item.name, NETWORK) and matches(module, NETWORK_FREE) and not (uses_aws or item.name in HARMLESS):
            yield f"opens the network: {item.name}"
        if is_within(item.name, ("mcp_baton.testing",)) and not module.startswith(("cli/", "testing/")):
            yield f"imports what is for tests: {item.name}"
        if is_within(item.name, SLOW) and not (item.deferred or item.for_types or matches(module, NOT_DEPLOYED)):
            yield f"imports {item.name} while it is imported itself"


def environment(module: str, source: str) -> Iterator[str]:
    if matches(module, ENVIRONMENT_READERS) or not re.search("environ|getenv|putenv", source):
        return
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(value=ast.Name(id="os"), attr="environ" | "getenv" | "environb" | "putenv"):
                yield f"reads the environment: line {node.lineno}"
            case ast.ImportFrom(module="os") if {"environ", "getenv"} & {alias.name for alias in node.names}:
                yield f"reads the environment: line {node.lineno}"


def violations(module: str, source: str) -> list[str]:
    imports_found = imported(source)
    rules = (upward, shared_imports, restricted_imports)
    return [*(text for rule in rules for text in rule(module, imports_found)), *environment(module, source)]


def test_a_module_imports_only_lower_rooms() -> None:
    violations_by_module = {module: violations(module, source) for module, source in SOURCES.items()}

    assert {module: texts for module, texts in violations_by_module.items() if texts} == {}


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("protocol/json.py", "from mcp_baton.tasks.record import TaskRecord"),
        ("protocol/json.py", "from .. import tasks"),
        ("protocol/json.py", "import socket"),
        ("tasks/record.py", "import mcp_baton.workflow.run"),
        ("tasks/dynamodb/retries.py", "from botocore.exceptions import ClientError"),
        ("workflow/run.py", "def f():\n    from mcp_baton.server.app import Server"),
        ("workflow/run.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import mcp_baton.server.app"),
        ("workflow/run.py", "from mcp_baton.tasks.dynamodb.store import DynamoDbTaskStore"),
        ("tasks/dynamodb/outside.py", "def f():\n    import boto3"),
        ("server/app.py", "from pydantic import BaseModel"),
        ("open_telemetry.py", "from opentelemetry import trace"),
        ("server/app.py", "import os\n\ndef f():\n    return os.environ['A']"),
        ("server/app.py", "from os import getenv"),
        ("exceptions.py", "from mcp_baton.server.app import Server"),
        ("local/serve.py", "def f():\n    from mcp_baton.testing import connect"),
        ("misc.py", "pass"),
    ],
)
def test_a_broken_rule_is_found(module: str, source: str) -> None:
    assert violations(module, source)


def test_there_are_no_import_cycles() -> None:
    modules = {dotted(module) for module in SOURCES}
    graph = {
        dotted(module): {item.name for item in imported(source)} & modules - {dotted(module)}
        for module, source in SOURCES.items()
    }

    # Raises `CycleError`, which names the modules of a cycle.
    assert len(tuple(TopologicalSorter(graph).static_order())) == len(modules)


def dotted(module: str) -> str:
    return ".".join(("mcp_baton", *module.removesuffix(".py").split("/"))).removesuffix(".__init__")


IMPORT_AND_REPORT = """
import importlib, sys
sys.path.insert(0, sys.argv[1])
for module in sys.argv[2].split():
    importlib.import_module(module)
print(*(name for name in sys.argv[3].split() if name in sys.modules))
"""


def test_importing_the_runtime_imports_no_slow_modules() -> None:
    runtime = [dotted(module) for module in MODULES if not matches(module, NOT_DEPLOYED) and "__main__" not in module]
    command = [sys.executable, "-I", "-c", IMPORT_AND_REPORT, str(PACKAGE.parent), " ".join(runtime), " ".join(SLOW)]
    process = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)

    assert "mcp_baton" in runtime
    assert process.stdout.split() == []


PUBLIC_TWICE = {"Message"}
"""A message of a prompt, for authors and in the testing kit."""


def test_each_class_name_is_defined_once() -> None:
    names = [
        node.name
        for source in SOURCES.values()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef)
    ]

    assert {name for name in names if names.count(name) > 1} == PUBLIC_TWICE


def constants(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        match node:
            case ast.Assign(targets=targets):
                pass
            case ast.AnnAssign(target=target, value=ast.expr()):
                targets = [target]
            case _:
                continue
        names = (name for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))
        yield from (name.id for name in names if name.id.isupper() and not name.id.startswith("_"))


def test_each_public_constant_is_defined_once() -> None:
    defined = [(name, module) for module, source in SOURCES.items() for name in set(constants(ast.parse(source)))]
    names = [name for name, _ in defined]

    # A name says its subject and its unit, so two modules have no use for the same one. Import a shared one.
    assert "MAX_DEPTH" in names
    assert sorted(entry for entry in defined if names.count(entry[0]) > 1) == []


@pytest.mark.parametrize("source", ["A_S = 1", "A_S: Final = 1", "A_S, B = 1, 2", "A_S = B = 1"])
def test_constants_are_found_however_they_are_assigned(source: str) -> None:
    assert "A_S" in set(constants(ast.parse(source)))

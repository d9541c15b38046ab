"""Calls with dependencies: loaded modules and abandoned functions."""

import subprocess
import sys
from collections.abc import Callable

import pytest

from mcp_baton.tools.running import dependencies
from mcp_baton.tools.running.dependencies import FactoryTimeout, WaitMode, run_without_loop

SERVER_CODE = """
import sys
from typing import Annotated
from mcp_baton import Server
server = Server("shop")
"""
WITHOUT = """
server.tool(name="ask")(lambda: "value")
"""
WITH = """
from mcp_baton import Depends
from mcp_baton.tools.context import CallState
from mcp_baton.tools.running.dependencies import with_dependencies
def database():
    yield "value"
def ask(db: Annotated[str, Depends(database)]): return db
server.tool(ask)
tool = server.tools["ask"]
call = CallState(None, None, key=str, emit=print, asker=None, read=print)
assert with_dependencies(tool.function, tool.signature, call)() == "value"
"""
TELL = """
print(*sys.modules)
"""


def modules_loaded_by(code: str) -> set[str]:
    process = subprocess.run(
        [sys.executable, "-c", SERVER_CODE + code + TELL], capture_output=True, text=True, check=True
    )
    return set(process.stdout.split())


OWN = {"mcp_baton.tools.running.dependencies"}


@pytest.mark.parametrize(("code", "baton_modules"), [(WITHOUT, set()), (WITH, OWN)])
def test_dependencies_load_only_the_modules_that_they_need(code: str, baton_modules: set[str]) -> None:
    modules = modules_loaded_by(code)

    assert modules & OWN == baton_modules
    assert modules & {"asyncio", "concurrent.futures", "pydantic"} == set()


def test_a_function_abandoned_before_its_thread_starts_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs, events = list[Callable[[Callable[[], None]], None]](), list[str]()
    monkeypatch.setattr(dependencies, "run_in_thread", jobs.append)

    call = WaitMode(on_loop=False, limit_s=0.0).call(len, lambda: events.append("called"), lambda _: None)
    with pytest.raises(FactoryTimeout):
        run_without_loop(call)
    jobs[0](lambda: events.append("free"))

    assert events == ["free"]

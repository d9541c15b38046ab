"""What dependencies cost: nothing where there are none, and no event loop where nothing is asynchronous."""

import subprocess
import sys

import pytest

REGISTERED = """
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
from mcp_baton.protocol.envelope import Envelope, Era
from mcp_baton.server.asking.asker import CannotAsk
from mcp_baton.server.running.call import Call
from mcp_baton.server.running.dependencies import with_dependencies
def database():
    yield "value"
def ask(db: Annotated[str, Depends(database)]): return db
server.tool(ask)
tool = server.tools["ask"]
envelope = Envelope(Era.STATELESS, "2026-07-28", {}, {}, None, None)
call = Call("r-1", None, envelope, lambda: None, print, CannotAsk("nobody"))
assert with_dependencies(tool.function, tool.signature, call)() == "value"
"""
TELL = """
print(*sys.modules)
"""


def loaded(code: str) -> set[str]:
    told = subprocess.run([sys.executable, "-c", REGISTERED + code + TELL], capture_output=True, text=True, check=True)
    return set(told.stdout.split())


ROOM = "mcp_baton.server.running"
DECLARED = {"mcp_baton.server.schema.provider"}
MADE = {f"{ROOM}.{name}" for name in ("awaiting", "dependencies")}


@pytest.mark.parametrize(("code", "own"), [(WITHOUT, set()), (WITH, DECLARED | MADE)])
def test_dependencies_load_what_they_need_and_no_more(code: str, own: set[str]) -> None:
    modules = loaded(code)

    assert modules & (DECLARED | MADE) == own
    assert modules & {"asyncio", "concurrent.futures", "pydantic"} == set()

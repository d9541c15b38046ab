"""Generates the map in docs/life-of-a-request.md: `make request-map`.

It makes each request of the map twice and records the second one, when every module has been imported. A test compares
the page with the map.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Final

import mcp_baton
from mcp_baton import Argument, Server, Step, Workflow, prompt_arg, step_output
from mcp_baton.testing import Client, connect

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "life-of-a-request.md"
BEGIN: Final = "<!-- The map is generated: make request-map -->\n"
END: Final = "<!-- End of the map -->\n"

PACKAGE: Final = str(Path(mcp_baton.__file__).parent) + "/"
LEFT_OUT: Final = ("testing/", "local/", "cli/", "telemetry", "protocol/json.py")
"""Modules that are not deployed, and two that every other module calls."""

ENTRY: Final = "transport/adapter"


def shop() -> Server:
    """Create a server whose workflow pauses at its second step."""
    server = Server("shop")

    @server.tool
    def find(order: str) -> dict[str, str]:
        """Find an order."""
        return {"order": order}

    @server.tool
    def refund(order: str, amount: float) -> str:
        """Refund an order."""
        return f"{order}: {amount}"

    @server.tool(task="required")
    def report(order: str) -> str:
        """Report an order."""
        return order

    first = Step("find", tool=find, arguments={"order": prompt_arg("order")}, binding="found")
    second = Step("refund", tool=refund, arguments={"order": step_output("found", "order")})
    given = [Argument("order", required=True)]
    server.add_workflow(Workflow(name="refunds", description="refund an order", arguments=given, steps=[first, second]))
    return server


def a_run(client: Client) -> Callable[[], object]:
    """A run that pauses."""
    return lambda: client.get_prompt("refunds", {"order": "A-17"})


def a_continuation(client: Client) -> Callable[[], object]:
    """A continuation of a paused task."""
    task = client.get_prompt("refunds", {"order": "A-17"}).task_id
    return lambda: client.call_tool("refund", {"order": "A-17", "amount": 3.0}, task=task)


def a_call(client: Client) -> Callable[[], object]:
    """A call that becomes a task."""
    return lambda: client.start_task("report", {"order": "A-17"})


def a_job(client: Client) -> Callable[[], object]:
    """A worker that runs the call of a task."""
    client.start_task("report", {"order": "A-17"})
    return client.run_worker


SECTIONS: Final = {
    "A run: `prompts/get`": a_run,
    "A continuation: `tools/call` with the task's id": a_continuation,
    "A background task: `tools/call`": a_call,
    "A background task: the worker's event": a_job,
}


def modules_of(request: Callable[[Client], Callable[[], object]]) -> list[str]:
    """Return the deployed modules that a request enters, in this order."""
    for again in (False, True):
        with connect(shop(), workers="by hand") as client:
            make = request(client)
            entered = list[str]()
            with recording(entered):
                make()
        if again:
            break
    return entered


@contextmanager
def recording(entered: list[str]) -> Iterator[None]:
    """Record each module at its first call in this thread. The author's functions run in other threads."""

    def note(frame: FrameType, event: str, _argument: object) -> None:
        path = frame.f_code.co_filename
        if event != "call" or not path.startswith(PACKAGE) or frame.f_code.co_name == "<module>":
            return
        path = path.removeprefix(PACKAGE)
        module = path.removesuffix(".py").removesuffix("/__init__")
        if path.startswith(LEFT_OUT) or module in entered:
            return
        if entered or module == ENTRY:
            entered.append(module)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(before)


def the_map() -> str:
    seen = set[str]()
    return "\n".join(
        [BEGIN, *(line for title, request in SECTIONS.items() for line in _section(title, request, seen)), END]
    )


def _section(title: str, request: Callable[[Client], Callable[[], object]], seen: set[str]) -> Iterator[str]:
    """Yield a request's modules that are not `seen` in an earlier section, and add them to `seen`."""
    yield f"**{title}**\n"
    new = [module for module in modules_of(request) if module not in seen]
    seen.update(new)
    for number, (package, modules) in enumerate(groupby(new, _package), 1):
        names = ", ".join(f"`{module.rpartition('/')[2]}`" for module in modules)
        yield f"{number}. `{package}/`: {names}"
    yield ""


def _package(module: str) -> str:
    return module.rpartition("/")[0]


def page() -> str:
    head, _, rest = PAGE.read_text().partition(BEGIN)
    return head + the_map() + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(page())

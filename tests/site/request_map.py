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
EXCLUDED: Final = ("testing/", "local/", "cli/", "telemetry", "protocol/json.py")
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
    order = [Argument("order", required=True)]
    server.add_workflow(Workflow(name="refunds", description="refund an order", arguments=order, steps=[first, second]))
    return server


def requests(client: Client) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield each request of the map with its title."""
    order = {"order": "A-17"}
    yield "A run: `prompts/get`", lambda: client.get_prompt("refunds", order)
    task = client.get_prompt("refunds", order).task_id
    yield (
        "A continuation: `tools/call` with the task's id",
        lambda: client.call_tool("refund", {**order, "amount": 3.0}, task=task),
    )
    yield "A background task: `tools/call`", lambda: client.start_task("report", order)
    yield "A background task: the worker's event", client.run_worker


def modules() -> dict[str, list[str]]:
    """Return the deployed modules that each request enters, in this order."""
    for _ in range(2):
        modules_by_title = dict[str, list[str]]()
        with connect(shop(), workers="by hand") as client:
            for title, request in requests(client):
                with recording(modules_by_title.setdefault(title, [])):
                    request()
    return modules_by_title


@contextmanager
def recording(entered_modules: list[str]) -> Iterator[None]:
    """Record each module at its first call in this thread. The author's functions run in other threads."""

    def record_call(frame: FrameType, event: str, _argument: object) -> None:
        path = frame.f_code.co_filename
        if event != "call" or not path.startswith(PACKAGE) or frame.f_code.co_name == "<module>":
            return
        path = path.removeprefix(PACKAGE)
        module = path.removesuffix(".py").removesuffix("/__init__")
        if path.startswith(EXCLUDED) or module in entered_modules:
            return
        if entered_modules or module == ENTRY:
            entered_modules.append(module)

    previous_profile = sys.getprofile()
    sys.setprofile(record_call)
    try:
        yield
    finally:
        sys.setprofile(previous_profile)


def map_text() -> str:
    lines, earlier_modules = [BEGIN], set[str]()
    for title, entered_modules in modules().items():
        lines.append(f"**{title}**\n")
        # Only those that no earlier request enters.
        new_modules = [module.rpartition("/") for module in entered_modules if module not in earlier_modules]
        earlier_modules.update(entered_modules)
        for number, (package, names) in enumerate(groupby(new_modules, lambda parts: parts[0]), 1):
            lines.append(f"{number}. `{package}/`: {', '.join(f'`{name}`' for _, _, name in names)}")
        lines.append("")
    return "\n".join([*lines, END])


def page() -> str:
    head, _, rest = PAGE.read_text().partition(BEGIN)
    return head + map_text() + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(page())

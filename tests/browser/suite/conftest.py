"""The server, the browser, and checks of its pages. All tests share one process of each."""

import itertools
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.suite.wire import Wire
from tests.processes import chromium_path, missing
from tests.serving import served

ROOT = Path(__file__).parents[3]
HERE = Path(__file__).parents[1]
BATON = Path(os.environ.get("BATON_COMMAND", ROOT / ".venv/bin/baton"))
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
OWNER_HEADER = "X-Owner"
APPROVERS = {"payments": ["kim", "ada"]}
"""Ada is the requester of most calls, so she cannot approve them."""
WITHIN_MS = 60_000
PHONE = {"width": 360, "height": 740}
DESK = {"width": 1100, "height": 800}
PAGE_NUMBERS = itertools.count(1)
"""Numbers for a query in the page's address. A new address reloads the page in the same process, because a new
process would be slow.
"""

expect.set_options(timeout=WITHIN_MS)

WATCH = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`violation: ${event.violatedDirective} ${event.blockedURI}`));
"""


@dataclass(slots=True)
class Console:
    """The console in a browser page, and all errors in it."""

    page: Any
    wire: Wire
    address: str
    problems: list[str] = field(default_factory=list)

    def open(self, task_id: str | None = None) -> None:
        """Show the list, or a task."""
        self.page.goto(f"{self.address}?{next(PAGE_NUMBERS)}" + ("" if task_id is None else f"#{task_id}"))
        self.page.wait_for_selector("main[aria-busy='false'] " + (".steps, .facts" if task_id else ".tasks, .empty"))

    def open_approvals(self) -> None:
        """Show the list of approvals."""
        self.page.goto(f"{self.address}?{next(PAGE_NUMBERS)}#approvals")
        self.page.wait_for_selector("main[aria-busy='false'] " + ".card, .empty")

    def heading(self) -> str:
        text: str = self.page.locator("h1").inner_text()
        return text


@pytest.fixture(scope="session")
def chromium() -> Path:
    path = chromium_path()
    if path is None:
        missing("there is no Chromium; on Debian: apt-get install chromium-headless-shell")
    return path


@pytest.fixture(scope="session")
def browser(chromium: Path) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(chromium), args=FLAGS)
        yield browser
        browser.close()


def _command(*options: str) -> list[str]:
    approvers, path = json.dumps(APPROVERS), ROOT / "examples/sample"
    variables = (f"PYTHONPATH={path}", f"BATON_APPROVERS={approvers}", f"BATON_MAX_TTL_MS={40 * 86_400_000}")
    return ["env", *variables, str(BATON), "serve", str(HERE / "server.py"), "--port", "0", *options]


@pytest.fixture(scope="session")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    """A client of `baton serve`, which accepts every caller."""
    with served(_command(), tmp_path_factory.mktemp("serve") / "log") as url:
        yield Wire(url)


@pytest.fixture(scope="session")
def wire_of_ada(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    """A client of `baton serve --owner-header`, which identifies the caller. This one is Ada."""
    with served(_command("--owner-header", OWNER_HEADER), tmp_path_factory.mktemp("owners") / "log") as url:
        yield Wire(url, ((OWNER_HEADER, "ada"),))


def watch(page: Page, problems: list[str], *, origin: str) -> None:
    """Record what must not happen in a page: errors, violations of its policy, and requests to other origins."""
    page.set_default_timeout(WITHIN_MS)
    page.add_init_script(WATCH)
    page.on("pageerror", lambda error: problems.append(f"error: {error}"))
    page.on("console", lambda message: problems.append(message.text) if message.type in {"error", "warning"} else None)
    allowed = (origin, "about:", "data:")
    page.on("request", lambda request: None if request.url.startswith(allowed) else problems.append(request.url))


def open_console(browser: Browser, wire: Wire, **options: Any) -> Console:
    """Return a console in a new page."""
    origin = wire.url.removesuffix("/mcp")
    page = new_page(browser, **options)
    console = Console(page, wire, f"{origin}/console")
    watch(page, console.problems, origin=origin)
    return console


def new_page(browser: Browser, *, viewport: dict[str, int] | None = None) -> Page:
    """Open a new page. All pages share one context, because that is faster."""
    context = browser.contexts[0] if browser.contexts else browser.new_context(reduced_motion="reduce")
    page = context.new_page()
    page.set_viewport_size(viewport or DESK)
    return page


@pytest.fixture(scope="session")
def shared_console_of_kim(browser: Browser, wire_of_ada: Wire) -> Console:
    """The console of Kim, who decides approvals."""
    console = open_console(browser, Wire(wire_of_ada.url, ((OWNER_HEADER, "kim"),)))
    connect(console.page, "kim")
    return console


def connect(page: Page, owner: str) -> None:
    """Let a page send an owner's credential, as if it had been entered."""
    credential = json.dumps(json.dumps({"name": OWNER_HEADER, "value": owner}))
    page.add_init_script(f"sessionStorage.setItem('baton-credentials', {credential})")


@pytest.fixture(scope="session")
def shared_console(browser: Browser, wire: Wire) -> Console:
    """The console of most tests. Its page stays open, because that is faster."""
    return open_console(browser, wire)


@pytest.fixture
def console(shared_console: Console) -> Iterator[Console]:
    """The console, on a desktop screen in light mode. The test fails if the page had errors."""
    yield from _clean(shared_console)


@pytest.fixture
def console_of_kim(shared_console_of_kim: Console) -> Iterator[Console]:
    """The console of Kim, prepared and checked in the same way."""
    yield from _clean(shared_console_of_kim)


def _clean(console: Console) -> Iterator[Console]:
    # Chromium draws a page in the background once a second, and a click waits for two frames.
    console.page.bring_to_front()
    console.page.set_viewport_size(DESK)
    console.page.emulate_media(color_scheme="light")
    console.problems.clear()
    yield console
    assert console.problems == []

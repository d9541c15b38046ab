"""Makes the documentation's pictures of the console: `make screenshots`."""

import json
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.suite.conftest import BATON, FLAGS, OWNER_HEADER, ROOT, connect
from tests.browser.suite.wire import Wire
from tests.processes import chromium_path
from tests.serving import served

SIZE = {"width": 960, "height": 760}
LIST_HEIGHT = 560
WITHIN_MS = 60_000
SAMPLE = ROOT / "examples/sample/app.py"
APPROVER = "supervisor"


def main(folder: Path) -> int:
    """Make the pictures. Return the exit code."""
    browser_path = chromium_path()
    if browser_path is None:
        sys.stderr.write("there is no Chromium; on Debian: apt-get install chromium-headless-shell\n")
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as logs,
        served([BATON, "serve", SAMPLE, "--port", "0"], Path(logs) / "log") as url,
        sync_playwright() as playwright,
    ):
        wire = Wire(url)
        wire.begin("refund_order", order_id="A-18")
        background_task = wire.in_background("extract_sales", month="2026-09")
        wire.call("refund_order", task_id=wire.begin("refund_order", order_id="A-17"), task_action="cancel")
        wire.begin("monthly_report", month="2026-09")
        task = wire.begin("refund_order", order_id="A-17", amount=300)
        browser = playwright.chromium.launch(executable_path=str(browser_path), args=FLAGS)
        page = new_page(browser)
        console = url.removesuffix("/mcp") + "/console"
        page.goto(console)
        page.locator(f"[href='#{background_task}'] .is-completed").wait_for()
        page.screenshot(path=folder / "console-list.png", clip={"x": 0, "y": 0, "width": 960, "height": LIST_HEIGHT})
        page.goto(f"{console}#{task}")
        page.get_by_text("Result").first.click()
        page.mouse.move(0, 0)
        page.screenshot(path=folder / "console-board.png", full_page=True)
        show_approval(new_page(browser), folder, Path(logs) / "approvals")
        browser.close()
    return 0


def new_page(browser: Browser) -> Page:
    page = browser.new_page(viewport=SIZE, reduced_motion="reduce", color_scheme="light")
    page.set_default_timeout(WITHIN_MS)
    return page


def show_approval(page: Page, folder: Path, log: Path) -> None:
    """Make the picture of a refund that waits for a supervisor."""
    approvers = f"BATON_APPROVERS={json.dumps({'refunds': [APPROVER]})}"
    with served(["env", approvers, BATON, "serve", SAMPLE, "--port", "0", "--owner-header", OWNER_HEADER], log) as url:
        Wire(url, ((OWNER_HEADER, "kim"),)).begin("refund_order", order_id="A-17")
        connect(page, APPROVER)
        page.goto(url.removesuffix("/mcp") + "/console#approvals")
        box = page.locator("section.card").bounding_box() or {"y": 0, "height": LIST_HEIGHT}
        height = box["y"] + box["height"] + 24
        page.screenshot(
            path=folder / "console-approval.png", clip={"x": 0, "y": 0, "width": SIZE["width"], "height": height}
        )


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))

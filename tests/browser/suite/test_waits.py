"""Tasks that wait for a callback or a time: what the page shows, and when its user can continue (docs/waiting.md)."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.suite.conftest import Console, open_console
from tests.browser.suite.wire import Wire

ZONE = "Asia/Kolkata"
CONTINUE = "Let the server continue"


@pytest.fixture
def console_abroad(browser: Browser, wire: Wire) -> Any:
    """The console of a viewer in another time zone."""
    console = open_console(browser, wire)
    console.page.context.new_cdp_session(console.page).send("Emulation.setTimezoneOverride", {"timezoneId": ZONE})
    yield console
    assert console.problems == []
    console.page.close()


def wait_end(wire: Wire, workflow: str, task: str) -> datetime:
    return datetime.fromisoformat(wire.board(workflow, task)["pause"]["until"]).astimezone(ZoneInfo(ZONE))


def send_build(wire: Wire, branch: str) -> None:
    address = wire.call("build_address", branch=branch)["structuredContent"]["result"]
    wire.api(f"callbacks/{address.rpartition('/')[2]}", {"image": "shop:7"})


def row(console: Console, task: str) -> Any:
    return console.page.locator(f"[href='#{task}'] .says")


def test_a_wait_is_shown_in_the_viewers_time_zone_without_a_button(console_abroad: Console) -> None:
    task, page = console_abroad.wire.begin("release", branch="shown"), console_abroad.page
    status_text = f"waits for a callback until {wait_end(console_abroad.wire, 'release', task):%A %H:%M}"
    console_abroad.open(task)
    expect(page.get_by_role("heading", name=f"Paused at build: {status_text}", exact=True)).to_be_visible()
    expect(page.locator(".state")).to_have_text(f"Paused: {status_text}")
    expect(page.locator(".why .note")).to_have_text(
        "Nothing needs to be done until it arrives. After that, the server can continue."
    )
    expect(page.get_by_role("button", name=CONTINUE)).to_have_count(0)
    page.get_by_text("Make this call by hand").click()
    expect(page.get_by_role("button", name="Call look_up")).to_be_visible()
    expect(page.get_by_label("Then let the server continue")).to_have_count(0)
    console_abroad.wire.begin("book_room")  # which needs a person
    console_abroad.open()
    expect(row(console_abroad, task)).to_have_text(f", Paused at build: {status_text}")
    for group, rows in (("In progress", 1), ("Needs somebody", 0)):
        page.get_by_role("group", name="Show tasks by status").get_by_role("button", name=group).click()
        expect(row(console_abroad, task)).to_have_count(rows)


def test_a_time_after_this_week_has_a_date(console_abroad: Console) -> None:
    wake_time = datetime.now(UTC) + timedelta(days=20)
    task = console_abroad.wire.begin("remind", at=wake_time.isoformat())
    local = wake_time.astimezone(ZoneInfo(ZONE))
    console_abroad.open(task)
    expect(console_abroad.page.locator(".state")).to_have_text(f"Paused: waits until {local.day} {local:%B %Y %H:%M}")


def test_after_the_callback_the_user_can_continue_the_workflow(console: Console) -> None:
    task, page = console.wire.begin("release", branch="arrived"), console.page
    console.open(task)
    expect(page.get_by_role("button", name=CONTINUE)).to_have_count(0)
    send_build(console.wire, "arrived")
    console.open()
    expect(row(console, task)).to_have_text(", Paused at deploy: its wait is over")
    console.open(task)
    expect(page.get_by_role("heading", name="Paused: its wait is over")).to_be_visible()
    page.locator(".steps > li").nth(1).get_by_text("Result").click()
    expect(page.get_by_role("group", name="Result").first).to_have_text('{ "image": "shop:7" }')
    page.get_by_role("button", name=CONTINUE).click()
    expect(page.locator(".state")).to_have_text("Completed")


def test_an_open_page_notices_the_callback_within_15_minutes(console_abroad: Console) -> None:
    page = console_abroad.page
    # The clock stands still between the steps, however long they take.
    page.clock.install(time=0)
    page.clock.pause_at(1)
    console_abroad.open(console_abroad.wire.begin("release", branch="open"))
    expect(page.locator(".state")).to_contain_text("waits for a callback")
    send_build(console_abroad.wire, "open")
    page.clock.fast_forward("14:59")
    expect(page.get_by_role("button", name=CONTINUE)).to_have_count(0)
    page.clock.fast_forward("00:02")
    expect(page.get_by_role("button", name=CONTINUE)).to_be_visible()

"""Tasks that wait for a callback or a time: what the page shows, and when its user can continue (docs/waiting.md)."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.suite.conftest import Console, opened
from tests.browser.suite.wire import Wire

ZONE = "Asia/Kolkata"
GO_ON = "Let the server continue"


@pytest.fixture
def abroad(browser: Browser, wire: Wire) -> Any:
    """The console of a viewer in another time zone."""
    console = opened(browser, wire)
    console.page.context.new_cdp_session(console.page).send("Emulation.setTimezoneOverride", {"timezoneId": ZONE})
    yield console
    assert console.wrong == []
    console.page.close()


def until(wire: Wire, workflow: str, task: str) -> datetime:
    return datetime.fromisoformat(wire.board(workflow, task)["pause"]["until"]).astimezone(ZoneInfo(ZONE))


def send_build(wire: Wire, branch: str) -> None:
    address = wire.call("build_address", branch=branch)["structuredContent"]["result"]
    wire.api(f"callbacks/{address.rpartition('/')[2]}", {"image": "shop:7"})


def row(console: Console, task: str) -> Any:
    return console.page.locator(f"[href='#{task}'] .says")


def test_a_wait_is_shown_in_the_viewers_time_zone_without_a_button(abroad: Console) -> None:
    task, page = abroad.wire.begin("release", branch="shown"), abroad.page
    says = f"waits for a callback until {until(abroad.wire, 'release', task):%A %H:%M}"
    abroad.open(task)
    expect(page.get_by_role("heading", name=f"Paused at build: {says}", exact=True)).to_be_visible()
    expect(page.locator(".state")).to_have_text(f"Paused: {says}")
    expect(page.locator(".why .note")).to_have_text(
        "Nothing needs to be done until it arrives. After that, the server can continue."
    )
    expect(page.get_by_role("button", name=GO_ON)).to_have_count(0)
    page.get_by_text("Make this call by hand").click()
    expect(page.get_by_role("button", name="Call look_up")).to_be_visible()
    expect(page.get_by_label("Then let the server continue")).to_have_count(0)
    abroad.wire.begin("book_room")  # which needs a person
    abroad.open()
    expect(row(abroad, task)).to_have_text(f", Paused at build: {says}")
    for group, rows in (("In progress", 1), ("Needs somebody", 0)):
        page.get_by_role("group", name="Show tasks by status").get_by_role("button", name=group).click()
        expect(row(abroad, task)).to_have_count(rows)


def test_a_time_after_this_week_has_a_date(abroad: Console) -> None:
    at = datetime.now(UTC) + timedelta(days=20)
    task = abroad.wire.begin("remind", at=at.isoformat())
    local = at.astimezone(ZoneInfo(ZONE))
    abroad.open(task)
    expect(abroad.page.locator(".state")).to_have_text(f"Paused: waits until {local.day} {local:%B %Y %H:%M}")


def test_after_the_callback_the_user_can_continue_the_workflow(console: Console) -> None:
    task, page = console.wire.begin("release", branch="arrived"), console.page
    console.open(task)
    expect(page.get_by_role("button", name=GO_ON)).to_have_count(0)
    send_build(console.wire, "arrived")
    console.open()
    expect(row(console, task)).to_have_text(", Paused at deploy: its wait is over")
    console.open(task)
    expect(page.get_by_role("heading", name="Paused: its wait is over")).to_be_visible()
    page.locator(".steps > li").nth(1).get_by_text("Result").click()
    expect(page.get_by_role("group", name="Result").first).to_have_text('{"image": "shop:7"}')
    page.get_by_role("button", name=GO_ON).click()
    expect(page.locator(".state")).to_have_text("Completed")


def test_an_open_page_notices_the_callback_within_15_minutes(abroad: Console) -> None:
    page = abroad.page
    page.clock.install()
    abroad.open(abroad.wire.begin("release", branch="open"))
    expect(page.locator(".state")).to_contain_text("waits for a callback")
    send_build(abroad.wire, "open")
    page.clock.fast_forward("14:59")
    expect(page.get_by_role("button", name=GO_ON)).to_have_count(0)
    page.clock.fast_forward("00:02")
    expect(page.get_by_role("button", name=GO_ON)).to_be_visible()

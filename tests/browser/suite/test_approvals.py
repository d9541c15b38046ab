"""The console's list of approvals: what a person sees of a call, and the decision about it."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.browser.suite.conftest import OWNER_HEADER, Console, connect, open_console
from tests.browser.suite.wire import JsonDict, Wire

HOSTILE = '<img src=x onerror="document.title=1"></script><script>document.title=2</script>'
DISGUISE = "\u202e\u200b\u2028"
"""Characters that reverse, hide or break a text."""
ESCAPED = r"\u202e\u200b\u2028"
LINK_PAGE = Path(__file__).parents[3] / "layers/baton/mcp_baton/approvals/approve.html"


@pytest.fixture
def approval(wire_of_ada: Wire, console_of_kim: Console, request: pytest.FixtureRequest) -> JsonDict:
    """An approval for a new call of Ada."""
    wire_of_ada.call("pay_out", amount=5, to=payee(request))
    return approval_of(console_of_kim.wire, payee(request))


def payee(request: pytest.FixtureRequest) -> str:
    name: str = request.node.name
    return name


def approval_of(wire: Wire, to: str) -> JsonDict:
    return next(approval for approval in wire.api("approvals")["approvals"] if approval["arguments"]["to"] == to)


def card(console: Console, approval: JsonDict) -> Any:
    heading = console.page.get_by_role("heading", name=approval["message"])
    return console.page.locator("section.card").filter(has=heading)


def current_record(console: Console, approval: JsonDict) -> JsonDict:
    return console.wire.api(f"approvals/{approval['approvalId']}")


def ignore_status(console: Console, status: int) -> None:
    """Ignore the browser's message about a rejection by the server."""
    console.problems[:] = [problem for problem in console.problems if f"status of {status}" not in problem]


def test_a_card_shows_the_call_its_requester_and_its_times(console_of_kim: Console, approval: JsonDict) -> None:
    console_of_kim.open_approvals()
    approval_card = card(console_of_kim, approval)
    expect(approval_card.get_by_role("heading", name="Call:")).to_have_text("Call: pay_out")
    expect(approval_card.get_by_role("group", name="Arguments")).to_have_text(
        f'{{ "amount": 5, "to": "{approval["arguments"]["to"]}" }}'
    )
    names, texts = (approval_card.locator(tag).all_text_contents() for tag in ("dt", "dd"))
    facts = dict(zip(names, texts, strict=True))
    assert facts == {
        "Requested by": "ada",
        "Requested": "just now",
        "Expires": "in 23 hours",
        "Group": "payments",
    }
    times = [approval_card.locator("time").nth(index).get_attribute("datetime") for index in range(2)]
    assert times == [approval["askedAt"], approval["expiresAt"]]


def test_an_approved_call_can_run_and_leaves_the_list(
    console_of_kim: Console, approval: JsonDict, wire_of_ada: Wire
) -> None:
    page = console_of_kim.page
    console_of_kim.open_approvals()
    card(console_of_kim, approval).get_by_role("button", name="Approve…").click()
    assert current_record(console_of_kim, approval)["state"] == "waiting"
    page.get_by_role("button", name="Approve this call").click()
    expect(page.locator(".notice")).to_contain_text(f"Approved: {approval['message']}")
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    expect(card(console_of_kim, approval)).to_have_count(0)
    record = current_record(console_of_kim, approval)
    assert (record["state"], record["decidedBy"], record["claimedClient"]) == ("approved", "kim", "page")
    assert "reason" not in record
    assert "isError" not in wire_of_ada.call("pay_out", **approval["arguments"])


def test_a_call_is_denied_with_a_reason(console_of_kim: Console, approval: JsonDict) -> None:
    page = console_of_kim.page
    console_of_kim.open_approvals()
    card(console_of_kim, approval).get_by_role("button", name="Deny…").click()
    expect(page.get_by_role("heading", name="Deny this call?")).to_be_focused()
    expect(page.get_by_role("textbox", name="Reason")).to_have_attribute("maxlength", "500")
    page.get_by_role("textbox", name="Reason").fill("Never paid")
    page.get_by_role("button", name="Deny this call").click()
    expect(page.locator(".notice")).to_contain_text(f"Denied: {approval['message']}")
    record = current_record(console_of_kim, approval)
    assert (record["state"], record["reason"]) == ("denied", "Never paid")


def test_the_header_shows_the_number_of_waiting_approvals_in_each_view(
    console_of_kim: Console, approval: JsonDict, wire_of_ada: Wire
) -> None:
    page, waiting_approvals = console_of_kim.page, console_of_kim.wire.api("approvals")["approvals"]
    approvals_link = page.get_by_role("navigation", name="Lists").get_by_role("link", name="Approvals")
    console_of_kim.open()
    expect(approvals_link).to_have_text(f"Approvals{len(waiting_approvals)} waiting")
    wire_of_ada.call("pay_out", amount=6, to=approval["arguments"]["to"])
    page.get_by_role("button", name="Refresh").click()
    expect(approvals_link).to_have_text(f"Approvals{len(waiting_approvals) + 1} waiting")
    approvals_link.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Approvals")
    expect(card(console_of_kim, approval)).to_be_visible()
    expect(approvals_link).to_have_attribute("aria-current", "page")
    page.get_by_role("link", name="Tasks").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Tasks")


def test_a_new_approval_appears_but_not_while_one_is_decided(
    console_of_kim: Console, approval: JsonDict, wire_of_ada: Wire
) -> None:
    page = console_of_kim.page
    console_of_kim.open_approvals()
    card(console_of_kim, approval).get_by_role("button", name="Approve…").click()
    page.get_by_role("textbox", name="Reason").fill("Half a sen")
    new_approval = {**approval, "message": approval["message"].replace("5.0", "7.0")}
    wire_of_ada.call("pay_out", amount=7, to=approval["arguments"]["to"])
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    page.wait_for_timeout(1_500)
    expect(card(console_of_kim, new_approval)).to_have_count(0)
    expect(page.get_by_role("textbox", name="Reason")).to_have_value("Half a sen")
    page.keyboard.press("Escape")
    expect(card(console_of_kim, approval).get_by_role("button", name="Approve…")).to_be_focused()
    expect(card(console_of_kim, new_approval)).to_be_visible()
    assert current_record(console_of_kim, approval)["state"] == "waiting"


def test_an_approval_decided_elsewhere_says_so_and_leaves_the_list(console_of_kim: Console, approval: JsonDict) -> None:
    page = console_of_kim.page
    console_of_kim.open_approvals()
    card(console_of_kim, approval).get_by_role("button", name="Approve…").click()
    console_of_kim.wire.api(
        f"approvals/{approval['approvalId']}", {"decision": "deny", "digest": approval["digest"], "reason": "no"}
    )
    page.get_by_role("button", name="Approve this call").click()
    expect(page.locator(".notice.bad")).to_contain_text(f"{approval['message']} It is denied already.")
    expect(card(console_of_kim, approval)).to_have_count(0)
    ignore_status(console_of_kim, 409)


def test_the_requester_is_told_that_another_person_must_decide(
    browser: Browser, wire_of_ada: Wire, approval: JsonDict
) -> None:
    console = open_console(browser, wire_of_ada)
    connect(console.page, "ada")
    console.open_approvals()
    card(console, approval).get_by_role("button", name="Approve…").click()
    console.page.get_by_role("button", name="Approve this call").click()
    expect(console.page.get_by_role("alert").filter(has_text="another person has to")).to_have_text(
        "The requester cannot decide an approval: another person has to."
    )
    expect(card(console, approval)).to_be_visible()
    ignore_status(console, 403)
    assert console.problems == []
    assert current_record(console, approval)["state"] == "waiting"
    console.page.close()


def test_texts_are_not_markup_and_cannot_disguise_a_call(console_of_kim: Console, wire_of_ada: Wire) -> None:
    wire_of_ada.call("pay_out", amount=1, to=HOSTILE + DISGUISE)
    console_of_kim.open_approvals()
    arguments = console_of_kim.page.get_by_role("group", name="Arguments").filter(has_text="onerror").first
    expect(arguments).to_contain_text(HOSTILE.replace('"', '\\"') + ESCAPED.replace("\\", "\\\\"))
    expect(console_of_kim.page.locator("main img, main script")).to_have_count(0)
    expect(console_of_kim.page).to_have_title("Approvals · Example shop")
    text = console_of_kim.page.locator("body").text_content() or ""
    assert [character for character in DISGUISE if character in text] == []


def test_texts_cannot_disguise_a_call_on_the_page_of_a_link(browser: Browser) -> None:
    texts = {name: f"{name} {HOSTILE}{DISGUISE}" for name in ("message", "tool", "owner", "workflow")}
    times = dict.fromkeys(("askedAt", "expiresAt"), "2026-11-27T22:28:54.579Z")
    arguments = {"to": DISGUISE, "amount": 5, "iban": 2**70, "rate": 0.1 + 0.2}
    record = {**texts, **times, "digest": "d", "arguments": arguments}

    def reply(route: Route) -> None:
        if "json" in route.request.headers["accept"]:
            route.fulfill(json=record)
        else:
            route.fulfill(body=LINK_PAGE.read_text(), content_type="text/html")

    page = browser.new_page()
    page.route("**/approve/token", reply)
    page.goto("http://localhost/approve/token")
    expect(page.get_by_role("button", name="Approve")).to_be_visible()
    text = page.locator("body").inner_text()
    assert [character for character in DISGUISE if character in text] == []
    assert (text.count(ESCAPED), '"amount": 5,' in text) == (5, True)
    assert f'"iban": "{2**70}"' in text
    assert '"rate": 0.30000000000000004' in text
    expect(page.locator("main img, main script")).to_have_count(0)
    page.close()


def test_the_next_user_of_the_tab_does_not_see_the_approvals_of_the_previous_user(
    browser: Browser, wire_of_ada: Wire, approval: JsonDict
) -> None:
    console = open_console(browser, wire_of_ada)
    page = console.page
    page.goto(console.address)

    def enter(owner: str) -> None:
        page.get_by_label("Connect with").select_option("Another header")
        page.get_by_label("Key, token or value").fill(owner)
        page.get_by_label("Name of the other header").fill(OWNER_HEADER)
        page.keyboard.press("Enter")

    enter("kim")
    page.get_by_role("link", name="Approvals").click()
    expect(card(console, approval)).to_be_visible()
    page.route("**/approvals?*", lambda _: None)  # there is no response
    page.get_by_role("button", name="Disconnect").click()
    enter("lee")
    expect(page.get_by_role("status").filter(has_text="Loading…")).to_be_visible()
    expect(page.get_by_role("link", name="Approvals")).to_have_text("Approvals")
    expect(card(console, approval)).to_have_count(0)
    page.close()


def test_without_approvals_the_list_says_so(console: Console) -> None:
    console.open_approvals()
    expect(console.page.get_by_role("heading", name="No call waits for you")).to_be_visible()
    expect(console.page.get_by_role("link", name="Approvals")).to_have_text("Approvals")


def test_a_paused_task_waits_for_a_person_and_continues_after_the_approval(
    browser: Browser, wire_of_ada: Wire, console_of_kim: Console
) -> None:
    console, page = open_paused_task(browser, wire_of_ada, "Robin")
    expect(page.locator(".state").first).to_have_text("Paused: waits for a person")
    expect(page.get_by_role("heading", name="Paused at pay_out: waits for an approval of payments")).to_be_visible()
    texts = page.locator(".why .note").all_text_contents()
    assert (len(texts), texts[0]) == (2, "Pay 5.0 EUR to Robin?")
    assert texts[1].startswith("A person of the group payments can decide this until ")
    continue_button = page.get_by_role("button", name="Let the server continue")
    continue_button.click()
    expect(page.locator(".notice")).to_contain_text(
        "This call waits for an approval of payments: Pay 5.0 EUR to Robin?Dismiss"
    )
    decide(console_of_kim.wire, "Robin", "approve")
    continue_button.click()
    expect(page.locator(".state").first).to_have_text("Completed")
    assert console.problems == []
    page.close()


def test_a_denied_task_shows_the_reason_and_stops(browser: Browser, wire_of_ada: Wire, console_of_kim: Console) -> None:
    console, page = open_paused_task(browser, wire_of_ada, "Sasha")
    decide(console_of_kim.wire, "Sasha", "deny", reason="Unknown payee")
    page.get_by_role("button", name="Let the server continue").click()
    expect(page.locator(".state").first).to_have_text("Paused: denied")
    expect(page.locator(".notice.bad")).to_contain_text(
        "This call was denied by payments: Pay 5.0 EUR to Sasha?Dismiss"
    )
    expect(page.get_by_role("heading", name="Paused at pay_out: denied by payments")).to_be_visible()
    assert page.locator(".why .note").all_text_contents() == [
        "Pay 5.0 EUR to Sasha?",
        'The reason: "Unknown payee"',
        "The server does not make this call again. Cancel the task, or complete it if the work is done elsewhere.",
    ]
    expect(page.get_by_role("button", name="Let the server continue")).to_have_count(0)
    expect(page.get_by_role("button", name="Cancel…")).to_be_visible()
    assert console.problems == []
    page.close()


def test_a_call_that_needs_an_approval_says_so(browser: Browser, wire_of_ada: Wire, console_of_kim: Console) -> None:
    console, page = open_paused_task(browser, wire_of_ada, "Toni")
    page.get_by_text("Make this call by hand").click()
    page.locator(".steps form").get_by_label("amount").fill("9")
    page.get_by_role("button", name="Call pay_out").click()
    expect(page.get_by_role("alert").filter(has_text="Pay 9.0 EUR")).to_have_text(
        "This call waits for an approval of payments: Pay 9.0 EUR to Toni?"
    )
    assert console.problems == []
    page.close()


def open_paused_task(browser: Browser, wire: Wire, to: str) -> tuple[Console, Any]:
    """Return Ada's task, which waits for an approval, in a new console."""
    console = open_console(browser, wire)
    connect(console.page, "ada")
    console.open(wire.begin("settle", amount=5, to=to))
    return console, console.page


def decide(wire: Wire, to: str, decision: str, **members: Any) -> None:
    approval = approval_of(wire, to)
    wire.api(f"approvals/{approval['approvalId']}", {"decision": decision, "digest": approval["digest"], **members})

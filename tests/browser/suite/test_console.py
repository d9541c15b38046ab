"""The console with a real server: the list, a task, and all actions of a person."""

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.suite.conftest import OWNER_HEADER, Console, open_console
from tests.browser.suite.wire import Wire

PIN = "4711-not-to-be-seen"
HOSTILE = '<img src=x onerror="document.title=1"></script><script>document.title=2</script>"\'`${1}'


def field(page: Any, name: str) -> Any:
    return page.locator("form").get_by_label(name)


def test_the_list_has_the_tasks_newest_first_and_filters_them_by_status(console: Console) -> None:
    completed = console.wire.begin("refund_order", order_id="A-18")
    paused = console.wire.begin("refund_order", order_id="A-17", amount=300)
    console.open()
    rows = console.page.locator(".task")
    expect(rows.nth(0)).to_have_attribute("href", f"#{paused}")
    expect(rows.nth(0)).to_contain_text("Paused at refund: the step failed")
    expect(rows.nth(1)).to_have_attribute("href", f"#{completed}")
    console.page.get_by_role("button", name="Completed").click()
    expect(console.page.locator(f"[href='#{completed}']")).to_be_visible()
    expect(console.page.locator(f"[href='#{paused}']")).to_have_count(0)
    expect(console.page.get_by_role("button", name="Completed")).to_have_attribute("aria-pressed", "true")


def test_refreshing_shows_new_tasks(console: Console) -> None:
    console.open()
    new_task = console.wire.begin("book_room")
    console.page.get_by_role("button", name="Refresh").click()
    expect(console.page.locator(f"[href='#{new_task}']")).to_be_visible()


def test_a_board_shows_steps_arguments_results_and_the_pause_reason(console: Console) -> None:
    task = console.wire.begin("refund_order", order_id="A-17", amount=300)
    console.open(task)
    page = console.page
    expect(page.get_by_role("heading", level=1)).to_have_text("refund_order")
    expect(page.get_by_role("heading", name="Paused at refund: the step failed")).to_be_visible()
    expect(page.locator(".quote").first).to_contain_text("EUR 300.00 cannot be refunded")
    steps = page.locator(".steps > li")
    assert steps.locator("h3").all_text_contents() == [
        "fetch, completed",
        "policy, completed",
        "refund, failed",
        "notify, not started",
    ]
    steps.nth(0).get_by_text("Result").click()
    result_text = steps.nth(0).get_by_role("group", name="Result").inner_text()
    assert json.loads(result_text) == {
        "order_id": "A-17",
        "email": "kim@example.com",
        "item": "Noise-cancelling headphones",
        "category": "electronics",
        "total": 240,
    }
    expect(page.get_by_text("2 of 4 steps done")).to_be_visible()
    advice = "Correct the cause or the values first: the same call would fail."
    assert page.locator(".why .note").all_text_contents() == [advice]


def test_each_parallel_step_that_has_stopped_is_paused(console: Console) -> None:
    console.open(console.wire.begin("pack_and_rest"))
    steps = console.page.locator(".steps h3").all_text_contents()
    assert steps == ["rest, paused", "article, paused", "pack, not started"]


def test_the_progress_of_a_list_is_shown_beside_its_step(console: Console) -> None:
    console.open(console.wire.begin("pack_all"))
    expect(console.page.locator(".steps > li").first).to_contain_text("2 of 3 elements")


def test_missing_values_are_filled_in_and_the_server_continues(console: Console) -> None:
    task = console.wire.begin("report_by_step", month="2026-09")
    console.open(task)
    page = console.page
    call = page.get_by_role("button", name="Call publish_report")
    call.click()
    expect(field(page, "summary")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_text("Fill this in.")).to_be_visible()
    assert console.wire.board("report_by_step", task)["task"]["status"] == "working"
    field(page, "summary").fill("A good month.\nMosses sold best.")
    call.click()
    expect(page.locator(".state").first).to_have_text("Completed")
    board = console.wire.board("report_by_step", task)
    results = {step["name"]: step.get("result") for step in board["steps"]}
    assert results["publish"]["text"].startswith("A good month.\nMosses sold best.")


def test_a_call_can_be_made_without_continuing_the_workflow(console: Console) -> None:
    task = console.wire.begin("refund_order", order_id="A-17", amount=300)
    console.open(task)
    page = console.page
    field(page, "amount").fill("100")
    field(page, "Then let the server continue").uncheck()
    page.get_by_role("button", name="Call issue_refund").click()
    expect(page.locator(".notice")).to_contain_text("Recorded as step 'refund' (3 of 4 done).")
    expect(page.get_by_text("3 of 4 steps done")).to_be_visible()
    page.get_by_role("button", name="Let the server continue").click()
    expect(page.locator(".state").first).to_have_text("Completed")
    assert console.wire.board("refund_order", task)["task"]["status"] == "completed"


def test_the_tools_error_is_shown_at_the_form_and_typed_text_stays(console: Console) -> None:
    console.open(console.wire.begin("refund_order", order_id="A-17", amount=300))
    page = console.page
    field(page, "amount").fill("500.5")
    page.get_by_role("button", name="Call issue_refund").click()
    expect(page.get_by_role("alert").filter(has_text="cannot be refunded")).to_be_visible()
    expect(field(page, "amount")).to_have_value("500.5")


def test_open_questions_are_a_form_and_an_error_is_shown_at_its_field(console: Console) -> None:
    task = console.wire.begin("borrow", title="Walden")
    console.open(task)
    page = console.page
    continue_button = page.get_by_role("button", name="Let the server continue")
    continue_button.click()
    expect(page.get_by_text("Fill this in.")).to_have_count(3)
    field(page, "Who borrows Walden?").fill("Kim")
    field(page, "For how many days?").fill("9")
    field(page, "From which shelf?").select_option("B")
    field(page, "Is it insured?").select_option("Yes")
    field(page, "What did the reader say?").fill('["soon back"]')
    continue_button.click()
    expect(page.locator(".field", has_text="For how many days?").locator(".error")).to_contain_text("at most a week")
    expect(field(page, "For how many days?")).to_be_focused()
    expect(field(page, "Who borrows Walden?")).to_have_value("Kim")
    field(page, "For how many days?").fill("7")
    continue_button.click()
    expect(page.locator(".state").first).to_have_text("Completed")
    [result] = [step["result"] for step in console.wire.board("borrow", task)["steps"] if step.get("tool") == "lend"]
    assert result == "Kim has Walden from shelf B for 7 days; insured=True, notes=['soon back']"


def test_a_secret_is_requested_again_and_not_stored(console: Console) -> None:
    task = console.wire.begin("payout", pin=PIN)
    console.open(task)
    page = console.page
    pay = page.locator("form").filter(has=page.get_by_role("button", name="Call pay"))
    expect(pay.get_by_label("pin")).to_have_attribute("type", "password")
    pay.get_by_label("pin").fill(PIN)
    pay.get_by_label("amount").fill("3")
    page.get_by_role("button", name="Call pay").click()
    expect(page.get_by_text("1 of 3 steps done")).to_be_visible()

    secret = field(page, "pin")
    expect(page.locator("form").get_by_label("note")).to_have_count(0)
    expect(secret).to_have_attribute("type", "password")
    expect(secret).to_have_value("")
    continue_button = page.get_by_role("button", name="Let the server continue")
    continue_button.click()
    expect(page.get_by_text("Fill this in.")).to_be_visible()
    secret.fill("another")
    continue_button.click()
    expect(page.get_by_role("heading", name="Paused at sign: the step failed")).to_be_visible()
    expect(page.locator(".quote").first).to_have_text("<secret pin> is not the PIN")

    retry_button = page.get_by_role("button", name="Let the server try again without changes")
    secret = page.locator("form").filter(has=retry_button).get_by_label("pin")
    expect(secret).to_have_value("")
    secret.fill(PIN)
    retry_button.click()
    expect(page.locator(".state").first).to_have_text("Completed")
    assert [step["result"] for step in console.wire.board("payout", task)["steps"]] == ["3 paid", 0, "signed"]
    assert page.url.endswith(f"#{task}")
    stored_text = page.evaluate("JSON.stringify([sessionStorage, localStorage, history.state, document.cookie])")
    page_text = page.content() + str([box.input_value() for box in page.locator("input, textarea").all()])
    assert PIN not in stored_text + page_text


def fill_in(page: Any) -> None:
    field(page, "guest").fill("Kim")
    field(page, "nights").fill("3")
    field(page, "price").fill("19.90")
    field(page, "breakfast").select_option("No")
    field(page, "room").select_option("double")
    field(page, "arrival").fill("2026-12-24")
    field(page, "sauna").check()
    field(page, "parking").check()
    field(page, "address").fill('{"street": "Main Street 1", "city": "Ulm"}')


def test_a_form_has_every_kind_of_field_and_sends_values_of_the_schemas_types(console: Console) -> None:
    task = console.wire.begin("book_room")
    console.open(task)
    fill_in(console.page)
    console.page.get_by_text("1 other argument").click()
    field(console.page, "member").fill("9007199254740993")
    console.page.get_by_role("button", name="Call book").click()
    expect(console.page.locator(".state").first).to_have_text("Completed")
    assert console.wire.board("book_room", task)["steps"][0]["result"] == {
        "guest": "Kim",
        "nights": 3,
        "price": 19.9,
        "breakfast": False,
        "room": "double",
        "arrival": "2026-12-24",
        "extras": ["sauna", "parking"],
        "address": {"street": "Main Street 1", "city": "Ulm"},
        "member": 9007199254740993,
    }
    console.page.locator(".value summary", has_text="Result").click()
    expect(console.page.get_by_role("group", name="Result")).to_contain_text('"member": 9007199254740993')


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("nights", "2.5", "Write a whole number, such as 3."),
        ("price", "19,90", "Write a number with a point, such as 19.90."),
        ("address", "{street: 1}", 'This is not JSON. Write an object, such as {"name": "value"}.'),
    ],
)
def test_an_invalid_value_is_shown_at_its_field_and_nothing_is_sent(
    console: Console, name: str, value: str, problem: str
) -> None:
    console.open(console.wire.begin("book_room"))
    page = console.page
    fill_in(page)
    urls: list[str] = []
    page.on("request", lambda request: urls.append(request.url))
    field(page, name).fill(value)
    page.get_by_role("button", name="Call book").click()
    description_id = field(page, name).get_attribute("aria-describedby").split()[-1]
    expect(page.locator(f"[id='{description_id}']")).to_have_text(problem)
    expect(field(page, name)).to_be_focused()
    assert urls == []


def test_completing_stores_a_result_and_cancelling_asks_first(console: Console) -> None:
    completed, cancelled = (console.wire.begin("refund_order", order_id="A-17", amount=300) for _ in range(2))
    page = console.page
    console.open(completed)
    page.get_by_role("button", name="Complete…").click()
    expect(page.get_by_role("heading", name="Complete this task?")).to_be_focused()
    field(page, "Result").fill('{"note": "by hand"}')
    page.get_by_role("button", name="Complete the task").click()
    expect(page.locator(".state").first).to_have_text("Completed")
    expect(page.locator(".facts")).to_contain_text("supplied by a client")
    console.open(cancelled)
    page.get_by_role("button", name="Cancel…").click()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Cancel…")).to_be_focused()
    assert console.wire.board("refund_order", cancelled)["task"]["status"] == "working"
    page.get_by_role("button", name="Cancel…").click()
    page.get_by_role("button", name="Cancel the task").click()
    expect(page.locator(".state").first).to_have_text("Cancelled")
    statuses = [console.wire.board("refund_order", task)["task"]["status"] for task in (completed, cancelled)]
    assert statuses == ["completed", "cancelled"]


def test_markup_in_values_is_shown_as_text(console: Console) -> None:
    task = console.wire.begin("hostile", text=HOSTILE)
    console.open(task)
    page = console.page
    for summary in page.locator(".steps .value > summary").all():
        summary.click()
    expect(page.locator(".quote").first).to_have_text(HOSTILE)
    expect(page.get_by_role("group", name="Result")).to_contain_text(json.dumps(HOSTILE))
    expect(field(page, "text").first).to_have_value(HOSTILE)
    assert page.locator("main img, main script").count() == 0
    assert page.title() == "hostile · Example shop"
    link = page.get_by_role("link", name="https://example.com/a?b=c")
    expect(link).to_have_attribute("rel", "noopener noreferrer")


def test_a_long_value_is_loaded_on_request(console: Console) -> None:
    console.open(console.wire.begin("write_report"))
    console.page.get_by_role("button", name="Load result").click()
    result = console.page.get_by_role("group", name="Result")
    expect(result).to_contain_text("a line of the report")
    expect(result.get_by_role("button", name=re.compile("Show all"))).to_be_visible()


def test_a_value_that_names_another_resource_is_shown_and_not_loaded(console: Console) -> None:
    task = console.wire.begin("write_report")
    for uri in ("ui://baton/tasks", f"baton://tasks/{task}/_workflow.result.write", f"baton://tasks/x/../{task}/a"):
        console.open(console.wire.begin("forge_value", uri=uri))
        expect(console.page.locator(".steps")).to_contain_text(uri)
        expect(console.page.get_by_role("button", name="Load result")).to_have_count(0)


def test_a_value_that_names_another_value_of_its_task_is_shown_and_not_loaded(console: Console) -> None:
    task = console.wire.begin("forge_later")
    uri = f"baton://tasks/{task}/_workflow.result.note"
    console.wire.request("tools/call", {"name": "forge", "arguments": {"uri": uri}, "_meta": {"_task_id": task}})
    console.open(task)
    expect(console.page.locator(".steps")).to_contain_text(uri)
    expect(console.page.get_by_role("button", name="Load result")).to_have_count(0)


def test_a_task_of_a_tool_is_followed_until_it_ends_and_its_result_is_shown(console: Console) -> None:
    console.open()
    task = console.wire.in_background("extract_sales", month="2026-09")
    console.open(task)
    expect(console.page.locator(".state").first).to_have_text("Completed")
    expect(console.page.get_by_role("group", name="Result")).to_contain_text("moss guide")


def test_an_unknown_task_is_reported_with_a_link_to_the_list(console: Console) -> None:
    console.page.goto(f"{console.address}#{'0' * 34}")
    expect(console.page.locator(".notice.bad")).to_be_visible()
    console.page.get_by_role("link", name="All tasks").click()
    expect(console.page.get_by_role("heading", level=1)).to_have_text("Tasks")
    expect(console.page.get_by_role("heading", level=1)).to_be_focused()
    console.problems[:] = [problem for problem in console.problems if "400 (bad request)" not in problem.lower()]


def test_credentials_are_sent_and_deleted_on_request(browser: Browser, wire_of_ada: Wire) -> None:
    console = open_console(browser, wire_of_ada)
    page = console.page
    task = wire_of_ada.begin("refund_order", order_id="A-17", amount=300)
    page.goto(console.address)
    expect(page.get_by_role("heading", level=1)).to_have_text("Connect")
    page.get_by_label("Connect with").select_option("API key")
    page.get_by_label("Key, token or value").fill("nobody")
    page.get_by_role("button", name="Connect").click()
    expect(page.locator(".notice.bad")).to_contain_text("The server did not accept this.")
    page.get_by_label("Connect with").select_option("Another header")
    page.get_by_label("Key, token or value").fill("ada")
    page.get_by_role("button", name="Connect").click()
    expect(page.get_by_role("alert").filter(has_text="Write the name of the header.")).to_be_visible()
    page.get_by_text("other argument").or_(page.get_by_label("Name of the other header")).first.click()
    page.get_by_label("Name of the other header").fill(OWNER_HEADER)
    page.keyboard.press("Enter")
    expect(page.locator(f"[href='#{task}']")).to_be_visible()
    page.reload()
    expect(page.locator(f"[href='#{task}']")).to_be_visible()
    page.get_by_role("button", name="Disconnect").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Connect")
    assert page.evaluate("sessionStorage.length") == 0
    assert [problem for problem in console.problems if "403" not in problem] == []
    page.close()

"""Sign in to the console in a browser, renew the token, and sign out.

    python -m tests.browser.sign_in CONSOLE LATER CHROMIUM

`LATER` is an address that makes it two hours later. Prints what the page showed and stored as JSON.
"""

import json
import sys
from typing import Any

from playwright.sync_api import Page, Route, expect, sync_playwright

from tests.browser.suite.conftest import FLAGS, WATCH, WITHIN_MS

POLL_MS = 20
STORED = "({local: {...localStorage}, session: {...sessionStorage}})"


def sign_in(console: str, later: str, chromium: str) -> dict[str, Any]:
    """Run the session."""
    report: dict[str, Any] = {"problems": []}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        page = browser.new_page()
        page.set_default_timeout(WITHIN_MS)
        page.add_init_script(WATCH)
        page.on("pageerror", lambda error: report["problems"].append(str(error)))
        # A browser reports each 401 itself.
        page.on(
            "console", lambda message: report["problems"].append(message.text) if "violation" in message.text else None
        )
        page.goto(f"{console}?state=forged&code=forged")
        expect(page.get_by_text("This sign-in was not started in this tab.")).to_be_visible()
        page.goto(f"{console}#approvals")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Approvals")
        report["address"] = page.url
        page.get_by_role("link", name="Tasks").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Tasks")
        report["stored"] = page.evaluate(STORED)
        page.request.post(later)
        late = _Held(page, "**/approvals*")
        page.get_by_role("button", name="Refresh").click()
        page.wait_for_function(
            "token => !JSON.stringify({...sessionStorage}).includes(token)", arg=_token(report["stored"])
        )
        # Its 401 comes after the renewal, so the page sends it again and renews nothing.
        late.wait()
        with page.expect_response(lambda response: "/approvals" in response.url and response.ok):
            late.release()
        expect(page.get_by_role("heading", level=1)).to_have_text("Tasks")
        _disconnect_during_a_renewal(page, later)
        expect(page.get_by_role("heading", level=1)).to_have_text("Connect")
        report["after"] = page.evaluate(STORED)
        browser.close()
    return report


def _disconnect_during_a_renewal(page: Page, later: str) -> None:
    """Disconnect while a new token is on its way, and let it arrive before the old one is revoked."""
    token, revoke = (_Held(page, f"**/oauth2/{name}") for name in ("token", "revoke"))
    # Any request of the page may renew the token from now on, for example one of the last refresh.
    page.request.post(later)
    page.get_by_role("button", name="Refresh").click()
    token.wait()
    page.get_by_role("button", name="Disconnect").click()
    with page.expect_response(token.address):
        token.release()
    revoke.wait()
    revoke.release()


class _Held:
    """Requests to an address, which wait until the test releases them."""

    def __init__(self, page: Page, address: str) -> None:
        self.page, self.address = page, address
        self.routes: list[Route] = []
        self.is_released = False
        page.route(address, self._take)

    def _take(self, route: Route) -> None:
        if self.is_released:
            route.continue_()
        else:
            self.routes.append(route)

    def wait(self) -> None:
        for _ in range(WITHIN_MS // POLL_MS):
            if self.routes:
                return
            self.page.wait_for_timeout(POLL_MS)
        raise TimeoutError(f"the page did not send a request to {self.address}")

    def release(self) -> None:
        self.is_released = True
        for route in self.routes:
            route.continue_()


def _token(stored: dict[str, Any]) -> str:
    value: str = json.loads(stored["session"]["baton-credentials"])["value"]
    return value.removeprefix("Bearer ")


if __name__ == "__main__":
    sys.stdout.write(json.dumps(sign_in(*sys.argv[1:])))

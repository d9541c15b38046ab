"""The page as an App, in a host that uses the extension's own `AppBridge`. The App's calls reach the real server."""

import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser

from tests.browser.suite.conftest import HERE, WATCH, new_page, watch
from tests.browser.suite.wire import JsonDict, Wire

HOST = "https://host.example"
RESOURCE = "ui://baton/tasks"
ALL: JsonDict = {"serverTools": {}, "serverResources": {}, "openLinks": {}, "updateModelContext": {"text": {}}}
SHOWS_PAGES: JsonDict = {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}
"""The capabilities of a host that shows Apps."""


def bundle_host_script(node: Path, target: Path) -> str:
    """Bundle the host's script into one file. Return its text."""
    esbuild = HERE / "node_modules/esbuild/bin/esbuild"
    options = ["--bundle", "--format=iife", "--log-level=warning", f"--outfile={target}"]
    subprocess.run([node, esbuild, HERE / "suite/host.mjs", *options], check=True, cwd=HERE)
    return target.read_text()


@dataclass(slots=True)
class App:
    """The App in its host. `frame` is the App's page."""

    page: Any
    frame: Any
    wire: Wire
    problems: list[str]
    calls: list[JsonDict] = field(default_factory=list)

    def received(self, kind: str) -> Any:
        """Return what the host has received of a kind: `contexts`, `links` or `sizes`."""
        return self.page.evaluate(f"window.heard.{kind}")

    def notify(self, method: str, params: JsonDict) -> None:
        """Send a notification from the host, with the bridge's own method."""
        self.page.evaluate(f"(params) => window.bridge.{method}(params)", params)

    def begin(self, tool: str, arguments: JsonDict) -> JsonDict:
        """Call a tool as the host's model. The App gets the arguments and the result."""
        self.notify("sendToolInput", {"arguments": arguments})
        result = self.wire.call(tool, **arguments)
        tool_result = {name: value for name, value in result.items() if name != "resultType"}
        self.notify("sendToolResult", tool_result)
        return tool_result

    def messages(self) -> list[JsonDict]:
        messages: list[JsonDict] = self.page.evaluate("window.messages")
        return messages


def open_app(browser: Browser, wire: Wire, script: str, **options: Any) -> App:
    """Show the App in a new host. Options: `capabilities`, `tool`, `context`, and those of a page."""
    capabilities = options.pop("capabilities", ALL)
    tool = options.pop("tool", "refund_order")
    context = {"theme": "light", "locale": "en", "timeZone": "UTC", "platform": "web", **options.pop("context", {})}
    if tool:
        context["toolInfo"] = {"tool": {"name": tool, "inputSchema": {"type": "object"}}}
    page = new_page(browser, **options)
    app = App(page, None, wire, [])
    watch(page, app.problems, origin=HOST)

    def serve(route: Any) -> None:
        style = "body{margin:0}iframe{border:0;width:100%;display:block}"
        body = f"<!doctype html><html lang='en'><title>Host</title><style>{style}</style><body></body>"
        route.fulfill(content_type="text/html", body=body)

    def call(method: str, params: JsonDict) -> JsonDict:
        app.calls.append({"method": method, **params})
        request_params = {name: value for name, value in params.items() if name != "_meta"}
        result = wire.request(method, request_params, extensions=SHOWS_PAGES)
        return {name: value for name, value in result.items() if name not in {"resultType", "ttlMs", "cacheScope"}}

    page.route(f"{HOST}/**", serve)
    page.expose_function("callServer", call)
    page.goto(f"{HOST}/")
    page.evaluate(script)
    html = wire.request("resources/read", {"uri": RESOURCE})["contents"][0]["text"]
    page.evaluate(
        "(app) => window.show(app)", {"html": html, "capabilities": capabilities, "context": context, "watch": WATCH}
    )
    app.frame = page.frame_locator("iframe")
    return app

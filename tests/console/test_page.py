"""The dashboard page: its policy, headers and size, and constructs that it must not use."""

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

from mcp_baton.console import page
from mcp_baton.transport.page_policy import policy

MAX_BYTES = 100_000
NAMESPACE = "http://www.w3.org/2000/svg"
EXAMPLES = "https://example.com"

SOURCE = page.text()


def source_of(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def directives(policy: str) -> dict[str, list[str]]:
    return {name: sources for name, *sources in (part.split() for part in policy.split(";"))}


class Elements(HTMLParser):
    """The scripts, styles, attributes and addresses of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.contents: dict[str, list[str]] = {"script": [], "style": []}
        self.attributes: set[str] = set()
        self.addresses: list[str | None] = []
        self._in: str | None = None
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in = tag if tag in self.contents else None
        self.attributes |= {name for name, _ in attrs}
        self.addresses += [value for name, value in attrs if name in {"src", "href", "action", "srcset", "poster"}]
        if self._in:
            self.contents[tag].append("")

    def handle_endtag(self, _tag: str) -> None:
        self._in = None

    def handle_data(self, data: str) -> None:
        if self._in:
            self.contents[self._in][-1] += data


def test_the_policy_allows_only_the_scripts_and_styles_of_the_page() -> None:
    elements, sources = Elements(page.text()), directives(page.page_headers()["Content-Security-Policy"])

    assert elements.contents["script"]
    assert elements.contents["style"]
    assert sources["script-src"] == [source_of(content) for content in elements.contents["script"]]
    assert sources["style-src"] == [source_of(content) for content in elements.contents["style"]]
    assert sources["default-src"] == sources["frame-ancestors"] == sources["form-action"] == ["'none'"]
    assert sources["connect-src"] == ["'self'"]
    assert "unsafe" not in page.page_headers()["Content-Security-Policy"]


def test_a_page_that_signs_in_may_also_call_the_authorization_server() -> None:
    url = "https://shop.auth.eu-central-1.amazoncognito.com"
    answer, other = page.answer("GET", {}, url), page.answer("GET", {})

    sources = directives(answer.headers["Content-Security-Policy"])
    assert sources["connect-src"] == ["'self'", url]
    assert sources["script-src"] == [source_of(text) for text in Elements(answer.body.decode()).contents["script"]]
    assert b'"signs_in":true' in answer.body
    assert b'"signs_in":false' in other.body
    assert answer.headers["ETag"] != other.headers["ETag"]
    assert page.answer("GET", {"if-none-match": answer.headers["ETag"]}, url).status == 304


def test_each_script_has_its_own_hash() -> None:
    html = "<script>one()</script><SCRIPT type=module>\ntwo()\n</SCRIPT ><style>p {}</style>"

    sources = directives(policy(html))

    assert sources["script-src"] == [source_of("one()"), source_of("\ntwo()\n")]
    assert sources["style-src"] == [source_of("p {}")]
    assert directives(policy("<p>nothing"))["script-src"] == ["'none'"]


def test_the_page_obeys_its_policy() -> None:
    elements = Elements(page.text())

    assert [name for name in elements.attributes if name == "style" or name.startswith("on")] == []
    assert [address for address in elements.addresses if address and not address.startswith(("#", "data:"))] == []
    assert "\r" not in page.text()  # browsers hash the parsed text, where lines end with \n


def test_the_page_is_sent_with_security_headers() -> None:
    answer = page.answer("GET", {})

    assert (answer.status, answer.body) == (200, page.text().encode())
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert re.fullmatch(r'"[0-9a-f]{32}"', answer.headers["ETag"])


def test_a_browser_revalidates_the_page_and_gets_304() -> None:
    tag = page.answer("GET", {}).headers["ETag"]

    for tags in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        answer = page.answer("GET", {"if-none-match": tags})
        assert (answer.status, answer.body) == (304, b"")
        assert answer.headers["ETag"] == tag
    assert page.answer("GET", {"if-none-match": '"other"'}).status == 200
    assert page.answer("GET", {}).headers["Cache-Control"] == "no-cache"


def test_head_has_no_body_and_other_methods_are_refused() -> None:
    head = page.answer("HEAD", {})

    assert (head.status, head.body, head.headers) == (200, b"", page.answer("GET", {}).headers)
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
        answer = page.answer(method, {})
        assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")


def test_the_page_is_one_document_of_all_its_parts() -> None:
    assert len(SOURCE.encode()) < MAX_BYTES
    assert {path.stem for path in (page.FOLDER / "script").iterdir()} == set(page.SCRIPTS)
    assert re.findall(r"/\* (?:page|script|the pause)", SOURCE) == []
    assert SOURCE.startswith("<!doctype html>\n<html lang=")


@pytest.mark.parametrize(
    "pattern",
    [
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment",
        r"\beval\b|new Function|import\(|\bimport\s",
        r"\b(?:confirm|alert|prompt)\(",  # hosts block dialogs
        r"localStorage|indexedDB|document\.cookie",  # credentials are not kept after the tab is closed
        r"setAttribute\(\"style\"|cssText",  # the policy forbids inline styles
    ],
)
def test_the_page_does_not_use_forbidden_constructs(pattern: str) -> None:
    assert re.findall(pattern, SOURCE) == []


def test_the_page_contains_no_other_address() -> None:
    addresses = set(re.findall(r"https?://[\w./-]+", SOURCE))
    assert addresses <= {NAMESPACE, EXAMPLES}
    assert re.findall(r"\burl\((?!/i)", SOURCE.replace(r"url\(", "")) == []

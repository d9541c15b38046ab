"""The file of the page, as it stands: its size, and what it must not use."""

import re

import pytest

from mcp_baton.console import page

MOST_BYTES = 90_000
NAMESPACE = "http://www.w3.org/2000/svg"
EXAMPLES = "https://example.com"

SOURCE = page.text()


def test_the_page_is_one_file_of_less_than_80_kb() -> None:
    assert len(SOURCE.encode()) < MOST_BYTES
    assert SOURCE.startswith("<!doctype html>\n<html lang=")


@pytest.mark.parametrize(
    "used",
    [
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment",
        r"\beval\b|new Function|import\(|\bimport\s",
        r"\b(?:confirm|alert|prompt)\(",  # hosts block them
        r"localStorage|indexedDB|document\.cookie",  # credentials are kept no longer than the tab
        r"setAttribute\(\"style\"|cssText",  # the policy forbids them
    ],
)
def test_the_page_does_not_use(used: str) -> None:
    assert re.findall(used, SOURCE) == []


def test_the_page_names_no_address_but_its_own() -> None:
    addresses = set(re.findall(r"https?://[\w./-]+", SOURCE))
    assert addresses <= {NAMESPACE, EXAMPLES}
    assert re.findall(r"\burl\((?!/i)", SOURCE.replace(r"url\(", "")) == []

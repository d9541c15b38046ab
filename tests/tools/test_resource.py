"""Resources: URI templates, and the URIs of tasks' values."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import SupportsIndex

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import AnyUrl

from mcp_baton.exceptions import RegistrationError
from mcp_baton.tools.labels import Labels
from mcp_baton.tools.resource import (
    Resource,
    Template,
    find_in,
    is_reserved,
    parse_value_uri,
    value_uri,
    variables_of,
)
from mcp_baton.tools.templates import fill_uri


def match(template: str, uri: str) -> dict[str, str] | None:
    return Template(template, "a template").match(uri)


@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        ("docs://{topic}", "docs://shoes", {"topic": "shoes"}),
        ("docs://{topic}", "docs://R%26D", {"topic": "R&D"}),
        ("docs://{topic}", "docs://gr%C3%BCn", {"topic": "grün"}),
        ("docs://{topic}", "docs://a/b", None),
        ("docs://{topic}", "docs://", None),
        ("docs://{topic}", "DOCS://Kim", {"topic": "Kim"}),
        ("Docs://Manual/{topic}", "docs://manual/Kim", {"topic": "Kim"}),
        ("docs://Manual/Pages/{topic}", "docs://manual/pages/Kim", None),
        ("docs://über uns/{topic}", "docs://%c3%bcber%20uns/caf%c3%a9", {"topic": "café"}),
        ("docs://manual/über uns/{topic}.MD", "docs://manual/%C3%BCber%20uns/a%2Eb.MD", {"topic": "a.b"}),
        ("docs://manual/{topic}/~kim", "docs://manual/100%/%7Ekim", {"topic": "100%"}),
        ("docs://{+page}.MD", "docs://a/B.MD", {"page": "a/B"}),
        ("docs://{+page}.MD", "docs://a/B.md", None),
        ("https://{region}.Example.com/{id}", "HTTPS://EU.example.com/K", {"region": "EU", "id": "K"}),
        ("https://Example.com:443/{id}", "https://example.com/K", {"id": "K"}),
        ("https://münchen.de/{id}", "https://xn--mnchen-3ya.de/K", {"id": "K"}),
        ("mail:{Name}", "MAIL:Kim", {"Name": "Kim"}),
        ("docs://{topic}", "xdocs://a", None),
        ("docs://{topic}.md", "docs://a.md", {"topic": "a"}),
        ("docs://{topic}.md", "docs://aXmd", None),
        ("docs://{topic}.md", "docs://.md", None),
        ("docs://{topic}", "docs://a\nb", {"topic": "a\nb"}),
        ("files://{+path}", "files://a/b/c", {"path": "a/b/c"}),
        ("files://{path*}/end", "files://a/b/end", {"path": "a/b"}),
        ("x://{a}/{b}", "x://1/2", {"a": "1", "b": "2"}),
        ("x://{a}/{b}", "x://1/2/3", None),
        ("x://{class}(?P<y>)", "x://1(?P<y>)", {"class": "1"}),
        ("x://fixed", "x://fixed", {}),
        ("x://fixed", "x://fixed2", None),
        ("{scheme}://x", "docs://x", {"scheme": "docs"}),
        ("docs://{topic}", "docs://%252e%252e%252Fetc%2500", {"topic": "%2e%2e%2Fetc%00"}),  # nothing is decoded twice
        ("docs://{+topic}", "docs://%252e%252e%252Fetc", {"topic": "%2e%2e%2Fetc"}),
        ("date://{y}-{m}-{d}", "date://2026-11-22", {"y": "2026", "m": "11", "d": "22"}),
        ("date://{y}-{m}-{d}", "date://1-2-3-4", {"y": "1-2", "m": "3", "d": "4"}),
        ("date://{y}-{m}-{d}", "date://-----", {"y": "-", "m": "-", "d": "-"}),
        ("x://{a}{b}", "x://123", {"a": "12", "b": "3"}),
        ("x://{+a}/{+b}", "x://1/2/3", {"a": "1/2", "b": "3"}),
        ("x://{a}-{+b}", "x://1-2/3-4", {"a": "1", "b": "2/3-4"}),
        ("x://{+a}aa{b}", "x://1aaa", {"a": "1", "b": "a"}),
    ],
)
def test_a_uri_must_match_completely_and_earlier_variables_are_greedy(
    template: str, uri: str, values: dict[str, str] | None
) -> None:
    assert match(template, uri) == values


@dataclass(frozen=True)
class Part:
    """A variable of a template, and the text after it."""

    spans: bool
    text: str


def splits(parts: list[Part], uri: str) -> Iterator[list[str]]:
    """Yield all ways to split the rest of a URI by trying each length, longest first."""
    if not parts:
        if not uri:
            yield []
        return
    for end in range(len(uri), 0, -1):
        value, remainder = uri[:end], uri[end:]
        if ("/" not in value or parts[0].spans) and remainder.startswith(parts[0].text):
            yield from ([value, *other_values] for other_values in splits(parts[1:], remainder[len(parts[0].text) :]))


LETTERS = "a-/"
PARTS = st.lists(st.builds(Part, st.booleans(), st.text(LETTERS, max_size=2)), max_size=4)


@given(prefix=st.text(LETTERS, max_size=2), parts=PARTS, uri=st.text(LETTERS, max_size=9))
def test_a_match_is_the_first_of_all_possible_splits(prefix: str, parts: list[Part], uri: str) -> None:
    template = prefix + "".join(
        f"{{{'+' if part.spans else ''}v{place}}}{part.text}" for place, part in enumerate(parts)
    )
    all_splits = splits(parts, uri.removeprefix(prefix)) if uri.startswith(prefix) else iter(())
    first_split = next(all_splits, None)
    expected = None if first_split is None else {f"v{place}": value for place, value in enumerate(first_split)}
    assert match(template, uri) == expected


class CountingText(str):
    """A text that counts how often its characters or substrings are read."""

    __slots__ = ("reads",)
    reads: int

    def __new__(cls, text: str) -> "CountingText":
        text_copy = super().__new__(cls, text)
        text_copy.reads = 0
        return text_copy

    def __getitem__(self, place: SupportsIndex | slice) -> str:
        self.reads += 1
        return super().__getitem__(place)

    def startswith(
        self, prefix: str | tuple[str, ...], start: SupportsIndex | None = None, end: SupportsIndex | None = None, /
    ) -> bool:
        self.reads += 1
        return super().startswith(prefix, start, end)


@pytest.mark.parametrize("length", [3_000, 30_000])
@pytest.mark.parametrize(
    ("template", "repeated", "suffix"),
    [
        ("date://{y}-{m}-{d}", "-", "/"),
        ("date://{y}-{m}-{d}", "-", ""),
        ("x://{+a}/{+b}/{+c}/leaf", "/", ""),
        ("x://{+a}/{+b}/{+c}/leaf", "/", "/leaf"),
        ("x://{a}{b}{c}{d}", "a", "/"),
        ("x://{+a}aa{b}aa{+c}aa", "a", ""),
    ],
)
def test_a_match_is_linear_in_the_uri_and_variables(template: str, repeated: str, suffix: str, length: int) -> None:
    uri = CountingText(template.partition("{")[0] + repeated * length + suffix)
    match(template, uri)
    assert uri.reads <= 2 * (len(uri) + 1) * (len(re.findall("{", template)) + 1)


def test_variables_are_listed_in_order() -> None:
    assert variables_of("x://{b}/{+a}/{c*}", "resource") == ("b", "a", "c")
    assert variables_of("x://fixed", "resource") == ()


@pytest.mark.parametrize("template", ["x://{a", "x://a}", "x://{}", "x://{a b}", "x://{?a}", "x://{a,b}", "x://{a}{a}"])
def test_unsupported_expressions_are_refused(template: str) -> None:
    with pytest.raises(RegistrationError, match="x://"):
        variables_of(template, "resource")


HIDDEN = [
    ("..", ".."),
    ("%2e%2E", ".."),
    (".", "."),
    ("a%2Fb", "a/b"),
    ("a%2fb", "a/b"),
    ("..%2F..%2Fetc%2Fpasswd", "../../etc/passwd"),
    ("a%5Cb", "a\\b"),
    ("a\\b", "a\\b"),
    ("a%00.md", "a\0.md"),
    ("a\0", "a\0"),
]


@pytest.mark.parametrize(("encoded", "decoded"), HIDDEN)
def test_a_path_hidden_in_one_name_matches_only_variables_for_paths(encoded: str, decoded: str) -> None:
    assert match("files://{name}", f"files://{encoded}") is None
    assert match("files://{folder}/{+path}", f"files://{encoded}/x") is None
    assert Template("files://{folder}/{+path}", "a template").unsafe_variable(f"files://{encoded}/x") == "folder"
    assert match("files://{+name}", f"files://{encoded}") == {"name": decoded}
    assert match("files://{name*}", f"files://{encoded}") == {"name": decoded}
    assert Template("files://{+name}", "a template").unsafe_variable(f"files://{encoded}") is None


@pytest.mark.parametrize("name", ["...", "a..b", "..a", ".hidden", "a.", "%C0%AE%C0%AE"])
def test_dots_within_a_name_are_part_of_it(name: str) -> None:
    assert match("files://{name}", f"files://{name}") is not None


def test_no_variable_is_withheld_of_a_uri_that_does_not_match() -> None:
    assert Template("files://{name}", "a template").unsafe_variable("other://..") is None
    assert Template("files://{name}.md", "a template").unsafe_variable("files://..") is None


@given(st.text(min_size=1))
@example("a/b")
@example("..")
def test_a_filled_uri_matches_and_returns_the_bound_value(value: str) -> None:
    assert match("docs://{+topic}/end", fill_uri("docs://{topic}/end", {"topic": value})) == {"topic": value}


@given(st.text(min_size=1))
@example("R&D %2F 50%")
@example("a/b")
def test_a_bound_value_matches_a_single_name_only_if_it_is_not_a_path(value: str) -> None:
    expected = None if value in {".", ".."} or set(value) & set("/\\\0") else {"topic": value}
    assert match("docs://{topic}/end", fill_uri("docs://{topic}/end", {"topic": value})) == expected


@given(st.text(st.characters(exclude_categories=()), min_size=1))
def test_the_uri_of_a_variable_can_be_parsed_back(name: str) -> None:
    uri = value_uri("task", name)
    assert uri.isascii()
    assert is_reserved(uri)
    assert parse_value_uri(uri) == ("task", name)


@pytest.mark.parametrize(
    "uri", ["docs://tasks/a/b", "baton://tasks/a", "baton://tasks/a/b/c", "baton://tasks/a/%ff", ""]
)
def test_other_uris_are_not_uris_of_variables(uri: str) -> None:
    assert parse_value_uri(uri) is None


def resource(uri: str) -> Resource:
    return Resource(uri, lambda: uri, "r", Labels(), None)


SENT = [
    ("docs://manual/über uns", "docs://manual/%C3%BCber%20uns"),
    ("docs://manual/über uns", "docs://manual/%c3%bcber%20uns"),
    ("docs://manual/%7ekim", "docs://manual/~kim"),
    ("docs://manual/a%zz", "docs://manual/a%25zz"),
    ("docs://manual/<a>|b", "docs://manual/%3Ca%3E%7Cb"),
    ("Manual://index", "manual://index"),
    ("MANUAL:Index", "manual:Index"),
    ("docs://Manual", "docs://manual"),
    ("docs://manual", "docs://manual/"),
    ("docs://manual/", "docs://manual"),
    ("docs://manual?a=1", "docs://manual/?a=1"),
    ("docs://über", "docs://%C3%BCber"),
    ("https://example.com", "https://example.com/"),
    ("https://Kim@Example.com:443/page", "https://Kim@example.com/page"),
    ("http://example.com:80", "http://example.com/"),
    ("https://example.com:8443/a", "https://EXAMPLE.com:8443/a"),
    ("https://münchen.de/a", "https://xn--mnchen-3ya.de/a"),
    ("https://example.com/a/../b/./c", "https://example.com/b/c"),
    ("https://example.com/a/%2e%2e/b", "https://example.com/b"),
    ("https://example.com/?q='a b'", "https://example.com/?q=%27a%20b%27"),
    ("file://localhost/a", "file:///a"),
    ("file:///C:\\docs\\a.txt", "file:///C:/docs/a.txt"),
    (" docs://a/b ", "docs://a/b"),
]


@pytest.mark.parametrize(("uri", "sent"), SENT)
def test_a_fixed_uri_is_found_by_the_form_that_a_client_sends(uri: str, sent: str) -> None:
    match = find_in({uri: resource(uri)}, sent)
    assert match is not None
    assert match[0].uri == uri


@pytest.mark.parametrize("uri", [uri for uri, _ in SENT])
def test_a_fixed_uri_is_found_by_the_form_that_pydantic_makes_of_it(uri: str) -> None:
    assert find_in({uri: resource(uri)}, str(AnyUrl(uri))) is not None


@pytest.mark.parametrize(
    ("uri", "other"),
    [
        ("docs://manual/Index", "docs://manual/index"),
        ("docs://manual/a%2Fb", "docs://manual/a/b"),
        ("docs://manual/a?b=1", "docs://manual/a?B=1"),
        ("docs://manual/a", "docs://manual/a/"),
        ("docs://manual/a+b", "docs://manual/a%20b"),
        ("docs://manual/a%2541", "docs://manual/aA"),
        ("urn:Book", "urn:book"),
        ("https://example.com:8443/a", "https://example.com/a"),
    ],
)
def test_different_uris_stay_different(uri: str, other: str) -> None:
    assert find_in({uri: resource(uri)}, other) is None
    assert find_in({other: resource(other)}, uri) is None


def test_the_uri_as_it_was_sent_precedes_an_equal_one_which_precedes_templates() -> None:
    functions: dict[str, Callable[..., object]] = {
        "docs://{+page}": lambda page: page,
        "docs://a": lambda: "",
        "docs://a/": lambda: "",
    }
    resources = {uri: Resource(uri, function, "r", Labels(), None) for uri, function in functions.items()}
    sent = ("docs://a", "docs://a/", "DOCS://a/", "docs://b/", "docs://b")
    found = [match[0].uri for uri in sent if (match := find_in(resources, uri)) is not None]
    assert found == ["docs://a", "docs://a/", "docs://a", "docs://{+page}", "docs://{+page}"]


@pytest.mark.parametrize("sent", ["https://kim", "https://kim/"])
def test_a_host_in_a_template_is_found_with_and_without_the_empty_path(sent: str) -> None:
    template = Resource("https://{host}", lambda host: host, "r", Labels(), None)
    assert find_in({"t": template}, sent) == (template, {"host": "kim"})

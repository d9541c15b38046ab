"""Resource URI templates."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_baton.exceptions import RegistrationError
from mcp_baton.server.uri_template import match, variables_of
from mcp_baton.workflow.sources import fill_uri


@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        ("docs://{topic}", "docs://shoes", {"topic": "shoes"}),
        ("docs://{topic}", "docs://R%26D%2Fx", {"topic": "R&D/x"}),
        ("docs://{topic}", "docs://gr%C3%BCn", {"topic": "grün"}),
        ("docs://{topic}", "docs://a/b", None),
        ("docs://{topic}", "docs://", None),
        ("docs://{topic}", "DOCS://a", None),
        ("docs://{topic}", "xdocs://a", None),
        ("docs://{topic}.md", "docs://a.md", {"topic": "a"}),
        ("docs://{topic}.md", "docs://aXmd", None),
        ("docs://{topic}", "docs://a\nb", {"topic": "a\nb"}),
        ("files://{+path}", "files://a/b/c", {"path": "a/b/c"}),
        ("files://{path*}/end", "files://a/b/end", {"path": "a/b"}),
        ("x://{a}/{b}", "x://1/2", {"a": "1", "b": "2"}),
        ("x://{a}/{b}", "x://1/2/3", None),
        ("x://{class}(?P<y>)", "x://1(?P<y>)", {"class": "1"}),
        ("x://fixed", "x://fixed", {}),
    ],
)
def test_a_uri_is_matched_as_a_whole(template: str, uri: str, values: dict[str, str] | None) -> None:
    assert match(template, uri) == values


def test_variables_are_listed_in_order() -> None:
    assert variables_of("x://{b}/{+a}/{c*}", "resource") == ("b", "a", "c")
    assert variables_of("x://fixed", "resource") == ()


@pytest.mark.parametrize("template", ["x://{a", "x://a}", "x://{}", "x://{a b}", "x://{?a}", "x://{a,b}", "x://{a}{a}"])
def test_what_is_not_supported_is_refused(template: str) -> None:
    with pytest.raises(RegistrationError, match="x://"):
        variables_of(template, "resource")


@given(st.text(min_size=1))
def test_every_value_that_a_step_binds_reaches_the_function_whole(value: str) -> None:
    assert match("docs://{topic}/end", fill_uri("docs://{topic}/end", {"topic": value})) == {"topic": value}

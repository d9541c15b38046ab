"""URIs of stored values: every name has one, and it leads back to the name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_baton.server.definitions.resource import is_own, value_at, value_uri


@given(st.text(st.characters(exclude_categories=()), min_size=1))
def test_every_variables_uri_leads_back_to_it(name: str) -> None:
    uri = value_uri("task", name)
    assert uri.isascii()
    assert is_own(uri)
    assert value_at(uri) == ("task", name)


@pytest.mark.parametrize(
    "uri", ["docs://tasks/a/b", "baton://tasks/a", "baton://tasks/a/b/c", "baton://tasks/a/%ff", ""]
)
def test_no_other_uri_names_a_value(uri: str) -> None:
    assert value_at(uri) is None

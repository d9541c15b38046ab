"""The map in docs/life-of-a-request.md."""

from tests.site import request_map


def test_the_map_of_the_modules_that_a_request_enters_is_current() -> None:
    assert request_map.page() == request_map.PAGE.read_text(), "the modules have changed: run `make request-map`"

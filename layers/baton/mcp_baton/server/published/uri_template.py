"""Resource URI templates: matching a URI, after RFC 6570 level 1 and the reserved expansion `{+name}`.

`{name}` matches a part of one segment, `{+name}` and `{name*}` also slashes; none of them matches nothing. Where a URI
can be split in several ways, the first variable takes as much as it can, then the second, and so on. The split is that
of the URI as it was sent; each value is percent-decoded once, afterwards.

What `{name}` gives to its function can stand in a path as one name: a URI that hides a slash, a backslash or a NUL in
it (`%2F`, `%5C`, `%00`), or whose value is `.` or `..` (RFC 3986, 3.3), does not match. `{+name}` gives all that.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import batched

from msgspec import Struct

from mcp_baton.exceptions import RegistrationError

_EXPRESSION = re.compile(r"\{(\+?)([A-Za-z_][A-Za-z0-9_]*)(\*?)\}")
_DOTS = frozenset({".", ".."})
_NOT_IN_A_NAME = frozenset("/\\\0")


def variables_of(template: str, what: str) -> tuple[str, ...]:
    """The names in a template, in order.

    Raises:
        RegistrationError: an expression that is not supported, or a name used twice.
    """
    names = tuple(match[2] for match in _EXPRESSION.finditer(template))
    rest = _EXPRESSION.sub("", template)
    if "{" in rest or "}" in rest:
        raise RegistrationError(f"{what}: only {{name}}, {{+name}} and {{name*}} can stand in {template!r}")
    if len(set(names)) != len(names):
        raise RegistrationError(f"{what}: a name stands twice in {template!r}")
    return names


def match(template: str, uri: str) -> dict[str, str] | None:
    """The template's values in a URI, percent-decoded; `None` when the URI is not of that form, or hides a path in a
    `{name}`."""
    form = _form(template)
    values = _values(form, uri)
    return None if values is None or _withheld(form, values) else values


def withheld(template: str, uri: str) -> str | None:
    """The first `{name}` for which alone a URI does not match: its value would be a path."""
    form = _form(template)
    return _withheld(form, _values(form, uri) or {})


class _Variable(Struct, frozen=True):
    """A variable, and the text between it and the next one."""

    name: str
    spans_segments: bool
    followed_by: str


class _Form(Struct, frozen=True):
    """A template, taken apart."""

    begins: str
    variables: tuple[_Variable, ...]


@lru_cache(maxsize=256)
def _form(template: str) -> _Form:
    begins, *rest = _EXPRESSION.split(template)
    variables = (_Variable(name, bool(plus or star), text) for plus, name, star, text in batched(rest, 4))
    return _Form(begins, tuple(variables))


def _withheld(form: _Form, values: Mapping[str, str]) -> str | None:
    for variable in form.variables:
        value = values.get(variable.name, "")
        if not variable.spans_segments and (value in _DOTS or not _NOT_IN_A_NAME.isdisjoint(value)):
            return variable.name
    return None


def _values(form: _Form, uri: str) -> dict[str, str] | None:
    if not form.variables:
        return {} if uri == form.begins else None
    if not (uri.startswith(form.begins) and uri.endswith(form.variables[-1].followed_by)):
        return None  # which spares most URIs the rest
    from urllib.parse import unquote

    values: dict[str, str] = {}
    place = len(form.begins)
    for variable, farthest in zip(form.variables, _farthest_ends(form, uri), strict=True):
        end = farthest[place]
        if not end:
            return None
        values[variable.name] = unquote(uri[place:end])
        place = end + len(variable.followed_by)
    return values


def _farthest_ends(form: _Form, uri: str) -> list[list[int]]:
    """For each variable and each place in the URI, the farthest end of a value that begins there and leaves a rest that
    matches; 0 where there is none.

    From the last variable to the first, each with one pass from the URI's end: a URI that matches in very many ways, or
    almost, takes no longer than another.
    """
    ends: list[list[int]] = []
    rest_matches: Sequence[int] = [0] * len(uri) + [1]
    for variable in reversed(form.variables):
        text = variable.followed_by
        farthest = [0] * (len(uri) + 1)
        for place in range(len(uri) - 1, len(form.begins) - 1, -1):
            end = place + 1
            if uri[place] == "/" and not variable.spans_segments:
                continue
            if farthest[end]:
                farthest[place] = farthest[end]
            elif uri.startswith(text, end) and rest_matches[end + len(text)]:
                farthest[place] = end
        ends.append(farthest)
        rest_matches = farthest
    return ends[::-1]

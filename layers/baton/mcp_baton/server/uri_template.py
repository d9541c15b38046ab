"""Resource URI templates: matching a URI, after RFC 6570 level 1 and the reserved expansion `{+name}`.

`{name}` matches one segment, `{+name}` and `{name*}` also slashes.
"""

import re
from functools import lru_cache

from mcp_baton.exceptions import RegistrationError

_EXPRESSION = re.compile(r"\{(\+?)([A-Za-z_][A-Za-z0-9_]*)(\*?)\}")


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
    """The template's values in a URI, percent-decoded; `None` when the URI is not of that form."""
    found = _pattern(template).fullmatch(uri)
    if found is None:
        return None
    from urllib.parse import unquote

    return {name: unquote(value) for name, value in found.groupdict().items()}


@lru_cache(maxsize=256)
def _pattern(template: str) -> re.Pattern[str]:
    parts: list[str] = []
    position = 0
    for expression in _EXPRESSION.finditer(template):
        parts.append(re.escape(template[position : expression.start()]))
        reach = ".+" if expression[1] or expression[3] else "[^/]+"
        parts.append(f"(?P<{expression[2]}>{reach})")
        position = expression.end()
    return re.compile("".join([*parts, re.escape(template[position:])]), re.DOTALL)

"""Resource URI templates: matching a URI, after RFC 6570 level 1 and the reserved expansion `{+name}`.

`{name}` matches a part of one segment. `{+name}` and `{name*}` also match slashes. A variable matches at least one
character. If a URI can be split in several ways, the first variable takes as much as possible, then the second, and so
on. The URI is split as it was sent, with the usual percent-encoding; then each value is percent-decoded once.

The value of `{name}` is safe as one name in a path: a URI with an encoded slash, backslash or NUL (`%2F`, `%5C`,
`%00`), or with the value `.` or `..` (RFC 3986, 3.3), does not match. `{+name}` accepts all of these.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import batched, product
from typing import Final

from msgspec import Struct

from mcp_baton.exceptions import RegistrationError
from mcp_baton.protocol.json import Json, dumps
from mcp_baton.tools.content import ResourceContent
from mcp_baton.tools.labels import OPTIONAL_TEXT, TEXT, Labels, check_types
from mcp_baton.tools.outcomes import Failed, Mismatch, ResourceUnavailable
from mcp_baton.tools.schema.schema import InputSchema
from mcp_baton.tools.schema.sent_values import json_of
from mcp_baton.tools.schema.signature import signature_of_tool
from mcp_baton.tools.uris import canonical, encoded, escaped, folded, key, other_forms

_EXPRESSION = re.compile(r"\{(\+?)([A-Za-z_][A-Za-z0-9_]*)(\*?)\}")
_DOTS = frozenset({".", ".."})
_NOT_IN_A_NAME = frozenset("/\\\0")


def variables_of(template: str, subject: str) -> tuple[str, ...]:
    names = tuple(match[2] for match in _EXPRESSION.finditer(template))
    rest = _EXPRESSION.sub("", template)
    if "{" in rest or "}" in rest:
        raise RegistrationError(f"{subject}: {template!r} may only contain {{name}}, {{+name}} and {{name*}}")
    if len(set(names)) != len(names):
        raise RegistrationError(f"{subject}: {template!r} contains a name twice; rename one")
    return names


class _Variable(Struct, frozen=True):
    """A variable, and the text after it."""

    name: str
    spans_segments: bool
    suffix: str


class Template:
    """A parsed URI template. Raises `RegistrationError` if it is invalid."""

    def __init__(self, template: str, subject: str) -> None:
        self.names = variables_of(template, subject)
        self._uri = template
        prefix, *rest = _EXPRESSION.split(template)
        parts = list(batched(rest, 4))
        self._prefix, *suffixes = self._literals(
            [prefix, *(text for *_, text in parts)], [bool(plus or star) for plus, _, star, _ in parts]
        )
        self._variables = [
            _Variable(name, bool(plus or star), suffix)
            for (plus, name, star, _), suffix in zip(parts, suffixes, strict=True)
        ]

    def _literals(self, texts: list[str], spans_segments: list[bool]) -> list[str]:
        """Return the literal texts as they are in the form of a URI that is matched: the canonical form, or, if there
        are variables in the authority, the folded one."""
        self._has_literal_authority = re.search("://[^/?#]*[/?#]", texts[0]) is not None
        if self._has_literal_authority:
            return [canonical(texts[0]), *map(escaped, texts[1:])]
        # The authority ends before a variable that may contain a slash.
        ends = ["/" if spans else "" for spans in (False, *spans_segments)]
        joined = " ".join(end + escaped(text) for end, text in zip(ends, texts, strict=True))
        return [text.removeprefix(end) for end, text in zip(ends, folded(joined).split(" "), strict=True)]

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the values in a URI, percent-decoded; `None` if the URI does not match."""
        values = self._values(uri)
        return None if values is None or self._unsafe_variable(values) else values

    def unsafe_variable(self, uri: str) -> str | None:
        """Return the first `{name}` that prevents a match because its value is not one safe name in a path."""
        return self._unsafe_variable(self._values(uri) or {})

    def _unsafe_variable(self, values: Mapping[str, str]) -> str | None:
        for variable in self._variables:
            value = values.get(variable.name, "")
            if not variable.spans_segments and (value in _DOTS or not _NOT_IN_A_NAME.isdisjoint(value)):
                return variable.name
        return None

    def _values(self, uri: str) -> dict[str, str] | None:
        if not self._variables:
            return {} if key(uri) == key(self._uri) else None
        uri = canonical(uri) if self._has_literal_authority else escaped(uri)
        matched = uri if self._has_literal_authority else folded(uri)
        if not (matched.startswith(self._prefix) and matched.endswith(self._variables[-1].suffix)):
            return None  # a fast path for the usual case
        from urllib.parse import unquote

        values: dict[str, str] = {}
        place = len(self._prefix)
        for variable, farthest in zip(self._variables, self._farthest_ends(matched), strict=True):
            end = farthest[place]
            if not end:
                return None
            values[variable.name] = unquote(uri[place:end])
            place = end + len(variable.suffix)
        return values

    def _farthest_ends(self, uri: str) -> list[list[int]]:
        """Return, for each variable and each place in the URI, the farthest end of a value that begins there, if the
        rest matches; otherwise 0.

        Works from the last variable to the first, with one pass over the URI for each. So the time does not depend on
        the number of possible splits.
        """
        ends: list[list[int]] = []
        rest_matches: Sequence[int] = [0] * len(uri) + [1]
        for variable in reversed(self._variables):
            text = variable.suffix
            farthest = [0] * (len(uri) + 1)
            for place in range(len(uri) - 1, len(self._prefix) - 1, -1):
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


def contents_of(uri: str, mime_type: str | None, value: object) -> ResourceContent:
    """Convert the value of a resource's function to content: text, bytes, other values as JSON text."""
    if isinstance(value, str):
        return ResourceContent(uri, value, mime_type or "text/plain")
    if isinstance(value, bytes | bytearray):
        return ResourceContent(uri, bytes(value), mime_type or "application/octet-stream")
    return ResourceContent(uri, dumps(json_of(value)), mime_type or "application/json")


class Resource:
    def __init__(
        self,
        uri: str,
        function: Callable[..., object],
        name: str,
        labels: Labels,
        mime_type: str | None,
        requires: frozenset[str] = frozenset(),
    ) -> None:
        subject = f"resource {uri!r}"
        check_types({"name": name, "mime_type": mime_type}, {"name": TEXT, "mime_type": OPTIONAL_TEXT}, f"{subject}: ")
        self.uri = uri
        self.requires = requires
        self.function = function
        self.name = name
        self.labels = labels.for_function(function)
        self.mime_type = mime_type
        self._template = Template(uri, subject)
        self.variables = self._template.names
        self.match = self._template.match
        self.unsafe_variable = self._template.unsafe_variable
        self.signature = signature_of_tool(function, subject)
        if set(self.variables) != self.signature.names:
            from mcp_baton.hints import did_you_mean

            parameters = ", ".join(sorted(self.signature.names)) or "nothing"
            unknown = next((name for name in sorted(self.signature.names) if name not in self.variables), None)
            hint = did_you_mean(unknown, self.variables) if unknown else ""
            remedy = hint if "mean" in hint else "; name the same in the URI and in the signature"
            raise RegistrationError(f"{subject}: the function takes {parameters}{remedy}")
        self.input = InputSchema(name, self.signature)

    @property
    def is_template(self) -> bool:
        return bool(self.variables)

    @cached_property
    def definition(self) -> dict[str, Json]:
        members: dict[str, Json] = {"uriTemplate": self.uri} if self.is_template else {"uri": encoded(self.uri)}
        members |= {"name": self.name}
        members |= self.labels.to_json()
        return members | ({"mimeType": self.mime_type} if self.mime_type else {})


SCHEME: Final = "baton://"
_TASKS: Final = f"{SCHEME}tasks/"

APP_URI: Final = "ui://baton/tasks"
"""The page of a workflow's tasks, which hosts show with the results of its tool (docs/console.md)."""


def is_reserved(uri: str) -> bool:
    """Whether a URI is reserved for Baton. The case of a scheme does not matter (RFC 3986)."""
    return uri[: len(SCHEME)].lower() == SCHEME


def value_uri(task_id: str, name: str) -> str:
    from urllib.parse import quote

    return f"{_TASKS}{task_id}/{quote(name, safe='', errors='surrogatepass')}"


def parse_value_uri(uri: str) -> tuple[str, str] | None:
    """Return the task and the variable of a value's URI; `None` for other URIs."""
    if uri[: len(_TASKS)].lower() != _TASKS:
        return None
    task_id, slash, name = uri[len(_TASKS) :].partition("/")
    if not slash or "/" in name:
        return None
    from urllib.parse import unquote

    try:
        return task_id, unquote(name, errors="surrogatepass")
    except UnicodeDecodeError:
        return None


MAX_URI_CHARS = 8_000
"""The longest URI that is looked up, characters: as many octets as RFC 9110, section 4.1, recommends to support. The
time to match a template grows with the length of the URI and the number of the template's variables."""


def find_in(resources: Mapping[str, Resource], uri: str) -> tuple[Resource, dict[str, str]] | None:
    """Find the resource at a URI, and its function's arguments. A resource with exactly this URI precedes one with an
    equal URI (RFC 3986, section 6.2), which precedes all templates."""
    if len(uri) > MAX_URI_CHARS or is_reserved(uri):
        return None
    exact = resources.get(uri)
    if exact is not None and not exact.is_template:
        return exact, {}
    fixed = [resource for resource in resources.values() if not resource.is_template]
    templates = [resource for resource in resources.values() if resource.is_template]
    candidates = [*((resource, uri) for resource in fixed), *product(templates, (uri, *other_forms(uri)))]
    for resource, form in candidates:
        arguments = resource.match(form)
        if arguments is not None:
            return resource, arguments
    return None


def contents_of_outcome(outcome: ResourceContent | Mismatch | Failed) -> ResourceContent:
    """Return the contents that a resource's function has returned. Raises `ResourceUnavailable`."""
    match outcome:
        case Mismatch() as mismatch:
            raise ResourceUnavailable(mismatch.text)
        case Failed(error) as failure:
            raise ResourceUnavailable(error, failure.error_id, failure.kind)
        case contents:
            return contents


def mismatch_reason(resources: Mapping[str, Resource], uri: str) -> str:
    """Explain to the author of a workflow why a URI does not match the resource that the author probably means."""
    if len(uri) > MAX_URI_CHARS:
        return f": it is longer than {MAX_URI_CHARS} characters"
    for resource in resources.values():
        name = resource.unsafe_variable(uri)
        if name is not None:
            return (
                f": {{{name}}} of {resource.uri} takes one name, without a slash, a backslash or a NUL, and not '.' or "
                f"'..'. A resource whose URI has {{+{name}}} takes paths, too"
            )
    return ""

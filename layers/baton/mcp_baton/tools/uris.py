"""Forms of URIs in which equal URIs are equal texts. Clients change URIs before they send them: they lower the case of
the host, percent-encode, and add the empty path (RFC 3986, section 6.2; WHATWG URL).

`escaped` and `canonical` keep the values of variables; `key` also changes the path, and compares whole URIs.
"""

import re
from functools import lru_cache
from typing import Final

_NOT_IN_URIS: Final = re.compile(r"[^A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%\ud800-\udfff]|%(?![0-9A-Fa-f]{2})")
_ESCAPE: Final = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED: Final = re.compile(r"[A-Za-z0-9\-._~]")
_HEAD: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*:)(?://([^/?#]*))?")
"""The scheme and the authority."""

_PORTS: Final = {"http:": ":80", "https:": ":443", "ws:": ":80", "wss:": ":443", "ftp:": ":21", "file:": ""}
"""The default ports of the schemes in which a backslash is a slash."""

_BLANKS: Final = "".join(map(chr, range(33)))


def encoded(uri: str) -> str:
    """Percent-encode what a URI cannot contain."""
    return _NOT_IN_URIS.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), uri)


@lru_cache(maxsize=256)
def escaped(uri: str) -> str:
    """Percent-encode what a URI cannot contain, and decode what needs no encoding."""
    uri = encoded(uri)
    return _ESCAPE.sub(lambda match: _unescaped(match[1]), uri) if "%" in uri else uri


def _unescaped(digits: str) -> str:
    character = chr(int(digits, 16))
    return character if _UNRESERVED.fullmatch(character) else f"%{digits.upper()}"


def folded(uri: str) -> str:
    """Lower the case of the scheme and the authority. The length stays the same."""
    head = _HEAD.match(uri)
    return uri if head is None else head[0].lower() + uri[head.end() :]


@lru_cache(maxsize=256)
def canonical(uri: str) -> str:
    """Return an escaped URI with the usual form of its scheme and authority."""
    uri = escaped(uri)
    head = _HEAD.match(uri)
    if head is None:
        return uri
    scheme, authority = head[1].lower(), head[2]
    if authority is None:
        return scheme + uri[head.end() :]
    userinfo, at, host = authority.rpartition("@")
    host = _host(host).removesuffix(_PORTS.get(scheme) or ":")
    return f"{scheme}//{userinfo}{at}{'' if (scheme, host) == ('file:', 'localhost') else host}{uri[head.end() :]}"


def _host(host: str) -> str:
    if "%" not in host:
        return host.lower()
    from urllib.parse import unquote

    host = unquote(host).lower()
    if host.isascii():
        return escaped(host)
    try:
        return host.encode("idna").decode()
    except UnicodeError:
        return escaped(host)


@lru_cache(maxsize=256)
def key(uri: str) -> str:
    """Return the text that equals that of each equal URI."""
    uri = uri.strip(_BLANKS).translate(dict.fromkeys(map(ord, "\t\n\r")))
    path, mark, rest = _parts(uri)
    scheme = path.partition(":")[0].lower() + ":"
    uri = canonical((path.replace("\\", "/") if scheme in _PORTS else path) + mark + rest)
    path, mark, rest = _parts(uri)
    head = _HEAD.match(path)
    if head is None:
        return uri
    path = path[head.end() :]
    if head[2] is not None or path.startswith("/"):
        path = _without_dots(path or "/")
    return head[0] + path + mark + rest.replace("'", "%27")


def _parts(uri: str) -> tuple[str, str, str]:
    """Return the URI before its query or fragment, the mark, and what follows."""
    match = re.search("[?#]", uri)
    return (uri, "", "") if match is None else (uri[: match.start()], match[0], uri[match.end() :])


def _without_dots(path: str) -> str:
    segments: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            del segments[max(1, len(segments) - 1) :]
        elif segment != ".":
            segments.append(segment)
    if path.endswith(("/.", "/..")):
        segments.append("")
    return "/".join(segments)


def other_forms(uri: str) -> list[str]:
    """Return the URI with an empty path, if it has the path `/`, or the reverse: the two are equal."""
    head = _HEAD.fullmatch(uri.removesuffix("/"))
    if head is None or not head[2]:
        return []
    return [uri.removesuffix("/") if uri.endswith("/") else f"{uri}/"]

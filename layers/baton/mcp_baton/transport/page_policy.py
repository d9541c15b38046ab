"""The content security policy of Baton's pages (Content Security Policy Level 3)."""

import re
from binascii import b2a_base64
from collections.abc import Iterator
from hashlib import sha256
from typing import Final

_NONE: Final = "'none'"
_ELEMENT: Final = re.compile(r"<(script|style)\b[^>]*>(.*?)</\1\s*>", re.DOTALL | re.IGNORECASE)


def policy(html: str, sign_in_url: str = "") -> str:
    """The policy of a page: only its inline scripts and styles, and requests to its own host and to the authorization
    server."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {' '.join(_hashes(html, 'script')) or _NONE}",
            f"style-src {' '.join(_hashes(html, 'style')) or _NONE}",
            f"connect-src 'self' {sign_in_url}".rstrip(),
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            # No text is ever read as HTML (Trusted Types).
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


def _hashes(html: str, element: str) -> Iterator[str]:
    """The hash of each element with this name, as a source in a policy."""
    for name, content in _ELEMENT.findall(html):
        if name.lower() == element:
            yield f"'sha256-{b2a_base64(sha256(content.encode()).digest(), newline=False).decode()}'"

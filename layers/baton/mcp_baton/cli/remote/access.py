"""The URL and the credentials of a server, from options of a command (docs/commands.md, Where: URLs and files)."""

import os
from collections.abc import Mapping, Sequence
from typing import override

from msgspec import Struct

from mcp_baton.cli.options import ConnectionOptions, header_name
from mcp_baton.exceptions import BatonError


class Access(Struct, frozen=True):
    """The URL of a server, and the values of the credentials.

    Attributes:
        api_key: Sent as `x-api-key`.
        token: Sent as `Authorization: Bearer`.
        aws: Whether requests are signed with AWS credentials.
        insecure_http: Whether credentials may be sent to another machine over HTTP without TLS.
    """

    url: str
    api_key: str | None = None
    token: str | None = None
    aws: bool = False
    headers: Mapping[str, str] = {}
    insecure_http: bool = False

    @override
    def __repr__(self) -> str:
        """Return a text without secrets."""
        return f"Access({self.url!r})"


def access_of(connection: ConnectionOptions) -> Access:
    """Return the URL and the credentials that the options name."""
    url = connection.where or ""
    if "://" not in url:
        raise BatonError(
            f"{url!r} is neither a URL (https://…/mcp) nor a file or module with a Server (app.py, shop.mcp:server)"
        )
    if not url.startswith(("http://", "https://")):
        raise BatonError(f"{url} is not an HTTP URL: begin it with http:// or https://")
    if connection.aws and connection.token is not None:
        raise BatonError("a request is either signed or has a bearer token: omit --token or --aws")
    return Access(
        url,
        api_key=_secret(connection.api_key, "--api-key"),
        token=_secret(connection.token, "--token"),
        aws=connection.aws,
        headers=_headers(connection.header or ()),
        insecure_http=connection.insecure_http,
    )


def _secret(value: str | None, option: str) -> str | None:
    """Return a secret: the text itself, or the variable of `env:NAME`."""
    if value == "":
        raise BatonError(f"{option} is empty")
    if value is None or not value.startswith("env:"):
        return value
    variable = value.removeprefix("env:")
    if not os.environ.get(variable):
        raise BatonError(f"{option} comes from the variable {variable}, which is not set")
    return os.environ[variable]


def _headers(texts: Sequence[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for text in texts:
        name, colon, value = map(str.strip, text.partition(":"))
        if not colon:
            # The message does not repeat the text, which may be a secret.
            raise BatonError("--header is NAME:VALUE, and one has no colon")
        headers[header_name(name)] = _secret(value or None, "--header") or ""
    return headers

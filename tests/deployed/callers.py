"""Who calls: what a request needs beside its message to get to an API as somebody."""

from collections.abc import Generator, Mapping
from typing import override

import httpx2
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.deployed.machine import REGION


class Caller(httpx2.Auth):
    """A caller who says who they are in headers, or says nothing.

    Args:
        host: The API's host name, by which the twin finds it; none where the address says it already.
        headers: Who the caller is.
    """

    def __init__(self, host: str | None = None, headers: Mapping[str, str] | None = None) -> None:
        self.host = host
        self.headers = headers or {}

    @override
    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response]:
        """Add the headers."""
        if self.host is not None:
            request.headers["Host"] = self.host
        request.headers.update(self.headers)
        yield request


class SigningCaller(Caller):
    """A caller with an AWS identity, who signs each request with Signature Version 4.

    Args:
        host: The API's host name.
        key: The identity's access key.
        secret: Its secret.
    """

    requires_request_body = True

    def __init__(self, host: str, key: str, secret: str) -> None:
        super().__init__(host)
        self._signer = SigV4Auth(Credentials(key, secret), "execute-api", REGION)

    @override
    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response]:
        """Sign, the body included."""
        # The signature is for the host that the request is sent to by name, not for the twin's address.
        url = str(request.url.copy_with(netloc=str(self.host).encode()))
        signed = AWSRequest(request.method, url, headers={"Host": str(self.host)}, data=request.content)
        self._signer.add_auth(signed)
        request.headers.update(dict(signed.headers.items()))
        yield request

"""Callers: what identifies the caller of a request to a deployed API."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import httpx2
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.deployed.machine import REGION

type Caller = Callable[[httpx2.Request], httpx2.Request]
"""Adds the caller's credentials to a request, as httpx's `auth` does."""


@dataclass(frozen=True, slots=True)
class HeaderCaller:
    """A caller identified by headers, or anonymous. The `Host` header tells the emulator which API is called."""

    headers: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, request: httpx2.Request) -> httpx2.Request:
        request.headers.update(self.headers)
        return request


def signing_caller(host: str, key: str, secret: str) -> Caller:
    """Return a caller with an AWS identity, which signs each request to this host with Signature Version 4."""

    def sign(request: httpx2.Request) -> httpx2.Request:
        # The signature is for the host that the request names, not for the emulator's address.
        url = str(request.url.copy_with(netloc=host.encode()))
        aws_request = AWSRequest(request.method, url, headers={"Host": host}, data=request.content)
        SigV4Auth(Credentials(key, secret), "execute-api", REGION).add_auth(aws_request)
        request.headers.update(dict(aws_request.headers.items()))
        return request

    return sign
